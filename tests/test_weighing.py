"""Members weighed by how they answer for rows unlike those they have learnt from."""

import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from model.runtime import Predictor
from training.frames import fit_bundle
from training.reproduce.arrays import adapt_side_by_side, ask_side_by_side, to_dataset
from training.settings import choose_settings
from training.weighing import _find_ends, _leave_out, fit_weighed

N_ROWS, N_LEVELS = 200, 5


def make_rows(n: int, seed: int, shift: float = 0.0):
    """Three columns and a target of five levels each, all rising with one cause; ``shift`` moves the cause."""
    rng = np.random.default_rng(seed)
    cause = rng.normal(shift, 1.0, (n, 1))
    cells = np.clip(np.rint(2.0 + 1.2 * (cause + 0.6 * rng.normal(size=(n, 4)))), 0, N_LEVELS - 1).astype(np.int64)
    return cells[:, :3], cells[:, 3]


def make_dataset():
    return to_dataset(*make_rows(N_ROWS, 0), [N_LEVELS] * 4)


@pytest.fixture(scope="module")
def settings():
    return replace(choose_settings("moe", N_ROWS, 4 * N_ROWS), min_steps=60, steps_per_row=0.1)


@pytest.fixture(scope="module")
def weighed(settings):
    return fit_weighed(make_dataset(), settings)


def test_each_kind_of_member_is_heard_on_the_target_by_its_own_weight(weighed):
    voices = weighed.network.voices
    assert weighed.settings.shape.half_steady
    assert voices[:, :3].eq(1.0).all()  # other columns are not weighed
    target = voices[:, 3].view(-1, 4)
    assert target.eq(target[0]).all()  # one weight for each kind
    assert target[0].mean().item() == pytest.approx(1.0, abs=1e-6)
    assert target[0].min() > 0.0
    assert target[0].std() > 1e-3


def test_the_same_seed_gives_the_same_voices(weighed, settings):
    assert fit_weighed(make_dataset(), settings).network.voices.equal(weighed.network.voices)


def test_weighed_members_answer_for_the_target_as_a_weighted_mean(weighed):
    network = weighed.network
    x, _ = make_rows(20, 1)
    rows = torch.from_numpy(x.astype(np.float32)).expand(network.shape.n_members, -1, -1)
    together = torch.from_numpy(ask_side_by_side(weighed, [x])[0])
    weights = network.voices[:, 3] / network.shape.n_members
    voices, network.voices = network.voices, torch.ones_like(network.voices)
    with torch.no_grad():
        alone = network(torch.arange(3), rows, torch.tensor([3])).logits[:, 0].double()  # (M, K, B)
    network.voices = voices
    expected = torch.einsum("m,mkb->bk", weights.double(), alone).softmax(1)
    assert (together - expected).abs().max() < 1e-5


def test_rows_at_both_ends_of_the_main_directions_are_left_out():
    dataset = make_dataset()
    table = dataset.tables[0]
    low, high = _find_ends(table, dataset, seed=0)[:2]
    assert len(low) == len(high) == N_ROWS // 5
    ends = sorted((table.positions[low, :3].mean(), table.positions[high, :3].mean()))
    assert ends[0] < 1.0
    assert ends[1] > 3.0


def test_what_is_left_out_is_not_learnt_from_nor_counted():
    dataset = make_dataset()
    folds = _leave_out(dataset, seed=0)
    assert len(folds) == 4
    for fold, ends in folds:
        table = fold.tables[0]
        assert table.held_out[ends[0]].all()
        assert table.held_out.sum() == len(ends[0])
        learnt = table.positions[~table.held_out][:, 3]
        shares = np.asarray(fold.schema.features[3].shares)
        assert shares == pytest.approx(
            (np.bincount(learnt.astype(int), minlength=N_LEVELS) + 0.5) / (len(learnt) + 2.5)
        )
    assert not dataset.tables[0].held_out.any()


def test_tables_of_one_kind_lose_the_same_end():
    dataset = make_dataset()
    for seed in range(1, 6):
        other = to_dataset(*make_rows(N_ROWS, seed), [N_LEVELS] * 4)
        for data in (dataset, other):
            low, high = (data.tables[0].positions[some, :3].mean() for some in _find_ends(data.tables[0], data, 0)[:2])
            assert low < high


