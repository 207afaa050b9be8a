"""Fitting: what several tables learn from each other, seeds, presets, which weights are kept, and many processes."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from model.errors import AskError, FamilyError
from model.layout import Layout
from model.network import MoeNetwork, Shape
from model.runtime import Predictor
from tests.conftest import make_schema, run_training
from training.family import family_of_paths, read_family
from training.fit import fit_network
from training.frames import fit_frames
from training.keeping import Keeper
from training.objective import hide_cells, weigh_columns
from training.settings import PRESETS, choose_settings
from training.tables import load_family


@pytest.fixture(scope="module")
def pair(cars: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pd.DataFrame]:
    """Auto with mpg; mtcars without it, sharing only cylinders and weight. And mtcars' true mpg."""
    folder = tmp_path_factory.mktemp("pair")
    auto = pd.read_csv(cars / "auto.csv")[["mpg", "cylinders", "weight", "acceleration", "year"]]
    mtcars = pd.read_csv(cars / "mtcars.csv")
    auto.to_csv(folder / "auto.csv", index=False)
    mtcars[["cyl", "wt", "qsec", "am", "gear", "carb"]].to_csv(folder / "mtcars.csv", index=False)
    (folder / "family.toml").write_text(
        """
        [tables.auto]
        path = "auto.csv"
        [tables.mtcars]
        path = "mtcars.csv"
        rename = { cyl = "cylinders", wt = "weight" }
        units = { weight = { scale = 1000 } }
        """
    )
    return folder / "family.toml", mtcars


def test_a_target_known_in_one_table_is_predicted_in_another_that_shares_two_columns(pair, tmp_path):
    family, mtcars = pair
    answer = run_training("fit", str(family), "--out", str(tmp_path / "b"))
    assert answer.returncode == 0, answer.stderr
    predictor = Predictor.load(tmp_path / "b")
    columns = {link.column: mtcars[link.column].tolist() for link in predictor.schema.by_table["mtcars"].links}
    links = predictor.links("mtcars") | {"mpg": predictor.links(None)["mpg"]}
    guess = np.array(predictor.predict(columns, "mpg", links=links).values)
    truth = mtcars["mpg"].to_numpy()
    trivial = predictor.schema.features[predictor.schema.index["mpg"]].knots.mean
    ours, mean = (float(np.sqrt(np.mean((truth - g) ** 2))) for g in (guess, trivial))
    print(f"mtcars' mpg, never seen: RMSE {ours:.2f}, the mean of the other table's {mean:.2f}")
    assert ours < 0.75 * mean


def test_the_same_seed_gives_the_same_bundle_and_another_seed_another(small_family, tmp_path):
    environment = {"SOURCE_DATE_EPOCH": "0"}
    for name, seed in (("a", "3"), ("b", "3"), ("c", "4")):
        args = ("--out", str(tmp_path / name), "--seed", seed, "--epochs", "2", "--name", "x")
        answer = run_training("fit", str(small_family), *args, env=environment)
        assert answer.returncode == 0, answer.stderr
    contents = {n: [p.read_bytes() for p in sorted((tmp_path / n).iterdir())] for n in "abc"}
    assert contents["a"] == contents["b"]
    assert contents["a"] != contents["c"]


def test_fit_ends_with_scores_beside_the_trivial_guess_and_says_where(small_family, tmp_path):
    answer = run_training("fit", str(small_family), "--out", str(tmp_path / "b"), "--epochs", "8")
    assert "seed 0" in answer.stderr
    assert "validation" in answer.stderr
    assert "left" in answer.stderr
    lines = answer.stdout.splitlines()
    assert lines[0].split() == ["table", "column", "kind", "rows", "metric", "ours", "trivial"]
    assert lines[-1].startswith(f"wrote 'small' to {tmp_path / 'b'}")
    metrics = json.loads((tmp_path / "b" / "bundle.json").read_text())["metrics"]
    assert len(lines) == len(metrics) + 3
    by_column = {(m["table"], m["column"]): m for m in metrics}
    weight = by_column["mtcars", "wt"]
    assert weight["trivial"] < 5  # in the table's own unit, 1000 lb
    assert sum(m["value"] < m["trivial"] for m in metrics if m["metric"] == "rmse") > 0.7 * sum(
        m["metric"] == "rmse" for m in metrics
    )


