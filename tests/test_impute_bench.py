"""The benchmark of imputation: its holes are what they are said to be, and its small form runs."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from training.__main__ import main
from training.bench.impute.matched import MATCHED, WANTED, choose, read_pool
from training.bench.impute.measure import expected_calibration_error, fit_ours, measure_trust, wrap
from training.bench.impute.peers import fit_peer
from training.bench.impute.pool import load_pooled, pool_sources
from training.bench.impute.rounds import fill_in_rounds
from training.bench.impute.scoring import score
from training.bench.impute.tables import N_MORE, SOURCES, cut_case, hide, load_table, make_case


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_holes_at_random_take_their_share_of_every_column(rate):
    case = make_case("auto", 0, "random", rate)
    assert case.train.isna().to_numpy().mean() == pytest.approx(rate, abs=0.03)
    assert case.holes.mean(axis=0) == pytest.approx(rate, abs=0.15)


def test_holes_that_depend_on_other_columns_leave_a_third_of_them_whole():
    case = make_case("auto", 0, "depending", 0.3)
    shares = case.train.isna().mean()
    assert (shares == 0.0).sum() == load_table("auto").shape[1] // 3
    assert shares[shares > 0.0].mean() == pytest.approx(0.3, abs=0.06)


def test_holes_are_filled_in_tables_of_ones_own(tmp_path, capsys):
    rng = np.random.default_rng(0)
    numbers = pd.DataFrame(rng.normal(size=(150, 3)), columns=list("abc")).assign(d=lambda rows: rows["a"] + rows["b"])
    (tmp_path / "plain").mkdir()
    numbers.to_csv(tmp_path / "plain" / "first.csv", index=False)
    numbers.to_csv(tmp_path / "second.csv", index=False)
    numbers.head(20).to_csv(tmp_path / "small.csv", index=False)
    (tmp_path / "plain" / "matches.csv").write_text("table_a,table_b\n")
    asked = ["bench", "impute", "--quick", "--only", "ours,mean_mode", "--data", str(tmp_path)]
    assert main([*asked, "--json", str(tmp_path / "figures.json")]) == 0
    assert "plain/first" in capsys.readouterr().out
    cases = {figure["case"].partition(", ")[0] for figure in json.loads((tmp_path / "figures.json").read_text())}
    assert cases == {"mean", "plain/first", "second"}


def test_a_table_that_cannot_be_read_is_named(tmp_path, capsys):
    (tmp_path / "empty.csv").touch()
    assert main(["bench", "impute", "--quick", "--data", str(tmp_path)]) == 2
    assert "empty.csv cannot be read: No columns to parse" in capsys.readouterr().err


def test_train_and_test_rows_are_apart_and_the_same_seed_gives_the_same_holes():
    one, two, other = (make_case("auto", seed, "random", 0.3) for seed in (0, 0, 1))
    pd.testing.assert_frame_equal(one.test, two.test)
    assert not one.test.equals(other.test)
    assert len(one.train) + len(one.test) == len(load_table("auto"))


def test_cells_that_were_never_known_are_not_scored():
    case = make_case("penguins", 0, "random", 0.3)
    never = case.truth.isna().to_numpy()
    assert never.any()
    assert not (case.holes & never).any()


@pytest.mark.parametrize("pattern", ["random", "depending"])
def test_the_further_holes_come_about_as_the_first_ones_did(pattern):
    case = make_case("penguins", 0, pattern, 0.3)
    assert case.more.shape == (N_MORE, *case.holes.shape)
    assert not (case.more & case.truth.isna().to_numpy()).any()
    assert len({holes.tobytes() for holes in (case.holes, *case.more)}) == N_MORE + 1
    first, others = case.holes.mean(axis=0), case.more.mean(axis=(0, 1))
    assert others == pytest.approx(first, abs=0.12)
    assert ((others == 0.0) == (first == 0.0)).all()
    for (name, column), holes in zip(hide(case.truth, case.more[0]).items(), case.more[0].T, strict=True):
        assert column[holes].isna().all()
        assert column[~holes].equals(case.truth[name][~holes])
        assert column.dtype == case.truth[name].dtype


def test_every_table_has_numbers_and_words():
    for name in SOURCES:
        case = make_case(name, 0, "random", 0.1)
        assert case.numbers
        assert case.words


def test_the_truth_scores_best_and_a_peer_fills_every_hole():
    case = make_case("auto", 0, "random", 0.3)
    assert score(case, case.truth) == (0.0, 1.0)
    filled = fit_peer("mean_mode", case.train, case.numbers, 0).fill(case.test)
    assert not filled.isna().any().any()
    nrmse, accuracy = score(case, filled)
    assert nrmse == pytest.approx(1.0, abs=0.1)
    assert 0.0 < accuracy < 1.0


@pytest.mark.parametrize("name", ["chained_linear", "missforest"])
def test_chained_models_learn_words_from_numbers_and_leave_known_cells_alone(name):
    rng = np.random.default_rng(0)
    size = rng.normal(size=300)
    frame = pd.DataFrame({"size": size, "twice": 2.0 * size + 0.1 * rng.normal(size=300)})
    frame["name"] = np.select([size < -0.5, size < 0.5], ["small", "middle"], "large").astype(object)
    frame["same"] = "always"
    truth, rows = frame[200:].reset_index(drop=True), frame[200:].reset_index(drop=True)
    rows.loc[:40, "name"] = rows.loc[30:60, "twice"] = rows.loc[:5, "same"] = None
    filled = fit_peer(name, frame[:200], ["size", "twice"], 0).fill(rows)
    assert not filled.isna().any().any()
    assert (filled["name"] == truth["name"])[:41].mean() > 0.8
    assert (filled["name"] == truth["name"])[41:].all()
    assert filled["twice"].corr(truth["twice"]) > 0.97
    assert set(filled["same"]) == {"always"}


def test_the_calibration_error_is_the_gap_between_told_and_true():
    assert expected_calibration_error([(0.8, True)] * 8 + [(0.8, False)] * 2) == pytest.approx(0.0)
    assert expected_calibration_error([(0.9, False)] * 5) == pytest.approx(0.9)
    assert np.isnan(expected_calibration_error([]))


def test_coverage_counts_the_cells_of_every_draw_of_holes():
    case = make_case("penguins", 0, "random", 0.3)
    predictor = fit_ours(case, 0, quick=True)
    numbers = [name in case.numbers for name in case.truth.columns]
    draws = (case.holes, *case.more)
    alone = [replace(case, holes=holes, more=case.more[:0]) for holes in draws]
    shares = [measure_trust(predictor, one)[0] for one in alone]
    weights = [holes[:, numbers].sum() for holes in draws]
    coverage, before, after, score_of_intervals = measure_trust(predictor, case)
    assert coverage == pytest.approx(np.average(shares, weights=weights))
    assert len(set(shares)) > 1
    assert 0.0 < after < 0.2
    assert 0.0 < before < 0.2
    assert 0.5 < score_of_intervals < 4.0


def test_the_small_form_prints_a_table_and_writes_its_figures(tmp_path, capsys):
    assert main(["bench", "impute", "--quick", "--json", str(tmp_path / "figures.json")]) == 0
    shown = capsys.readouterr().out
    assert "Holes: 30 % at random" in shown
    assert "the 90 % interval covers" in shown
    records = json.loads((tmp_path / "figures.json").read_text())
    means = {(r["method"], r["metric"]): r["value"] for r in records if r["case"] == "mean, 30 % at random"}
    assert means["ours", "nrmse"] < means["iterative_bayesridge", "nrmse"] < means["mean_mode", "nrmse"]
    assert {r["source"] for r in records} == {"run"}


def test_the_matched_tables_are_those_that_the_pools_figures_choose():
    figures = read_pool()
    assert set(figures) == set(pool_sources())
    assert choose(figures) == MATCHED
    means = np.mean([figures[name] for name in MATCHED], axis=0)
    assert means == pytest.approx(np.asarray(list(WANTED.values())), abs=0.015)
    for name in MATCHED:
        case = cut_case(load_pooled(name), 0, "random", 0.1)
        assert case.numbers
        assert case.words


def test_methods_can_be_chosen_and_an_unknown_one_is_named(capsys):
    assert main(["bench", "impute", "--quick", "--only", "mean_mode"]) == 0
    shown = capsys.readouterr().out
    assert "mean_mode" in shown
    assert "ours" not in shown.lower()
    assert main(["bench", "impute", "--quick", "--only", "knn,mode"]) == 2
    assert "no method knn, mode here" in capsys.readouterr().err
    assert main(["bench", "speed", "--only", "ours"]) == 2
    assert "bench speed does not have --only; bench impute and bench predict do" in capsys.readouterr().err


def test_rounds_start_from_what_is_observed_and_never_touch_it():
    case = make_case("penguins", 0, "random", 0.3)
    predictor = fit_ours(case, 0, quick=True)
    first, second, third = (frame for frame, _ in zip(fill_in_rounds(predictor, case.test), range(3), strict=False))
    assert score(case, first) == score(case, wrap(predictor).fill(case.test))
    known = case.test.notna().to_numpy()
    for frame in (first, second, third):
        assert not frame.isna().to_numpy().any()
        assert (frame.to_numpy()[known] == case.test.to_numpy()[known]).all()
    assert not first.equals(second)
