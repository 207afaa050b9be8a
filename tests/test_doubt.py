"""After a fit the shares of an ordinal target's levels count a little less than the training rows would have it."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from model.runtime import Predictor
from model.schema import Schema
from training.doubting import doubt_shares
from training.fit import fit_network
from training.frames import fit_bundle
from training.reproduce.arrays import to_dataset
from training.settings import PRESETS, choose_settings

N_ROWS, N_LEVELS, TARGET = 1200, 4, 2


def make_rows(n: int, seed: int):
    """Two columns and a target that follows them; low levels are frequent, high ones rare."""
    rng = np.random.default_rng(seed)
    cause = rng.exponential(1.0, (n, 1))
    cells = np.clip(np.floor(cause + 0.3 * rng.normal(size=(n, 3))), 0, N_LEVELS - 1).astype(np.int64)
    return cells[:, :2], cells[:, 2]


@pytest.fixture(scope="module")
def settings():
    return choose_settings("moe", N_ROWS, 3 * N_ROWS, epochs=2.0)


@pytest.fixture(scope="module")
def dataset():
    return to_dataset(*make_rows(N_ROWS, 0), [N_LEVELS] * 3)


def answers(fitted):
    rows = torch.from_numpy(make_rows(50, 1)[0].astype(np.float32))
    cells = torch.cat([rows, torch.full((1, 2), torch.nan)]).expand(fitted.network.shape.n_members, -1, -1)
    with torch.no_grad():
        return fitted.network(torch.arange(2), cells, torch.arange(3)).logits.mean(0).softmax(1)  # (Q, K, B)


def test_the_target_is_drawn_to_even_shares_in_rows_in_which_something_is_heard(settings, dataset):
    sure, doubtful = (answers(fit_network(dataset, replace(settings, doubt=doubt))) for doubt in (0.0, 0.15))
    assert doubtful[:TARGET].equal(sure[:TARGET])  # other columns are answered as ever
    log_shares = torch.tensor(dataset.schema.features[TARGET].shares).log()
    moved = (doubtful[TARGET] / sure[TARGET]).log()  # (K, B)
    moved, rarity = (x - x.mean(0) for x in (moved, -log_shares))
    by = (moved * rarity.unsqueeze(1)).sum(0) / rarity.square().sum()  # (B,)
    assert torch.allclose(moved, rarity.unsqueeze(1) * by, atol=1e-5)  # nothing but the shares counts less
    assert by[:-1].mean().item() == pytest.approx(0.15, abs=0.02)
    assert doubtful[TARGET, :, -1].equal(sure[TARGET, :, -1])  # with nothing observed they are what they are


@pytest.mark.parametrize("case", ["late", "sparse", "poor table"])
def test_rows_and_tables_that_tell_little_do_not_make_full_rows_doubt_more(settings, dataset, case):
    table = dataset.tables[0]
    cells = table.positions.copy()
    if case == "late":
        cells[:400, :TARGET] = np.nan
    if case == "sparse":
        cells[np.random.default_rng(0).random(len(cells)) < 0.85, :TARGET] = np.nan
    poor = replace(table, name="poor", columns=table.columns[1:], positions=table.positions[:, 1:])
    tables = (replace(table, positions=cells), *([poor] if case == "poor table" else []))
    fitted = [fit_network(replace(dataset, tables=tables), replace(settings, doubt=doubt)) for doubt in (0.0, 0.15)]
    sure, doubtful = (answers(one)[TARGET].log() for one in fitted)
    moved = (doubtful - sure)[:, :-1]
    by = (moved[-1] - moved[0]) / np.log(shares_of(dataset)[0] / shares_of(dataset)[-1])
    assert 0.1 < by.mean() < 0.2
    assert by.max() < 0.25


def shares_of(dataset):
    return np.asarray(dataset.schema.features[TARGET].shares)


def test_a_target_in_no_table_is_no_hindrance(dataset, settings):
    network = fit_network(dataset, replace(settings, doubt=0.0)).network
    blind = replace(dataset.tables[0], columns=np.arange(2), positions=dataset.tables[0].positions[:, :2])
    doubt_shares(network, [replace(dataset, tables=(blind,))], 0.15)
    assert not network.doubts.any()


def test_targets_of_other_kinds_are_not_doubted(settings, dataset):
    features = tuple(replace(feature, kind="numeric") for feature in dataset.schema.features)
    numbers = replace(dataset, schema=Schema(features))
    for data in (numbers, replace(dataset, target=None)):
        assert not fit_network(data, settings).network.doubts.any()


def test_the_reference_network_has_no_doubts():
    assert PRESETS["paper"].doubt == 0.0


def test_a_bundle_answers_with_doubt_and_its_answers_add_up(tmp_path):
    x, y = make_rows(N_ROWS, 0)
    frame = pd.DataFrame(x + np.random.default_rng(0).normal(0.0, 0.1, x.shape), columns=["a", "b"])
    fit_bundle({"rows": frame.assign(y=y)}, tmp_path / "b", target="y", kinds={"y": "ordinal"}, epochs=2.0)
    predictor = Predictor.load(tmp_path / "b")  # it is refused unless an empty row is answered with the shares
    answer = predictor.predict({"a": [None, 2.5], "b": [None, 2.0]}, "y", table="rows", explain=True)
    feature = predictor.bundle.schema.features[predictor.bundle.schema.index["y"]]
    assert answer.mass[0] == pytest.approx(feature.shares, abs=1e-5)
    assert list(predictor.bundle.manifest["training"]["doubts"]) == ["y"]
    assert answer.experts is not None
    total = np.asarray(answer.experts.base) + np.asarray(answer.experts.contributions).sum(1)
    assert total == pytest.approx(np.asarray(answer.experts.score), abs=1e-4)