def test_the_paper_preset_fits_exports_and_has_no_contributions(cars, tmp_path):
    auto = pd.read_csv(cars / "auto.csv").drop(columns=["rownames", "name"])
    auto.to_csv(tmp_path / "auto.csv", index=False)
    out = tmp_path / "b"
    answer = run_training("fit", str(tmp_path / "auto.csv"), "--out", str(out), "--preset", "paper", "--epochs", "30")
    assert answer.returncode == 0, answer.stderr
    predictor = Predictor.load(out)
    light, heavy = predictor.predict({"weight": [2000, 4500]}, "mpg").values
    assert light > heavy
    with pytest.raises(AskError, match="no exact contributions"):
        predictor.predict({"weight": [2000]}, "mpg", explain=True)


def test_rows_without_the_target_teach_and_held_out_rows_do_not(pair):
    dataset = load_family(read_family(pair[0]))
    settings = replace(
        choose_settings("moe", dataset.n_rows, dataset.n_cells, epochs=3),
        shape=replace(PRESETS["moe"].shape, n_members=1),
    )
    before = fit_network(dataset, settings).network.state_dict()
    for table in dataset.tables:
        table.positions[table.held_out] = 0.0
    same = fit_network(dataset, settings).network.state_dict()
    assert all(torch.equal(before[name], same[name]) for name in before)
    _, mtcars = dataset.tables
    mtcars.positions[:] = 0.0
    other = fit_network(dataset, settings).network.state_dict()
    assert not torch.equal(before["encoding"], other["encoding"])


def test_each_member_keeps_its_best_weights_if_the_last_are_clearly_worse():
    network = MoeNetwork(Layout([make_schema(2, 1)], 3), Shape(n_members=3, n_heads=1, d_head=2))
    keeper = Keeper(network)
    for mark, scores, is_last in ((1.0, [0.5, 0.5, 0.5], False), (2.0, [0.505, 0.6, 0.4], True)):
        with torch.no_grad():
            network.mask.fill_(mark)
        keeper.offer(network, torch.tensor(scores), is_last=is_last)
    keeper.restore(network)
    # Within 2 % the last stand, the second member's are clearly worse, the third's are its best.
    assert network.mask[:, 0].tolist() == [2.0, 1.0, 2.0]


def test_hidden_cells_leave_half_of_the_rows_whole():
    truth = torch.zeros(2, 500, 10)
    seen = hide_cells(truth, 0.5, 0.9, torch.Generator().manual_seed(0))
    whole = (~seen.isnan()).all(-1).float().mean()
    assert 0.45 < float(whole) < 0.65
    assert float(seen.isnan().float().mean()) == pytest.approx(0.225, abs=0.04)


def test_large_tables_get_one_member_and_at_least_one_epoch():
    large = choose_settings("moe", 1_000_000, 20_000_000)
    assert large.shape.n_members == 1
    assert large.n_steps(1_000_000) * large.batch_rows >= 1_000_000
    assert choose_settings("moe", 500, 5_000).n_steps(300) == 300


@pytest.mark.parametrize(
    ("n_rows", "n_members", "half_additive"), [(399, 16, True), (400, 8, True), (999, 8, True), (1000, 4, False)]
)
def test_few_rows_get_more_members_half_of_them_additive(n_rows, n_members, half_additive):
    shape = choose_settings("moe", n_rows, 10 * n_rows).shape
    assert (shape.n_members, shape.half_additive) == (n_members, half_additive)


