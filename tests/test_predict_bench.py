"""The benchmark of prediction: its targets stay known, its small form runs, and what cannot be done is told first."""

import json
from dataclasses import fields

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from training.__main__ import main
from training.bench.impute.pool import load_pooled
from training.bench.impute.tables import SOURCES
from training.bench.predict.families import make_family_question
from training.bench.predict.measure import one_against_rest, score
from training.bench.predict.peers import PEERS, Answer, fit_peer, list_missing
from training.bench.predict.questions import PATTERNS, TARGETS, Question, Rows, asks_word, make_question
from training.bench.predict.run import run
from training.figures import Ledger, Record

# Those of the contract that this study has.
METRICS = {"nrmse", "accuracy", "auroc", "coverage", "fit_seconds", "row_milliseconds"}


def rows_of(name: str, pattern: str, seed: int = 0) -> Rows:
    (rows,) = make_question(name, seed, pattern).tables.values()
    return rows


def test_every_table_of_the_imputation_bench_has_a_target_and_both_kinds_are_there():
    assert set(SOURCES) <= set(TARGETS)
    assert all(target in load_pooled(name).columns for name, target in TARGETS.items())
    words = [name for name in TARGETS if asks_word(name)]
    assert len(words) >= 5
    assert len(TARGETS) - len(words) >= 5


@pytest.mark.parametrize("name", ["auto", "penguins"])
def test_holes_never_hide_the_target_and_take_their_share_of_the_other_columns(name):
    rows, target = rows_of(name, "30 % holes"), TARGETS[name]
    assert rows.train[target].notna().all()
    assert rows.truth.notna().all()
    assert target not in rows.test.columns
    for part in (rows.train.drop(columns=target), rows.test):
        assert part.isna().to_numpy().mean() == pytest.approx(0.3, abs=0.04)


def test_complete_rows_are_the_tables_own_and_both_patterns_split_alike():
    table = load_pooled("auto")
    whole, holed = (rows_of("auto", pattern) for pattern in PATTERNS)
    assert len(whole.train) + len(whole.test) == len(table)
    assert sorted(pd.concat([whole.train["mpg"], whole.truth])) == sorted(table["mpg"])
    assert not whole.test.isna().any().any()
    pd.testing.assert_series_equal(whole.truth, holed.truth)
    assert (holed.test == whole.test).to_numpy()[holed.test.notna().to_numpy()].all()
    assert not rows_of("auto", "complete", seed=1).truth.equals(whole.truth)


def test_the_truth_scores_best():
    numbers, words = rows_of("auto", "complete"), rows_of("penguins", "complete")
    truth = numbers.truth.to_numpy()
    interval = np.stack([truth - 1.0, np.where(np.arange(len(truth)) % 2, truth + 1.0, truth - 0.5)], axis=1)
    assert score(numbers, Answer(truth), "mpg")[0] == 0.0
    assert score(numbers, Answer(truth, interval=interval), "mpg")[3] == pytest.approx(0.5, abs=0.01)
    mean = np.full(len(truth), numbers.train["mpg"].mean())
    assert score(numbers, Answer(mean), "mpg")[0] == pytest.approx(1.0, abs=0.1)
    sure = pd.get_dummies(words.truth).astype(float)
    assert score(words, Answer(words.truth.to_numpy(), sure), "species")[1:3] == (1.0, 1.0)


def test_of_two_words_the_auroc_is_that_of_either_and_a_word_never_seen_tells_nothing():
    rng = np.random.default_rng(0)
    truth = rng.choice(["no", "yes"], 100).astype(object)
    yes = rng.random(100) + 0.3 * (truth == "yes")
    told = pd.DataFrame({"no": 1.0 - yes, "yes": yes})
    assert one_against_rest(truth, told) == pytest.approx(roc_auc_score(truth == "yes", yes))
    truth[:10] = "perhaps"
    each = [roc_auc_score(truth == word, told[word]) for word in ("no", "yes")]
    assert one_against_rest(truth, told) == pytest.approx(np.mean([*each, 0.5]))


@pytest.mark.parametrize("is_word", [False, True])
@pytest.mark.parametrize("name", [name for name in PEERS if name != "mean_mode"])
def test_a_peer_learns_from_numbers_and_words_and_takes_holes_and_new_words(name, is_word):
    if name in list_missing():
        pytest.skip(list_missing()[name])
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a size": rng.normal(size=400), "color": rng.choice(["red", "blue"], 400).astype(object)})
    amount = frame["a size"] + 2.0 * (frame["color"] == "red")
    frame["target"] = np.select([amount < 0, amount < 2], ["few", "some"], "many").astype(object) if is_word else amount
    frame.loc[:20, "a size"] = frame.loc[10:40, "color"] = None
    train, rest = frame[:300], frame[300:].reset_index(drop=True)
    test = rest.drop(columns="target")
    rows = Rows(train, test, rest["target"])
    fitted = fit_peer(name, Question("target", {"table": rows}), 0)
    nrmse, accuracy, auroc, _ = score(rows, fitted.answer("table", test), "target")
    assert (auroc > 0.9 and accuracy > 0.8) if is_word else nrmse < 0.5
    test.loc[0, "color"], test.loc[1, "a size"] = "green", np.nan
    assert len(fitted.answer("table", test).values) == len(test)
    assert fitted.ready("table", test[:1])() is not None


