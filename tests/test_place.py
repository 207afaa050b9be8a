"""A table never seen: placed by the command, matched over HTTP, then served under its own names."""

import csv
import json

import pytest

from tests.conftest import run_training
from tests.server import running


@pytest.fixture(scope="module")
def garage(cars, tmp_path_factory):
    """The cars of auto.csv in other names and units, without the columns that mtcars has under the same names."""
    with (cars / "auto.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    path = tmp_path_factory.mktemp("garage") / "garage.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["kilos", "litres_per_100", "zylinder", "litres", "power", "note"])
        for i, line in enumerate(lines):
            writer.writerow(
                [
                    round(float(line["weight"]) * 0.45359237, 1),
                    round(235.215 / float(line["mpg"]), 2),
                    line["cylinders"],
                    round(float(line["displacement"]) / 61.0237, 2),
                    line["horsepower"],
                    f"car {i}",
                ]
            )
    return path


def place(garage, small_bundle, *options):
    return run_training("place", str(garage), "--bundle", str(small_bundle), *options)


def test_the_columns_of_a_new_table_are_found_with_signs_and_units(garage, small_bundle, tmp_path):
    schema = tmp_path / "schema.json"
    answer = place(garage, small_bundle, "--left", "auto", "--schema", str(schema))
    assert answer.returncode == 0, answer.stderr
    lines = {line.split()[0]: line.split()[1:] for line in answer.stdout.splitlines()}
    assert lines["litres_per_100"][0] == "mpg"
    assert lines["note"][0] == "-"
    columns = json.loads(schema.read_text())["columns"]
    assert {name: entry["feature"] for name, entry in columns.items()} == {
        "kilos": "weight", "zylinder": "cylinders", "litres": "displacement", "power": "horsepower",
    }  # fmt: skip
    assert columns["kilos"]["scale"] == pytest.approx(2.2046, rel=1e-3)
    assert columns["litres"]["scale"] == pytest.approx(61.02, rel=1e-3)


def test_without_a_table_to_compare_with_all_are_tried(garage, small_bundle):
    answer = place(garage, small_bundle, "--json", "--no-names")
    assert answer.returncode == 0, answer.stderr
    told = {match["column"]: match for match in json.loads(answer.stdout)["matches"]}
    assert told["kilos"]["feature"] == "weight"
    assert (told["litres_per_100"]["feature"], told["litres_per_100"]["sign"]) == ("mpg", -1)


@pytest.mark.parametrize(
    ("options", "reason"), [(["--left", "autos"], "did you mean 'auto'"), (["--least", "2"], "from 0 to 1")]
)
def test_mistakes_are_told(garage, small_bundle, options, reason):
    answer = place(garage, small_bundle, *options)
    assert answer.returncode == 2
    assert reason in answer.stderr


def test_a_new_source_is_matched_registered_and_served(garage, small_bundle, tmp_path):
    with garage.open(newline="") as file:
        rows = [
            {name: cell if name == "note" else float(cell) if cell else None for name, cell in line.items()}
            for line in csv.DictReader(file)
        ]
    with running(tmp_path, "--bundle", str(small_bundle)) as server:
        client = server.client
        told = client.post("/encodings/matches", json={"left": "auto", "rows": rows}).json()
        assert {"left": "mpg", "right": "litres_per_100", "sign": -1}.items() <= next(
            match for match in told["matches"] if match["right"] == "litres_per_100"
        ).items()
        assert "note" in told["unmatched"]["right"]
        assert {entry["column"] for entry in told["placed"]} == set(rows[0])
        assert client.put("/schemas/garage", json=told["schema"]).status_code == 200
        body = {"target": "mpg", "table": "garage", "rows": [{"kilos": 1589.4, "zylinder": 8, "litres": 5.03}]}
        value = client.post("/predict", json=body).json()["predictions"][0]["value"]
        same = {"target": "mpg", "rows": [{"weight": 3504, "cylinders": 8, "displacement": 307}]}
        assert value == pytest.approx(client.post("/predict", json=same).json()["predictions"][0]["value"], rel=0.02)