def test_torchrun_with_two_processes_writes_one_bundle_of_like_quality(cars, tmp_path):
    auto = pd.read_csv(cars / "auto.csv").drop(columns=["rownames", "name"])
    auto.to_csv(tmp_path / "auto.csv", index=False)
    scores = {}
    for n in (1, 2):
        out = tmp_path / f"b{n}"
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(n)]
        command = ["-m", "training", "fit", str(tmp_path / "auto.csv"), "--out", str(out)]
        command += ["--threads", "1", "--epochs", "25"]
        answer = subprocess.run([*launcher, *command], check=False, capture_output=True, text=True)
        assert answer.returncode == 0, answer.stderr
        assert answer.stdout.count("wrote 'auto'") == 1
        metrics = json.loads((out / "bundle.json").read_text())["metrics"]
        scores[n] = np.mean([m["value"] / m["trivial"] for m in metrics if m["metric"] == "rmse"])
    print(f"held-out RMSE over the trivial guess: 1 process {scores[1]:.3f}, 2 processes {scores[2]:.3f}")
    assert scores[2] == pytest.approx(scores[1], abs=0.05)
    assert Predictor.load(tmp_path / "b2").predict({"weight": [3000]}, "mpg").values


def test_a_table_is_named_after_its_file(tmp_path):
    family = family_of_paths([tmp_path / "a.csv", tmp_path / "b.parquet"])
    assert [table.name for table in family.tables] == ["a", "b"]
    assert family.name == "a"


def test_a_small_table_of_blank_rows_does_not_spoil_the_fit(tmp_path, cars):
    auto = pd.read_csv(cars / "auto.csv")[["mpg", "weight", "year"]]
    auto.to_csv(tmp_path / "auto.csv", index=False)
    small = auto.head(10).copy()
    small.loc[2:7] = None
    small.to_csv(tmp_path / "small.csv", index=False)
    dataset = load_family(family_of_paths([tmp_path / "auto.csv", tmp_path / "small.csv"]))
    fitted = fit_network(dataset, choose_settings("moe", dataset.n_rows, dataset.n_cells, epochs=5))
    assert all(np.isfinite(check.score) for check in fitted.checks)
    assert fitted.checks[-1].score < 1


def test_a_few_forgotten_codes_for_missing_do_not_rule_the_answers(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(100, 10, 600)
    frame = pd.DataFrame({"x": x, "y": 2 * x + rng.normal(size=600), "z": rng.normal(size=600)})
    frame.loc[[5, 50, 500], "y"] = 99_999_999
    frame.to_csv(tmp_path / "t.csv", index=False)
    answer = run_training("fit", str(tmp_path / "t.csv"), "--out", str(tmp_path / "b"))
    assert answer.returncode == 0, answer.stderr
    values = Predictor.load(tmp_path / "b").predict({"x": [90.0, 100.0, 110.0]}, "y").values
    assert values == pytest.approx([180, 200, 220], abs=8)


def test_a_wide_table_is_asked_some_columns_at_a_time(tmp_path):
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(200, 1))
    wide = pd.DataFrame(hidden + 0.3 * rng.normal(size=(200, 40)), columns=[f"c{i}" for i in range(40)])
    wide.to_csv(tmp_path / "w.csv", index=False)
    dataset = load_family(family_of_paths([tmp_path / "w.csv"]))
    fitted = fit_network(dataset, choose_settings("moe", dataset.n_rows, dataset.n_cells, epochs=20))
    assert min(check.score for check in fitted.checks) < 0.6


def test_words_count_more_than_numbers_unless_a_target_is_named(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=60), "y": rng.normal(size=60), "word": rng.choice(["a", "b"], 60)})
    frame.to_csv(tmp_path / "t.csv", index=False)
    dataset = load_family(family_of_paths([tmp_path / "t.csv"]))
    layout, columns = Layout([dataset.schema], 1), torch.arange(3)
    settings = replace(PRESETS["moe"], word_weight=4.0, target_weight=30.0)
    names = [feature.name for feature in dataset.schema.features]
    plain, named = (
        dict(
            zip(names, weigh_columns(columns, layout, replace(dataset, target=target), settings).tolist(), strict=True)
        )
        for target in (None, "x")
    )
    assert plain == {"x": 1.0, "y": 1.0, "word": 4.0}
    assert named == {"x": 30.0, "y": 1.0, "word": 1.0}


