"""How far columns are believed in what they say of words: exact everywhere, and found on rows that were left out."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from model.arrays import pack_arrays, unpack_arrays
from model.bundle import read_bundle
from model.export import check_parity, export_onnx
from model.folded import read_folded
from model.graphs import write_folded
from model.linear import LinearExpert, expert_from_arrays
from model.network import Shape
from model.requests import Cells
from model.runtime import Predictor
from model.schema import Feature, Schema
from tests.conftest import make_positions, make_schema
from tests.test_export import run
from tests.test_extend import extend_here
from tests.test_linear import make_expert, number
from tests.test_network import make_network
from training.frames import fit_bundle

N_ROWS, N_NOISE = 160, 6


def draw_beliefs(n, seed=0):
    return np.random.default_rng(seed).uniform(0.0, 2.0, (n, n))


@pytest.fixture(scope="module")
def pair():
    """A network, and the same with beliefs."""
    schema = make_schema(6, 4)
    shape = Shape(n_members=2, n_heads=3, d_head=4, half_additive=True)
    plain, believing = (make_network(schema, shape) for _ in range(2))
    believing.load_state_dict(plain.state_dict())
    believing.beliefs.copy_(torch.from_numpy(draw_beliefs(10)))
    return schema, plain, believing


def test_what_a_column_says_counts_as_far_as_it_is_believed(pair):
    schema, *networks = pair
    every, positions = list(range(10)), make_positions(schema, 20, missing=0.3)
    plain, believing = (run(export_onnx(network, schema.digest()), every, positions, every) for network in networks)
    beliefs = draw_beliefs(10)
    assert np.abs(believing["contributions"] - beliefs[..., None] * plain["contributions"]).max() < 1e-5
    assert np.abs(believing["point_contributions"] - beliefs * plain["point_contributions"]).max() < 1e-5
    real = networks[0].layout.real.numpy()
    total = believing["base"] + believing["contributions"].sum(axis=2)
    assert np.abs(total - believing["logits"])[:, real].max() < 1e-5
    assert np.array_equal(plain["gates"], believing["gates"])  # a gate says what is heard, not what is made of it


def test_the_file_says_what_the_network_says(pair):
    schema, _, believing = pair
    positions = make_positions(schema, 20, missing=0.3)
    assert check_parity(believing, export_onnx(believing, schema.digest()), [(np.arange(10), positions)]) < 1e-5


def test_a_network_that_believes_all_alike_has_no_beliefs_in_its_file(pair):
    schema, plain, believing = pair
    contents = [export_onnx(network, schema.digest()) for network in (plain, believing)]
    assert [b"beliefs" in content for content in contents] == [False, True]
    assert [(read_folded(content).beliefs == 1.0).all() for content in contents] == [True, False]
    assert [write_folded(read_folded(content), schema.digest()) == content for content in contents] == [True, True]


def believing_expert():
    words = Feature("kind", "categorical", categories=("0", "1", "2"), shares=(0.5, 0.3, 0.2))
    either = Feature("is_new", "boolean", shares=(0.4, 0.6))
    schema = Schema((number("a"), words, number("bb"), either, number("ccc")))
    plain = make_expert(schema, 50)
    beliefs = np.ones((5, 5))
    beliefs[[1, 3]] = draw_beliefs(5)[[1, 3]]
    return schema, plain, LinearExpert(schema, plain.law, plain.lean, beliefs)


def draw_rows(rng, n_rows):
    rows = np.stack([rng.uniform(0, 9, n_rows), rng.integers(3, size=n_rows), rng.uniform(0, 9, n_rows)], axis=1)
    rows = np.concatenate([rows, rng.integers(2, size=(n_rows, 1)), rng.uniform(0, 9, (n_rows, 1))], axis=1)
    return np.where(rng.random(rows.shape) < 0.4, np.nan, rows).astype(np.float32)


def test_of_words_the_law_says_as_much_as_it_is_believed():
    _, plain, believing = believing_expert()
    rows, every = draw_rows(np.random.default_rng(1), 30), np.arange(5)
    before, after = (expert.tell(every, rows, every, explain=True) for expert in (plain, believing))
    assert np.array_equal(before.mean, after.mean)  # numbers are as they were
    for word in (1, 3):
        beliefs = believing.beliefs[word]
        assert after.base[:, word] == pytest.approx(beliefs[word] * before.base[:, word])
        assert after.parts[:, word] == pytest.approx(beliefs[:, None] * before.parts[:, word])
        assert after.base[:, word] + after.parts[:, word].sum(axis=1) == pytest.approx(after.logits[:, word])


def test_a_single_row_hears_the_same_beliefs():
    """A row alone is answered in a way of its own; the same row twice is not."""
    _, _, believing = believing_expert()
    rng = np.random.default_rng(2)
    for row in draw_rows(rng, 40)[:, None]:
        lacking = rng.permutation(np.flatnonzero(np.isnan(row[0])))
        one, two = (believing.tell(np.arange(5), rows, lacking) for rows in (row, row.repeat(2, axis=0)))
        assert one.mean == pytest.approx(two.mean[:1], abs=1e-9)
        assert one.logits == pytest.approx(two.logits[:1], abs=1e-9)


def test_beliefs_come_back_from_their_file_and_strange_ones_are_refused():
    schema, plain, believing = believing_expert()
    arrays = unpack_arrays(pack_arrays(believing.to_arrays()))
    assert np.array_equal(expert_from_arrays(schema, arrays).beliefs, believing.beliefs)
    assert "beliefs" not in plain.to_arrays()
    for strange in (np.ones((4, 5)), -np.ones((5, 5)), np.full((5, 5), np.nan)):
        with pytest.raises(ValueError, match="beliefs"):
            expert_from_arrays(schema, {**arrays, "beliefs": strange})


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fit of a word that hangs on one number, beside numbers that know nothing of it."""
    path = tmp_path_factory.mktemp("noisy") / "bundle"
    fit_bundle({"table": make_noisy()}, path)
    return path


