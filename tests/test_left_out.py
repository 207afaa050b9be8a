"""Rows left out in turn: all of them teach, and of each somebody tells who has not learnt from it."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from model.bundle import Bundle
from tests.conftest import run_training
from training.bundling import _export, _facts
from training.family import Family, TableSpec, family_of_paths
from training.fit import Fitted, fit_network
from training.folds import N_FOLDS, N_LAWS, count_groups, group_members, group_rows
from training.hearing import answer_with
from training.left_out import Teller, tell_in_turn
from training.settings import choose_settings
from training.splitting import split_rows
from training.tables import MOST_FOLDED_ROWS, Dataset, load_family


def write_table(path: Path, n_rows: int, *, n_empty: int = 0, seed: int = 0) -> Path:
    rng = np.random.default_rng(seed)
    size = rng.normal(size=n_rows)
    frame = pd.DataFrame(
        {
            "size": size,
            "weight": size + 0.3 * rng.normal(size=n_rows),
            "word": np.where(size + 0.5 * rng.normal(size=n_rows) > 0, "large", "small"),
            "noise": rng.normal(size=n_rows),
        }
    )
    frame = frame.mask(pd.DataFrame(rng.random(frame.shape) < 0.15, columns=frame.columns))
    frame.iloc[:n_empty] = None
    frame.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def folded(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    path = write_table(tmp_path_factory.mktemp("folded") / "things.csv", 202)
    return load_family(family_of_paths([path]), in_turn=True)


@pytest.fixture(scope="module")
def fitted(folded: Dataset) -> Fitted:
    return fit_network(folded, choose_settings("moe", folded.n_rows, folded.n_cells, epochs=3))


@pytest.fixture(scope="module")
def teller(folded: Dataset, fitted: Fitted) -> Teller:
    encodings = np.zeros((len(folded.schema.features), 2), np.float32)
    draft = Bundle(_facts(fitted, folded), folded.schema, _export(fitted.network, folded), encodings, fitted.expert)
    return tell_in_turn(draft, fitted)


def test_rows_are_dealt_evenly_and_none_is_held_out(folded):
    (table,) = folded.tables
    assert folded.is_folded
    assert not table.held_out.any()
    assert sorted(np.bincount(table.fold)) == [25] * 6 + [26] * 2
    assert len(table.truth) == len(table.positions)


def test_rows_that_know_nothing_leave_no_fold_without_the_others(tmp_path):
    dataset = load_family(family_of_paths([write_table(tmp_path / "t.csv", 40, n_empty=28)]), in_turn=True)
    (table,) = dataset.tables
    known = ~np.isnan(table.positions).all(axis=1)
    assert sorted(np.bincount(table.fold[known])) == [1] * 4 + [2] * 4


@pytest.mark.parametrize("why", ["a target is named", "rows are many", "nobody asked"])
def test_rows_are_held_out_for_good_where(why, tmp_path):
    n_rows = MOST_FOLDED_ROWS + 1 if why == "rows are many" else 60
    spec = TableSpec("t", write_table(tmp_path / "t.csv", n_rows))
    family = Family("one", (spec,), target="word" if why == "a target is named" else None)
    dataset = load_family(family, in_turn=why != "nobody asked")
    assert not dataset.is_folded
    assert dataset.n_held_out == round(0.15 * n_rows)
    assert len(dataset.tables[0].truth) == dataset.n_held_out


def test_a_member_learns_nothing_from_its_fold_and_is_checked_by_it(folded):
    (table,) = folded.tables
    settings = choose_settings("moe", folded.n_rows, folded.n_cells)
    n_members = settings.shape.n_members
    splits = split_rows(table, settings, n_members, seed=0)
    group = group_rows(table.fold, count_groups(n_members))
    for (training, validation), own in zip(splits, group_members(n_members), strict=True):
        assert (group[training] != own).all()
        assert (group[validation] == own).all()
    assert len(np.unique(np.concatenate([training for training, _ in splits]))) == len(table.positions)


@pytest.mark.parametrize("n_members", [4, 8, 16])
def test_every_group_has_its_members_and_where_there_are_two_one_of_each_kind(n_members):
    groups, n_groups = group_members(n_members), count_groups(n_members)
    assert np.bincount(groups).tolist() == [n_members // n_groups] * n_groups
    if n_members > n_groups:
        assert all({int(m) % 2 for m in np.flatnonzero(groups == group)} == {0, 1} for group in range(n_groups))


@pytest.mark.parametrize("n_members", [4, 8, 16])
def test_a_law_has_seen_no_row_of_the_group_whose_members_it_tells(n_members):
    fold, n_groups = np.arange(N_FOLDS), count_groups(n_members)
    for group in range(n_groups):
        laws = set(group_rows(fold[group_rows(fold, n_groups) == group], N_LAWS).tolist())
        assert laws == {group % N_LAWS}


def test_a_row_is_told_of_by_the_members_and_the_law_that_have_not_seen_it(folded, fitted, teller):
    (table,) = folded.tables
    columns, n_members = torch.from_numpy(table.columns), fitted.settings.shape.n_members
    own, n_groups = group_members(n_members), count_groups(n_members)
    said = {told.column: told for told in teller.tell(table, table.positions)}
    assert set(said) == set(range(4))
    for row in (0, 1, 7, 100, 201):
        group = group_rows(table.fold[row], n_groups)
        law = fitted.council.fold_experts[group_rows(table.fold[row], N_LAWS)]
        alone = torch.from_numpy(table.positions[row]).expand(len(own), 1, -1)
        with torch.no_grad():
            answer = answer_with(fitted.network, law, columns, alone, columns)
        for j, told in said.items():
            if np.isnan(table.truth[row, j]):
                assert row not in told.rows
                continue
            (at,) = np.flatnonzero(told.rows == row)
            n_values = folded.schema.features[table.columns[j]].n_values
            logits = answer.logits[own == group, j, :n_values, 0].mean(0).numpy()
            assert told.logits[at] == pytest.approx(logits, abs=1e-4)
            assert told.point[at] == pytest.approx(float(answer.point[own == group, j, 0].mean()), abs=1e-4)


def test_the_laws_of_folds_are_those_of_the_members(folded, fitted):
    np.testing.assert_array_equal(fitted.council.folds[0], group_rows(folded.tables[0].fold, N_LAWS))


def test_what_columns_add_to_a_word_adds_up_to_what_is_said_of_it(folded, teller):
    (table,) = folded.tables
    word = folded.schema.index["word"]
    for told in teller.tell(table, table.positions):
        if table.columns[told.column] == word:
            ((base, parts),) = teller.explain(table, table.positions, [told.column], told.rows)
            np.testing.assert_allclose(base + parts.sum(axis=1), told.logits, atol=1e-4)


def test_columns_are_asked_a_few_at_a_time_where_rows_are_many(folded, teller, monkeypatch):
    (table,) = folded.tables
    at_once = list(teller.tell(table, table.positions))
    monkeypatch.setattr("training.left_out.MOST_NUMBERS", 1)
    for told, alone in zip(at_once, teller.tell(table, table.positions), strict=True):
        np.testing.assert_array_equal(told.rows, alone.rows)
        np.testing.assert_allclose(told.logits, alone.logits, atol=1e-5)


def test_wherever_two_rows_know_something_every_member_has_rows_to_learn_from(tmp_path):
    path = write_table(tmp_path / "few.csv", 8, n_empty=6)
    for n_members in (4, 8, 16):
        (table,) = load_family(family_of_paths([path]), in_turn=True).tables
        splits = split_rows(table, choose_settings("moe", 8, 32), n_members, seed=0)
        assert all(len(training) and len(validation) for training, validation in splits)


def test_the_fit_command_scores_every_row_of_a_small_table_and_says_how(tmp_path):
    import json

    path = write_table(tmp_path / "things.csv", 60)
    answer = run_training("fit", str(path), "--out", str(tmp_path / "b"), "--epochs", "3")
    assert answer.returncode == 0, answer.stderr
    assert "60 rows (left out in turn)" in answer.stderr
    manifest = json.loads((tmp_path / "b" / "bundle.json").read_text())
    known = pd.read_csv(path).notna().sum()
    assert {score["column"]: score["rows"] for score in manifest["metrics"]} == known.to_dict()
    assert manifest["training"]["folds"] == N_FOLDS
    assert (tmp_path / "b" / "calibration.npz").is_file()


def test_the_smallest_table_can_be_fitted(tmp_path):
    path = write_table(tmp_path / "few.csv", 8, n_empty=3)
    answer = run_training("fit", str(path), "--out", str(tmp_path / "b"), "--epochs", "2")
    assert answer.returncode == 0, answer.stderr