def test_an_epoch_deals_every_row_once():
    from training.dealing import Deck

    deck = Deck(np.arange(100), np.random.default_rng(0))
    assert sorted(np.concatenate([deck.draw(25) for _ in range(4)])) == list(range(100))
    assert len(deck.draw(250)) == 250


def test_settings_come_from_the_environment_too(small_family, tmp_path):
    import os

    environment = {**os.environ, "TABGLOT_EPOCHS": "1", "TABGLOT_SEED": "7"}
    answer = run_training("fit", str(small_family), "--out", str(tmp_path / "b"), env=environment)
    assert answer.returncode == 0, answer.stderr
    manifest = json.loads((tmp_path / "b" / "bundle.json").read_text())
    assert (manifest["seed"], manifest["training"]["settings"]["epochs"]) == (7, 1.0)


@pytest.mark.parametrize("in_turn", [False, True])
def test_in_a_fit_of_several_tables_each_row_is_told_of_by_the_law_of_its_fold(tmp_path, in_turn):
    from training.batches import N_AHEAD, draw_batches, hear_ahead
    from training.fit import _prepare_all, _start
    from training.hearing import hear
    from training.joint_normal import fit_council
    from training.parallel import Team

    rng = np.random.default_rng(0)
    for name, columns in (("one", ["a", "word", "b", "c"]), ("two", ["c", "other", "a", "d"])):
        cells = {c: rng.choice(list("pqrs"), 60) if len(c) > 1 else rng.normal(size=60) for c in columns}
        pd.DataFrame(cells).to_csv(tmp_path / f"{name}.csv", index=False)
    dataset = load_family(family_of_paths([tmp_path / "one.csv", tmp_path / "two.csv"]), in_turn=in_turn)
    assert dataset.is_folded is in_turn
    settings = choose_settings("moe", dataset.n_rows, dataset.n_cells, 1)
    council = fit_council(dataset)
    parts = _prepare_all(_start(dataset, settings, ()), (dataset,), settings, 0, council)

    def agrees(part, table, heard, seen, truth, asked):
        for member, row in np.ndindex(*truth.shape[:2]):
            same = (torch.from_numpy(table.positions) == truth[member, row]).all(1) & ~torch.from_numpy(table.held_out)
            fold = council.folds[[p is part for p in parts].index(True)][int(same.nonzero()[0])]
            alone = hear(council.fold_experts[fold], part.columns, seen[member, row][None, None], asked)
            assert heard.logits[member, :, :, row].numpy() == pytest.approx(alone.logits[0, :, :, 0].numpy(), abs=1e-3)

    for part, table in zip(parts, dataset.tables, strict=True):
        agrees(part, table, part.validation_heard, part.validation_seen, part.validation, part.columns)
    few, n_steps = slice(None, 3), N_AHEAD + 2
    batches = list(hear_ahead(draw_batches(parts, settings, n_steps, 0, Team())))
    assert len(batches) == n_steps
    for batch in batches:
        part = batch.part
        table = dataset.tables[[p is part for p in parts].index(True)]
        heard = batch.heard._replace(logits=batch.heard.logits[..., few])
        agrees(part, table, heard, batch.seen[:, few], batch.truth[:, few], part.columns[batch.asked])


def test_numbers_whose_sums_would_overflow_are_refused_by_name():
    frame = pd.DataFrame({"x": np.linspace(-1.0, 1.0, 60) * 1.7e308, "y": np.arange(60.0)})
    with pytest.raises(FamilyError, match=r"feature .x.: .* holds numbers beyond 1e\+305"):
        fit_frames({"t": frame}, epochs=4.0)


def test_numbers_whose_squares_would_overflow_are_fitted():
    rng = np.random.default_rng(0)
    cause = rng.normal(size=200)
    huge = pd.DataFrame({"cause": cause, "effect": (cause + 0.1 * rng.normal(size=200)) * 1e200})
    predictor = fit_frames({"t": huge}, kinds=dict.fromkeys(huge, "numeric"), epochs=5.0)
    low, high = predictor.predict({"cause": [0.0, 1.0]}, "effect", interval=0.9).interval[0]
    assert -3e200 < low < high < 3e200