def test_only_tables_that_know_the_target_are_cut():
    dataset = make_dataset()
    table = dataset.tables[0]
    blind = replace(table, name="blind", columns=table.columns[:3], positions=table.positions[:, :3])
    small = replace(table, name="small", positions=table.positions[:30], held_out=table.held_out[:30])
    folds = _leave_out(replace(dataset, tables=(blind, table, small)), seed=0)
    assert len(folds) == 4
    for fold, ends in folds:
        assert list(ends) == [1]
        assert [int(t.held_out.sum()) for t in fold.tables] == [0, N_ROWS // 5, 0]


def test_holes_are_no_hindrance(settings):
    dataset = make_dataset()
    table = dataset.tables[0]
    positions = table.positions.copy()
    positions[np.random.default_rng(0).random(positions.shape) < 0.3] = np.nan
    holey = replace(dataset, tables=(table, replace(table, name="holey", positions=positions)))
    voices = fit_weighed(holey, replace(settings, min_steps=5, steps_per_row=0.0)).network.voices
    assert torch.isfinite(voices).all()
    assert voices[:, 3].std() > 0.0


def test_data_sets_beside_each_other_are_weighed_each_by_itself(settings):
    datasets = [to_dataset(*make_rows(N_ROWS, seed), [N_LEVELS] * 4) for seed in (0, 1)]
    few = replace(settings, min_steps=20, steps_per_row=0.0)
    both = replace(few, shape=replace(few.shape, n_members=2 * few.shape.n_members))
    voices = fit_weighed(datasets[0], both, beside=datasets[1:]).network.voices[:, 3].view(2, -1, 4)
    assert voices.mean((1, 2)).tolist() == pytest.approx([1.0, 1.0])
    assert voices.eq(voices[:, :1]).all()
    assert (voices[0, 0] - voices[1, 0]).abs().max() > 1e-3


def test_a_fit_that_adapts_hears_all_members_alike_again(weighed):
    adapted = replace(weighed, network=copy.deepcopy(weighed.network))
    x, _ = make_rows(60, 1)
    adapt_side_by_side(adapted, [make_dataset()], [x], seed=0)
    assert adapted.network.voices.eq(1.0).all()


def test_a_bundle_says_how_loud_its_members_are_and_its_answers_add_up(tmp_path):
    x, y = make_rows(N_ROWS, 0)
    frame = pd.DataFrame(x + np.random.default_rng(0).normal(0.0, 0.1, x.shape), columns=["a", "b", "c"])
    fit_bundle({"rows": frame.assign(y=y)}, tmp_path / "b", target="y", kinds={"y": "ordinal"}, epochs=2.0)
    predictor = Predictor.load(tmp_path / "b")
    voices = predictor.bundle.manifest["training"]["voices"]
    assert list(voices) == ["y"]
    assert np.mean(voices["y"]) == pytest.approx(1.0, abs=1e-6)
    answer = predictor.predict({"a": [1.0, 3.5], "b": [None, 3.0]}, "y", table="rows", explain=True)
    assert answer.experts is not None
    total = np.asarray(answer.experts.base) + np.asarray(answer.experts.contributions).sum(1)
    assert total == pytest.approx(np.asarray(answer.experts.score), abs=1e-4)


def test_a_row_without_the_target_is_never_left_out():
    dataset = make_dataset()
    table = dataset.tables[0]
    positions = table.positions.copy()
    positions[::2, 3] = np.nan
    ends = _find_ends(replace(table, positions=positions), dataset, seed=0)
    assert all((some % 2 == 1).all() for some in ends)


@pytest.mark.parametrize(
    "why", ["no target", "a word", "two levels", "many levels", "many rows", "few columns", "few rows"]
)
def test_otherwise_members_are_as_loud_as_each_other(why, settings):
    dataset = make_dataset()
    few = replace(settings, min_steps=1, steps_per_row=0.0)
    if why == "no target":
        dataset = replace(dataset, target=None)
    elif why == "a word":
        schema = dataset.schema
        word = replace(schema.features[3], kind="categorical", bins=None, categories=tuple("abcde"))
        dataset = replace(dataset, schema=replace(schema, features=(*schema.features[:3], word)))
    elif why == "two levels":
        x, y = make_rows(N_ROWS, 0)
        dataset = to_dataset(x, (y > 1).astype(np.int64), [N_LEVELS] * 3 + [2])
    elif why == "many levels":
        x, y = make_rows(N_ROWS, 0)
        dataset = to_dataset(x, x[:, 0] + y, [N_LEVELS] * 3 + [2 * N_LEVELS - 1])
    elif why == "many rows":
        few = replace(choose_settings("moe", 1_000, 4_000), epochs=0.01)
    elif why == "few columns":
        x, y = make_rows(N_ROWS, 0)
        dataset = to_dataset(x[:, :1], y, [N_LEVELS] * 2)
    else:
        dataset = to_dataset(*make_rows(90, 0), [N_LEVELS] * 4)
    fitted = fit_weighed(dataset, few)
    assert fitted.network.voices.eq(1.0).all()
    assert not fitted.settings.shape.half_steady


def test_progress_goes_on_through_both_fits(settings):
    seen = []
    fit_weighed(make_dataset(), replace(settings, min_steps=10, steps_per_row=0.0), report=seen.append)
    shares = [check.step / check.n_steps for check in seen]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
