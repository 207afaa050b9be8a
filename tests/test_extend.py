"""A new table's features in a bundle: learnt without the old data, and without disturbing what was there."""

import argparse
import csv
import json
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from model.bundle import read_bundle, write_bundle
from model.errors import FamilyError, TabglotError
from model.extension import N_NEW_HEADS
from model.folded import read_folded
from model.graphs import write_folded
from model.law import PLAIN, NormalLaw
from model.linear import LinearExpert
from model.requests import Cells
from model.runtime import Predictor
from model.similarity import find_similar
from tests.conftest import make_positions, run_training
from training.column_links import read_columns
from training.extend_command import extend_bundle
from training.extended_bundle import WRITTEN
from training.extending import _answer, _prepare, start_network
from training.extending_check import check_extension
from training.extending_law import _extend_law, extend_expert
from training.joining import join_table
from training.settings import choose_settings


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


def extend_here(table, bundle, out, **options):
    """The same in this process: quicker, and errors are raised."""
    usual = {"schema": None, "name": None, "epochs": 1.0, "seed": 0, "force": False, "quiet": True}
    extend_bundle(argparse.Namespace(table=table, bundle=bundle, out=out, **{**usual, **options}))
    return read_bundle(out)


def run_onnx(bundle, columns, positions, asked):
    session = onnxruntime.InferenceSession(bundle.network, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    feed = {"columns": columns, "positions": positions, "asked": asked}
    return dict(zip(names, session.run(None, feed), strict=True))


def own_values(schema, n_values):
    """Which of the padded values each feature has, (F, K)."""
    return np.asarray([np.arange(n_values) < feature.n_values for feature in schema.features])


@pytest.fixture(scope="module")
def extended(garage, schema, small_bundle, tmp_path_factory):
    out = tmp_path_factory.mktemp("extended") / "more"
    answer = extend(garage, small_bundle, out, "--schema", str(schema), "--epochs", "10")
    assert answer.returncode == 0, answer.stderr
    return out


@pytest.mark.parametrize("bends", [True, False])
def test_new_columns_lie_on_lines_through_those_old_dimensions_that_are_heard(bends):
    law = NormalLaw(np.asarray([0, 0, 1, 1]), np.asarray([-1, -2, -1, -2]), np.zeros(4), np.eye(4))
    rng = np.random.default_rng(0)
    old = rng.normal(size=(900, 4))
    rows = np.c_[old, old @ [1.0, 0.5, 0.0, 0.5] + 0.1 * rng.normal(size=len(old))]
    _, covariance = _extend_law(law, rows, np.ones(5), (law.value == PLAIN) | bends)
    assert covariance[4, 0] == pytest.approx(1.0, abs=0.1)
    assert covariance[4, [1, 3]] == pytest.approx(0.5 if bends else 0.0, abs=0.1)
    assert np.array_equal(covariance[:4, :4], law.covariance)
    assert np.linalg.eigvalsh(covariance)[0] > 0.0


def test_a_law_without_orders_gets_none_with_new_columns(small_bundle, garage, schema):
    """Bundles of before have none."""
    bundle = read_bundle(small_bundle)
    law = bundle.expert.law
    assert law.value.min() < PLAIN
    plain = np.flatnonzero(law.value >= PLAIN)
    before = NormalLaw(law.owner[plain], law.value[plain], law.mean[plain], law.covariance[np.ix_(plain, plain)])
    joined = join_table(bundle.schema, garage, name="garage", columns=read_columns(schema))
    expert = extend_expert(LinearExpert(bundle.schema, before, bundle.expert.lean, bundle.expert.beliefs), joined)
    assert len(expert.law.value) > len(plain)
    assert expert.law.value.min() == PLAIN


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


def test_network_law_and_calibration_say_of_old_rows_what_they_said(small_bundle, extended):
    old, new = read_bundle(small_bundle), read_bundle(extended)
    n, k = len(old.schema.features), old.schema.n_values
    every, positions = np.arange(n), make_positions(old.schema, 100, missing=0.4)
    before, after = (run_onnx(bundle, every, positions, every) for bundle in (old, new))
    real = own_values(old.schema, k)
    assert np.abs(before["logits"] - after["logits"][..., :k])[:, real].max() < 1e-6
    assert np.abs(before["point"] - after["point"]).max() < 1e-6
    assert np.abs(before["gates"] - after["gates"]).max() < 1e-6
    first, second = (bundle.expert.tell(every, positions, every) for bundle in (old, new))
    assert np.array_equal(first.mean, second.mean)
    assert np.array_equal(first.logits[:, real], second.logits[..., :k][:, real])
    for name, array in old.calibration.to_arrays().items():
        assert np.array_equal(array, new.calibration.to_arrays()[name][:n])


def test_contributions_of_old_and_new_columns_add_up(extended):
    predictor = Predictor.load(extended)
    schema = predictor.schema
    every = np.arange(len(schema.features))
    got = predictor.ask(Cells.of(every, make_positions(schema, 20, missing=0.4)), every.tolist(), explain=True)
    words = own_values(schema, schema.n_values) & ~np.asarray([[f.is_number] for f in schema.features])
    total = got["base"] + got["contributions"].sum(axis=2)
    # Values that never occur have logits of many thousands: there single precision is coarser than the tolerance.
    assert np.allclose(total[:, words], got["logits"][:, words], rtol=1e-6, atol=1e-4)
    assert np.abs(got["point_base"] + got["point_contributions"].sum(axis=2) - got["point"]).max() < 1e-4
    answer = predictor.predict({"kilos": [1500], "thirst": [12.0]}, "mpg", table="garage", explain=True)
    heard = answer.experts.contributions
    assert np.abs(heard[0]).min() > 0.0


def test_bundles_of_before_had_heads_first_and_are_read_all_the_same(small_bundle):
    bundle = read_bundle(small_bundle)
    model = onnx.load_model_from_string(bundle.network)
    for tensor in model.graph.initializer:
        if tensor.name == "pairs":
            heads_first = np.moveaxis(onnx.numpy_helper.to_array(tensor), -1, 0)
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.ascontiguousarray(heads_first), "pair"))
    assert write_folded(read_folded(model.SerializeToString()), bundle.schema.digest()) == bundle.network


