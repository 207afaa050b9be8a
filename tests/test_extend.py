"""A new table's features in a bundle: learnt without the old data, and without disturbing what was there."""

import csv
import json

import numpy as np
import pytest

from model.bundle import read_bundle
from model.requests import Cells
from model.runtime import Predictor
from model.similarity import find_similar
from tests.conftest import run_training


@pytest.fixture(scope="module")
def garage(cars, tmp_path_factory):
    """The cars of auto.csv with a known column under another name and unit, and two columns that nobody has seen."""
    with (cars / "auto.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("garage") / "garage.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["cylinders", "kilos", "thirst", "size"])
        for line in lines:
            weight = float(line["weight"])
            thirst = 235.2 / float(line["mpg"]) + rng.normal(0.0, 0.3)
            writer.writerow(
                [line["cylinders"], round(weight * 0.4536, 1), round(thirst, 2), "big" if weight > 3000 else "small"]
            )
    return path


@pytest.fixture(scope="module")
def schema(garage):
    path = garage.with_name("schema.json")
    path.write_text(json.dumps({"columns": {"kilos": {"feature": "weight", "scale": 2.2046}}}))
    return path


def extend(table, bundle, out, *options):
    return run_training("extend", str(table), "--bundle", str(bundle), "--out", str(out), *options)


@pytest.fixture(scope="module")
def extended(garage, schema, small_bundle, tmp_path_factory):
    out = tmp_path_factory.mktemp("extended") / "more"
    answer = extend(garage, small_bundle, out, "--schema", str(schema), "--epochs", "10")
    assert answer.returncode == 0, answer.stderr
    return out


def test_what_was_there_is_not_disturbed(small_bundle, extended):
    old, new = Predictor.load(small_bundle), Predictor.load(extended)
    n = len(old.schema.features)
    assert [f.name for f in new.schema.features[:n]] == [f.name for f in old.schema.features]
    columns = np.asarray([old.schema.index[name] for name in ("weight", "cylinders", "mpg", "origin")])
    rng = np.random.default_rng(0)
    positions = np.stack([rng.uniform(0, old.schema.features[c].n_values - 1, 50) for c in columns], axis=1)
    positions[:, [1, 3]] = positions[:, [1, 3]].round()
    positions[rng.random(positions.shape) < 0.3] = np.nan
    cells = Cells.of(columns, positions.astype(np.float32))
    before, after = (predictor.ask(cells, range(n)) for predictor in (old, new))
    k = before["logits"].shape[2]
    assert np.abs(before["point"] - after["point"]).max() < 1e-5
    assert np.abs(before["logits"] - after["logits"][:, :, :k])[before["logits"] > -1e8].max() < 1e-4
    assert np.array_equal(old.bundle.encodings, new.bundle.encodings[:n])


def test_served_answers_stay_as_they_were(small_bundle, extended):
    old, new = Predictor.load(small_bundle), Predictor.load(extended)
    for target in ("mpg", "origin", "displacement"):
        rows = {"weight": [3504.0, 2100.0], "cylinders": [8, 4], "acceleration": [None, 15.0]}
        interval = 0.9 if target != "origin" else None
        before, after = (p.predict(rows, target, table="auto", interval=interval) for p in (old, new))
        assert before.mass == pytest.approx(after.mass, abs=1e-6)
        if target == "origin":
            assert before.values == after.values
        else:
            assert before.values == pytest.approx(after.values, rel=1e-5)
            assert np.asarray(before.interval) == pytest.approx(np.asarray(after.interval), rel=1e-5)


def test_new_features_are_learnt_calibrated_and_placed(extended):
    bundle = read_bundle(extended)
    scores = {(m["table"], m["column"]): m for m in bundle.manifest["metrics"] if m["table"] == "garage"}
    assert scores["garage", "thirst"]["value"] < 0.6 * scores["garage", "thirst"]["trivial"]
    assert scores["garage", "size"]["value"] > scores["garage", "size"]["trivial"]
    assert bundle.manifest["extended"][0]["features"] == ["thirst", "size"]
    assert "garage" in bundle.linking.portraits
    alike = {name: (value, sign) for name, value, sign in find_similar(bundle, "thirst", 100)}
    assert alike["mpg"][1] == -1
    assert alike["mpg"][0] > 0.6


def test_a_bundle_can_be_extended_again(garage, extended, tmp_path):
    answer = extend(garage, extended, tmp_path / "more", "--name", "again", "--epochs", "1")
    assert answer.returncode == 0, answer.stderr
    assert len(read_bundle(tmp_path / "more").manifest["extended"]) == 2


@pytest.mark.parametrize(
    ("name", "content", "options", "reason"),
    [
        ("auto.csv", "weight,new\n1,2\n", [], "--name"),
        ("few.csv", "weight,new\n1,2\n", [], "rows"),
        ("none.csv", "weight,new\n", [], "no rows"),
    ],
)
def test_what_cannot_be_is_told(small_bundle, tmp_path, name, content, options, reason):
    (tmp_path / name).write_text(content)
    answer = extend(tmp_path / name, small_bundle, tmp_path / "out", *options)
    assert answer.returncode == 2
    assert reason in answer.stderr
    assert "Traceback" not in answer.stderr
    assert not (tmp_path / "out").exists()
