"""The paper's studies: the data to the letter, the quick forms end to end, and the adaptation to unlabelled rows."""

import json

import numpy as np
import pandas as pd
import pytest

from model.runtime import Predictor
from tests.conftest import run_training
from training.__main__ import main
from training.adapting import reckon
from training.reproduce import Options
from training.reproduce.simulated_data import CELLS, limit_of, published_seeds, simulate


def test_the_simulated_data_are_the_papers_to_the_letter():
    seeds = published_seeds()
    assert seeds[:4] == [4951, 5657, 2743, 6049]
    data = simulate(CELLS[1], seeds[0])  # one cause, no noise, correlation .9 in training
    assert data.x.shape == data.x_test.shape == (2000, 5)
    together = np.concatenate([data.y, data.y_test])
    assert np.bincount(together).tolist() == [400] * 10
    assert np.bincount(data.y).tolist() == [197, 202, 214, 188, 191, 214, 187, 213, 189, 205]
    train, test = (np.corrcoef(x.T) for x in (data.x, data.x_test))
    assert train[0, 1] == pytest.approx(0.88, abs=0.02)
    assert train[0, 2] == pytest.approx(-0.89, abs=0.02)
    assert test[0, 1] == pytest.approx(0.1, abs=0.05)
    assert int((data.x * np.arange(1, 6)).sum()) == 133_726


def test_the_limit_is_a_distribution_and_the_test_law_knows_more():
    data = simulate(CELLS[-1], published_seeds()[0])
    here, there = limit_of(data, 0.9), limit_of(data, 1.0 - 0.9)
    assert here.sum(1) == pytest.approx(np.ones(2000), abs=1e-6)
    assert (there.argmax(1) == data.y_test).mean() > (here.argmax(1) == data.y_test).mean() + 0.05


@pytest.mark.parametrize("study", ["simulated", "auto-mpg"])
def test_a_study_runs_end_to_end_in_its_quick_form(study, tmp_path, capsys):
    file = tmp_path / "figures.json"
    assert main(["reproduce", study, "--quick", "--seeds", "1", "--json", str(file)]) == 0
    records = json.loads(file.read_text())
    methods = {r["method"] for r in records if r["source"] == "run"}
    assert {"ours", "paper", "lr"} <= methods
    assert {r["metric"] for r in records} >= {"accuracy", "mse", "mse_mean"}
    assert {r["source"] for r in records} >= {"run", "published"}
    ours = next(r["value"] for r in records if r["method"] == "ours" and r["metric"] == "accuracy")
    assert 0.1 <= ours <= 1.0
    assert "| ours" in capsys.readouterr().out


def test_a_study_broken_off_goes_on_from_its_ledger(tmp_path, capsys):
    ledger = tmp_path / "figures.jsonl"
    ask = ["reproduce", "simulated", "--quick", "--only", "lr,limit", "--resume", str(ledger)]
    assert main(ask) == 0
    first = capsys.readouterr().out
    lines = ledger.read_text().splitlines()
    assert len(lines) == 2  # one for the regression, one for both limits
    kept = json.loads(lines[0])
    next(iter(kept.values()))["lr"]["accuracy"] = [0.777]  # to tell what is kept from what is found anew
    ledger.write_text(json.dumps(kept) + "\n" + lines[1][:40])  # the second was cut short
    file = tmp_path / "figures.json"
    assert main([*ask, "--json", str(file)]) == 0
    assert ledger.read_text().splitlines() == [json.dumps(kept), lines[1]]
    run = {(r["method"], r["metric"]): r["value"] for r in json.loads(file.read_text()) if r["source"] == "run"}
    assert run["lr", "accuracy"] == 0.777
    assert {method for method, _ in run} == {"lr", "limit", "limit_test_law"}
    assert main([*ask, "--json", str(file)]) == 0
    assert capsys.readouterr().out.count("0.777") > first.count("0.777")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["simulated", "--only", "svm"], "no method svm here; there are ours, ours_unlabelled, paper, lr, limit"),
        (["toy-corpus", "--only", "cbow"], "toy-corpus does not have --only; simulated and auto-mpg and overlap do"),
        (["overlap", "--small-grids"], "overlap does not have --small-grids; simulated and auto-mpg do"),
        (["simulated", "--resume", "figures.json"], "figures.json: it holds something else than figures of a study"),
        (["simulated", "--resume", "one_line.json"], "one_line.json: it holds something else than figures of a study"),
        (["simulated", "--resume", "no/such/folder.jsonl"], "it cannot be used: No such file or directory"),
    ],
)
def test_what_a_study_cannot_do_is_said_at_once(options, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "figures.json").write_text("[\n 1\n]\n")
    (tmp_path / "one_line.json").write_text('{"mine": 1}')
    assert main(["reproduce", *options, "--quick"]) == 2
    assert words in capsys.readouterr().err
    assert (tmp_path / "one_line.json").read_text() == '{"mine": 1}'  # what is not ours stays as it is


def test_the_papers_own_grids_are_tried_unless_asked_otherwise():
    assert Options().published_grids
    assert not Options(quick=True).published_grids
    assert not Options(small_grids=True).published_grids


def noisy(rng, n, corr):
    true = rng.multivariate_normal([0, 0], [[1, corr], [corr, 1]], n)
    seen = true + rng.normal(size=true.shape) * 0.7
    return seen, 2 * true[:, 0] + 0.7 * rng.normal(size=n)


def test_a_column_that_others_confirm_is_believed_more():
    rng = np.random.default_rng(0)
    x, y = noisy(rng, 4000, 0.0)
    there, _ = noisy(rng, 4000, 0.95)
    rows = np.column_stack([x, y])
    rows = rows / rows.std(0)
    (before, left_before), (after, left_after) = reckon(rows, there / x.std(0), noise_share=1.0)
    assert abs(before[1]) < 0.05 < 0.2 < after[1]  # the second column has become a witness of the first
    assert left_after < left_before
    assert reckon(rows, rows[:, :2], noise_share=1.0)[1][0] == pytest.approx(before, abs=0.03)  # no shift, no change


def test_unlabelled_rows_adapt_a_fit(tmp_path):
    rng = np.random.default_rng(0)
    frames = {}
    for name, corr in (("here", 0.0), ("there", 0.95)):
        x, y = noisy(rng, 1500, corr)
        frames[name] = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": y})
        seen = frames[name] if name == "here" else frames[name].drop(columns="y")
        seen.to_csv(tmp_path / f"{name}.csv", index=False)
    errors = {}
    for name, more in (("plain", ()), ("adapted", ("--unlabelled", str(tmp_path / "there.csv")))):
        out = tmp_path / name
        told = run_training(
            "fit", str(tmp_path / "here.csv"), "--target", "y", "--epochs", "12", "--out", str(out), *more
        )
        assert told.returncode == 0, told.stderr
        test = frames["there"]
        answer = Predictor.load(out).predict({"a": test.a.tolist(), "b": test.b.tolist()}, "y")
        errors[name] = float(np.sqrt(np.mean((np.asarray(answer.values) - test.y) ** 2)))
    assert "adapted to 1,500 rows without 'y'" in told.stderr
    assert errors["adapted"] < errors["plain"] - 0.01


def test_unlabelled_rows_need_a_target(tmp_path):
    pd.DataFrame({"a": range(30), "b": range(30)}).assign(a=lambda d: d.a % 7).to_csv(tmp_path / "t.csv", index=False)
    file = str(tmp_path / "t.csv")
    told = run_training("fit", file, "--out", str(tmp_path / "o"), "--unlabelled", file)
    assert told.returncode == 2
    assert "--target" in told.stderr