def test_the_small_form_prints_its_tables_and_writes_records_as_the_contract_has_them(tmp_path, capsys):
    assert main(["bench", "predict", "--quick", "--json", str(tmp_path / "figures.json")]) == 0
    shown = capsys.readouterr().out
    for kind, measures in (("numbers", "NRMSE"), ("words", "accuracy / AUROC")):
        for pattern in PATTERNS:
            assert f"Targets: {kind}, {pattern}. For each table: {measures}." in shown
    assert "Ours: the 90 % interval holds" in shown
    assert "By NRMSE, ours loses" in shown
    raw = json.loads((tmp_path / "figures.json").read_text())
    assert all(set(record) == {field.name for field in fields(Record)} for record in raw)
    records = [Record(**record) for record in raw]
    assert {r.study for r in records} == {"predict"}
    assert {r.metric for r in records} == METRICS
    assert {r.source for r in records} == {"run"}
    assert {r.method for r in records if r.metric == "coverage"} == {"ours"}
    assert all(np.isfinite(r.value) for r in records)
    value = {(r.case, r.method, r.metric): r.value for r in records}
    assert value["auto, complete", "ours", "nrmse"] < 0.6 < value["auto, complete", "mean_mode", "nrmse"]
    assert value["mean of words, 30 % holes", "ours", "auroc"] > 0.9


def test_a_run_goes_on_from_the_figures_it_has_kept(tmp_path):
    records = run(True, resume=tmp_path / "figures.jsonl", only=["mean_mode", "lr"])
    assert run(True, resume=tmp_path / "figures.jsonl", only=["mean_mode", "lr"]) == records
    assert len(Ledger(tmp_path / "figures.jsonl").known) == 2 * 2 * len(PATTERNS)


@pytest.fixture
def hospitals(tmp_path):
    """A folder with two tables of the heart family, made up."""
    (tmp_path / "heart").mkdir()
    rng = np.random.default_rng(0)
    for name, n in (("cleveland", 120), ("va", 80)):
        age, pain = rng.normal(55, 9, n).round(), rng.integers(1, 5, n)
        num = np.where(age + 8 * pain + rng.normal(0, 5, n) > 75, rng.integers(1, 5, n), 0)
        frame = pd.DataFrame({"age": age, "cp": pain, "restecg": 0, "thal": rng.choice([3, 6, 7], n)})
        frame["chol"] = np.where(rng.random(n) < 0.2, 0, 220)
        frame.assign(num=num).to_csv(tmp_path / "heart" / f"{name}.csv", index=False)
    return tmp_path


def test_tables_that_share_a_target_are_asked_for_together(hospitals, capsys):
    question = make_family_question(hospitals, "heart", 0)
    assert list(question.tables) == ["cleveland", "va"]
    for rows in question.tables.values():
        assert set(rows.truth) == set(rows.train["num"]) == {"no", "yes"}
        assert set(rows.train["chol"].dropna()) == {220.0}
        assert set(rows.train["cp"]) == {"1", "2", "3", "4"}
        shares = [(part == "yes").mean() for part in (rows.truth, rows.train["num"])]
        assert shares[0] == pytest.approx(shares[1], abs=0.03)
    assert main(["bench", "predict", "--quick", "--only", "ours,lr", "--data", str(hospitals)]) == 0
    shown = capsys.readouterr().out
    assert "heart: one model for all tables. For each table: accuracy / AUROC." in shown
    assert "heart/cleveland" in shown


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (["bench", "predict", "--quick", "--only", "lr,guess"], "no method guess here; there are ours, mean_mode, lr"),
        (["bench", "audit", "--data", "."], "bench audit does not have --data; bench impute and bench predict and"),
        (["bench", "impute", "--data", "nowhere"], "--data nowhere: there is no such folder"),
        (["bench", "speed", "--resume", "kept.jsonl"], "bench speed does not have --resume"),
        (["bench", "predict", "--bundle", "."], "bench predict does not have --bundle; bench serving does"),
        (["bench", "predict", "--matched"], "bench predict does not have --matched; bench impute does"),
        (["bench", "predict", "--data", "nowhere"], "--data nowhere: there is no such folder"),
        (["bench", "predict", "--data", "."], "--data .: no tables there that share a target known here"),
        (
            ["bench", "speed", "--quick", "--json", "no/such/f.json"],
            "--json no/such/f.json: there is no folder no/such",
        ),
        (["bench", "predict", "--quick", "--json", "."], "--json .: it is a folder"),
        (["reproduce", "auto-mpg", "--quick", "--json", "no/f.json"], "--json no/f.json: there is no folder no;"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_sentence_before_the_work(asked, told, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(asked) == 2
    answer = capsys.readouterr()
    assert told in answer.err
    assert answer.err.count("\n") == 1
    assert answer.out == ""
    assert not list(tmp_path.iterdir())
