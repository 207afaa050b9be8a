"""The study of overlapping tables: how a table is cut, the peers, and the quick form end to end."""

import json
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn")

from sklearn.metrics import roc_auc_score

from tests.conftest import run_training
from training.figures import Record, say_losses
from training.reproduce.overlap import SETTINGS, Figure, read_recorded, show, summarize
from training.reproduce.overlap_cut import Piece, cut, hide_labels, only_labelled
from training.reproduce.overlap_peers import probabilities
from training.reproduce.overlap_tables import SOURCES, load_case


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """600 rows, 7 columns and a target that two of them tell."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(600, 5)), columns=list("abcde"))
    frame["color"] = rng.choice(["red", "green", "blue"], 600).astype(object)
    frame["size"] = rng.choice(["s", "m"], 600).astype(object)
    score = 2 * frame["a"] + 2 * (frame["color"] == "red") + rng.normal(size=600)
    frame["label"] = np.where(score > 0.7, "yes", "no").astype(object)
    frame.loc[::9, "b"] = np.nan
    frame.loc[::11, "color"] = None
    return frame


def columns_of(pieces: list[Piece]) -> list[list[str]]:
    return [list(piece.train.columns) for piece in pieces]


def test_the_three_tables_share_no_row_and_hold_all_of_them(frame):
    pieces = cut(frame, "label", 0)
    rows = [row for piece in pieces for part in (piece.train, piece.test) for row in part.index]
    assert sorted(rows) == list(range(600))
    for piece in pieces:
        assert len(piece.train) == pytest.approx(140, abs=1)
        assert (piece.train["label"] == "yes").mean() == pytest.approx((frame["label"] == "yes").mean(), abs=0.02)
        assert (piece.test["label"] == "yes").mean() == pytest.approx((frame["label"] == "yes").mean(), abs=0.02)


@pytest.mark.parametrize("seed", range(20))
def test_each_table_has_60_percent_of_the_columns_and_each_column_a_table(frame, seed):
    pieces = cut(frame, "label", seed)
    assert [len(columns) for columns in columns_of(pieces)] == [round(0.6 * 7) + 1] * 3
    assert all("label" in columns for columns in columns_of(pieces))
    assert set().union(*columns_of(pieces)) == set(frame.columns)


def test_the_same_seed_gives_the_same_cut_and_another_seed_another(frame):
    first, again, other = cut(frame, "label", 3), cut(frame, "label", 3), cut(frame, "label", 4)
    for one, two in zip(first, again, strict=True):
        pd.testing.assert_frame_equal(one.train, two.train)
        pd.testing.assert_frame_equal(one.test, two.test)
    assert not first[0].train.index.equals(other[0].train.index)


def test_fewer_training_rows_are_some_of_them_and_leave_columns_and_test_rows_alone(frame):
    for whole, few in zip(cut(frame, "label", 0), cut(frame, "label", 0, n_rows=100), strict=True):
        assert len(few.train) == pytest.approx(100, abs=1)
        assert set(few.train.index) <= set(whole.train.index)
        pd.testing.assert_frame_equal(whole.test, few.test)


def test_labels_are_hidden_in_training_rows_only_and_some_of_both_classes_stay(frame):
    pieces = cut(frame, "label", 0)
    for whole, hidden in zip(pieces, hide_labels(pieces, "label", 0), strict=True):
        pd.testing.assert_frame_equal(whole.test, hidden.test)
        pd.testing.assert_frame_equal(whole.train.drop(columns="label"), hidden.train.drop(columns="label"))
        known = hidden.train["label"].dropna()
        assert len(known) == pytest.approx(10, abs=1)
        assert set(known) == {"yes", "no"}
        assert known.equals(whole.train.loc[known.index, "label"])


def test_only_labelled_rows_are_left_for_those_who_cannot_use_the_others(frame):
    pieces = hide_labels(cut(frame, "label", 0), "label", 0)
    for hidden, labelled in zip(pieces, only_labelled(pieces, "label"), strict=True):
        assert labelled.train.index.equals(hidden.train["label"].dropna().index)
        assert labelled.test is hidden.test


@pytest.mark.parametrize(
    "method", ["lr_per_table", "lr_union", "hgb_per_table", "hgb_union", "lightgbm_union", "catboost_union"]
)
def test_a_peer_learns_what_there_is_to_learn_despite_missing_cells(frame, method):
    package = method.partition("_")[0]
    if package in ("lightgbm", "catboost"):
        pytest.importorskip(package)
    pieces = cut(frame, "label", 0)
    trains, tests = [piece.train for piece in pieces], [piece.test for piece in pieces]
    answers = probabilities(method, trains, tests, "label")
    for test, answer in zip(tests, answers, strict=True):
        assert answer.shape == (len(test),)
        assert ((answer >= 0) & (answer <= 1)).all()
        if "a" in test.columns:
            assert roc_auc_score(test["label"] == "yes", answer) > 0.8


def test_a_peer_with_one_class_alone_says_that_class(frame):
    train = frame[frame["label"] == "no"]
    (answer,) = probabilities("lr_per_table", [train], [frame.head(5)], "label")
    assert answer.tolist() == [0.0] * 5


@pytest.mark.parametrize("name", SOURCES)
def test_the_tables_are_mixed_and_of_the_promised_size(name):
    case = load_case(name)
    assert 500 <= len(case.frame) <= 5000
    assert len(case.frame.columns) >= 8
    assert set(case.frame[case.target]) == {"yes", "no"}
    is_number = [pd.api.types.is_numeric_dtype(case.frame[c]) for c in case.frame.columns if c != case.target]
    assert any(is_number)
    assert not all(is_number)


def test_recorded_figures_stand_beside_the_others_if_there_are_any(tmp_path):
    file = tmp_path / "transtab.json"
    setting = SETTINGS[0]
    assert read_recorded(setting, ["wage", "hmda"], file) == []
    recorded = [Record("overlap", f"{case}, all rows", "transtab", "auroc", 0.75, 0.1, 3) for case in ("wage", "hmda")]
    file.write_text(json.dumps([asdict(record) for record in recorded]))
    found = read_recorded(setting, ["wage", "hmda"], file)
    assert [(r.case, r.value, r.source) for r in found] == [
        ("wage, all rows", 0.75, "recorded"),
        ("hmda, all rows", 0.75, "recorded"),
        ("mean, all rows", 0.75, "recorded"),
    ]
    assert len(read_recorded(setting, ["wage", "email"], file)) == 1  # no mean over other tables


def test_the_table_shows_the_best_in_bold_and_says_where_ours_loses():
    figures = [
        Figure(case, seed, method, value + 0.01 * seed, 1.0)
        for case, ours, lr in (("wage", 0.8, 0.7), ("hmda", 0.6, 0.65))
        for method, value in (("ours", ours), ("lr_union", lr))
        for seed in (0, 1)
    ]
    records = summarize(SETTINGS[0], figures)
    assert records[0] == Record("overlap", "wage, all rows", "ours", "auroc", 0.805, pytest.approx(0.005), 2)
    text = show(SETTINGS[0], records)
    assert "| wage              | **0.805** |     0.705 |" in text
    assert "Ours loses on hmda (by 0.050 to lr union)." in text
    assert say_losses({"wage": {"ours": 0.8, "lr_union": 0.7}}) == "Ours loses nowhere."


def test_the_quick_form_runs_end_to_end(tmp_path):
    file = tmp_path / "overlap.json"
    answer = run_training("reproduce", "overlap", "--quick", "--json", str(file))
    assert answer.returncode == 0, answer.stderr
    assert "AUROC, all rows, 1 seed(s)" in answer.stdout
    assert "| mean " in answer.stdout
    records = [Record(**record) for record in json.loads(file.read_text())]
    found = {(r.case, r.method) for r in records if r.metric == "auroc"}
    assert ("psid1976, 100 rows", "hgb_union") in found
    assert ("mean, 5 % of labels", "ours_labelled") in found
    assert all(0.4 < r.value <= 1 for r in records if r.metric == "auroc" and "all rows" in r.case)