def test_the_network_that_learns_is_the_one_that_is_written(small_bundle, garage, schema):
    bundle = read_bundle(small_bundle)
    joined = join_table(bundle.schema, garage, name="garage", columns=read_columns(schema))
    folded, columns = read_folded(bundle.network), joined.table.columns
    assert write_folded(folded, bundle.schema.digest()) == bundle.network
    torch.manual_seed(0)
    network = start_network(folded, joined, torch.ones(len(columns)))
    with torch.no_grad():
        for weight in network.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
    wide = folded.resize(joined.schema.n_values).add_heads(N_NEW_HEADS).grow(len(joined.schema.features))
    wide = wide.put(network.fold(), columns.tolist(), n_old=joined.n_old, n_new_heads=N_NEW_HEADS)
    content = write_folded(wide, joined.schema.digest())
    assert check_extension(network, content, joined) < 1e-5
    with torch.no_grad():
        network.new_parts.constant += 0.1
    with pytest.raises(RuntimeError, match="differ by"):
        check_extension(network, content, joined)


def test_members_that_are_louder_than_others_learn_as_if_they_were_alone(small_bundle, garage, schema):
    bundle = read_bundle(small_bundle)
    joined = join_table(bundle.schema, garage, name="garage", columns=read_columns(schema))
    folded, weight = read_folded(bundle.network), bundle.schema.index["weight"]
    m = folded.n_members
    voices = np.linspace(0.05, 1.95, m)
    rows = folded.rows.copy()
    rows[weight] *= np.repeat(voices, folded.n_heads // m)[:, None, None]  # as an exported network has them
    asked = torch.tensor([joined.table.columns.tolist().index(weight)])
    temper = torch.ones(len(joined.table.columns))
    answers = []
    for tables, known in ((folded, {}), (replace(folded, rows=rows), {"weight": voices.tolist()})):
        torch.manual_seed(0)
        network = start_network(tables, joined, temper)
        settings = replace(choose_settings("moe", 300, 1_200), shape=network.shape)
        manifest = {"target": None, "training": {"voices": known}}
        lesson = _prepare(joined, None, temper, settings, manifest=manifest, seed=0)
        answers.append(_answer(network, lesson, lesson.seen, asked))
    alike, loud = answers
    assert (alike.logits[:, :, :4] - loud.logits[:, :, :4]).abs().max() < 1e-4
    assert (alike.point - loud.point).abs().max() < 1e-4


def test_shares_that_are_doubted_when_served_are_believed_while_new_columns_are_learnt(small_bundle, garage, schema):
    bundle = read_bundle(small_bundle)
    joined = join_table(bundle.schema, garage, name="garage", columns=read_columns(schema))
    folded, cylinders = read_folded(bundle.network), bundle.schema.index["cylinders"]
    m, n_heads = folded.n_members, folded.n_heads // folded.n_members
    doubts = np.linspace(0.1, 0.4, m)
    shares = np.asarray(bundle.schema.features[cylinders].shares)
    rarity = shares @ np.log(shares) - np.log(shares)
    rows = folded.rows.copy()
    by_head = np.repeat(doubts, n_heads)[:, None] * rarity / (n_heads * m)
    rows[cylinders, :, -1, : len(shares)] += by_head  # as an exported network has them
    asked = torch.tensor([joined.table.columns.tolist().index(cylinders)])
    temper = torch.ones(len(joined.table.columns))
    answers = []
    for tables, known in ((folded, {}), (replace(folded, rows=rows), {"cylinders": doubts.tolist()})):
        torch.manual_seed(0)
        network = start_network(tables, joined, temper)
        settings = replace(choose_settings("moe", 300, 1_200), shape=network.shape)
        training = {"doubts": known, "settings": {"shape": {"n_heads": n_heads}}}
        manifest = {"target": None, "training": training}
        lesson = _prepare(joined, None, temper, settings, manifest=manifest, seed=0)
        answers.append(_answer(network, lesson, lesson.seen, asked).logits[:, :, : len(shares)])
    assert (answers[0] - answers[1]).abs().max() < 1e-4


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


def test_a_feature_of_more_values_than_any_before_finds_room(small_bundle, tmp_path):
    n_words = read_bundle(small_bundle).schema.n_values + 5
    lines = [f"{2000 + 7 * i},w{i % n_words}" for i in range(4 * n_words)]
    (tmp_path / "words.csv").write_text("\n".join(["weight,word", *lines]))
    bundle = extend_here(tmp_path / "words.csv", small_bundle, tmp_path / "out")
    assert bundle.schema.n_values > n_words - 5
    old, new = Predictor.load(small_bundle), Predictor(bundle)
    for target in ("mpg", "origin"):
        before, after = (p.predict({"weight": [2500, 4000]}, target) for p in (old, new))
        assert before.mass == pytest.approx(after.mass, abs=1e-6)


def test_a_table_of_known_columns_is_added_and_one_that_shares_none_too(small_bundle, tmp_path, capsys):
    rows = [f"{2000 + 40 * i},{30 - i // 4},{i % 3}" for i in range(60)]
    (tmp_path / "known.csv").write_text("\n".join(["weight,mpg", *(row.rpartition(",")[0] for row in rows)]))
    bundle = extend_here(tmp_path / "known.csv", small_bundle, tmp_path / "a", quiet=False)
    assert "nothing is learnt" in capsys.readouterr().err
    assert bundle.network == read_bundle(small_bundle).network
    assert Predictor(bundle).predict({"weight": [3000]}, "mpg", table="known").values
    (tmp_path / "strange.csv").write_text("\n".join(["heft,reach,sort", *rows]))
    bundle = extend_here(tmp_path / "strange.csv", small_bundle, tmp_path / "b", quiet=False)
    assert "no column is a known feature" in capsys.readouterr().err
    assert Predictor(bundle).predict({"heft": [3000]}, "reach").values


def test_the_reference_network_is_refused_with_the_reason(small_bundle, garage, tmp_path):
    bundle = read_bundle(small_bundle)
    facts = {key: value for key, value in bundle.manifest.items() if key not in WRITTEN}
    facts |= {"preset": "paper", "additive": False}
    paper = tmp_path / "paper"
    write_bundle(paper, facts=facts, schema=bundle.schema, network=bundle.network, encodings=bundle.encodings)
    with pytest.raises(FamilyError, match=r"'paper' cannot be extended: all its features share .*; fit it again"):
        extend_here(garage, paper, tmp_path / "out")


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"kilo": {"feature": "weight"}}, "no column 'kilo'; did you mean 'kilos'"),
        ({"kilos": {"feature": "weight", "scale": 0}}, "scale must not be 0"),
        ({"kilos": {"features": "weight"}}, 'expected {"feature": NAME}'),
        ({"kilos": {"feature": "weight"}, "thirst": {"feature": "weight"}}, "'kilos' and 'thirst' are both"),
        ({"size": {"feature": "weight"}}, r"'weight' is numeric, but here it holds text, e\.g\. '(big|small)'"),
        ({"size": {"feature": "origin", "scale": 2}}, "'origin' is categorical: it takes no scale"),
    ],
)
def test_a_schema_that_cannot_be_is_told(small_bundle, garage, tmp_path, columns, reason):
    (tmp_path / "schema.json").write_text(json.dumps({"columns": columns}))
    with pytest.raises(TabglotError, match=reason):
        extend_here(garage, small_bundle, tmp_path / "out", schema=tmp_path / "schema.json")
    assert not (tmp_path / "out").exists()


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