def make_noisy() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    size = rng.normal(size=N_ROWS)
    frame = pd.DataFrame({"size": size, "word": np.where(size + 0.7 * rng.normal(size=N_ROWS) > 0, "large", "small")})
    for i in range(N_NOISE):
        frame[f"noise_{i}"] = rng.normal(size=N_ROWS)
    return frame


def test_what_knows_nothing_of_a_word_is_believed_less(noisy):
    bundle = read_bundle(noisy)
    index = bundle.schema.index
    beliefs = read_folded(bundle.network).beliefs
    assert np.allclose(beliefs, bundle.expert.beliefs, atol=1e-6)
    of_word = beliefs[index["word"]]
    assert of_word[index["size"]] > 0.1 + max(of_word[index[f"noise_{i}"]] for i in range(N_NOISE))
    assert (np.delete(beliefs, index["word"], axis=0) == 1.0).all()  # numbers believe all as they did
    assert bundle.calibration.temper[index["word"]] == 1.0


def test_explanations_add_up_to_what_is_served(noisy):
    predictor = Predictor.load(noisy)
    rows = {"size": [0.5, -2.0, None], "noise_0": [1.0, None, None]}
    told = predictor.predict(rows, "word", table="table", explain=True).experts
    total = np.asarray(told.base) + np.asarray(told.contributions).sum(axis=1)
    assert total == pytest.approx(np.asarray(told.score), abs=1e-4)
    brief = predictor.predict(rows, "word", table="table")
    assert brief.mass == pytest.approx(predictor.predict(rows, "word", table="table", explain=True).mass, abs=1e-5)


def test_with_a_named_target_nothing_is_weighed(tmp_path):
    fit_bundle({"table": make_noisy()}, tmp_path / "bundle", target="word", epochs=1.0)
    bundle = read_bundle(tmp_path / "bundle")
    assert (read_folded(bundle.network).beliefs == 1.0).all()
    assert bundle.expert.beliefs is None


def test_extend_keeps_what_is_believed_of_old_columns(noisy, tmp_path):
    rng = np.random.default_rng(1)
    size = rng.normal(size=80)
    new = pd.DataFrame(
        {"size": size, "word": np.where(size > 0, "large", "small"), "girth": size + rng.normal(size=80)}
    )
    new.to_csv(tmp_path / "new.csv", index=False)
    old, more = read_bundle(noisy), extend_here(tmp_path / "new.csv", noisy, tmp_path / "more")
    n = len(old.schema.features)
    for before, after in zip(*([read_folded(b.network).beliefs, b.expert.beliefs] for b in (old, more)), strict=True):
        assert np.array_equal(before, after[:n, :n])
        assert (after[n:] == 1.0).all()
        assert (after[:, n:] == 1.0).all()
    rows = make_positions(old.schema, 30, missing=0.4)
    before, after = (Predictor(replace(b)).ask(Cells.of(np.arange(n), rows), range(n)) for b in (old, more))
    real = np.asarray([np.arange(old.schema.n_values) < feature.n_values for feature in old.schema.features])
    assert before["logits"][:, real] == pytest.approx(after["logits"][..., : real.shape[1]][:, real], abs=1e-4)
