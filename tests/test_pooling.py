"""Rubin's rules, and that copies drawn by a fitted imputer give honest intervals when pooled by them."""

import json

import numpy as np
import pytest
from scipy.stats import t

from training.__main__ import main
from training.bench.pooling import LAWS, TRUTH, make_table, pool_copies, regress
from training.estimator import TabglotImputer
from training.pooling import pool


def test_the_rules_by_hand():
    pooled = pool([1.0, 2.0, 3.0], [0.5, 0.5, 0.5])
    between = 1.0 * (1 + 1 / 3)
    assert pooled.estimate == 2.0
    assert pooled.stderr == pytest.approx((0.5 + between) ** 0.5)
    assert pooled.freedom == pytest.approx(2 * (1 + 0.5 / between) ** 2)
    low, high = pooled.interval(0.95)
    assert high - low == pytest.approx(2 * t.ppf(0.975, pooled.freedom) * pooled.stderr)


def test_copies_that_agree_leave_what_one_table_would_say():
    pooled = pool([2.0, 2.0], [0.25, 0.25], freedom=97)
    assert pooled.stderr == 0.5
    assert pooled.freedom == pytest.approx(97 * 98 / 100)
    assert pool([2.0, 2.0], [0.25, 0.25]).interval() == pytest.approx((2 - 0.98, 2 + 0.98), abs=1e-3)


@pytest.mark.parametrize(("estimates", "variances"), [([1.0], [1.0]), ([1.0, 2.0], [1.0])])
def test_a_single_copy_cannot_be_pooled(estimates, variances):
    with pytest.raises(ValueError, match="two or more estimates and as many variances"):
        pool(estimates, variances)


@pytest.mark.parametrize(
    ("estimates", "variances", "said"),
    [
        ([[1.0, 2.0], [3.0, 4.0]], [0.1, 0.1], "one number is pooled at a time"),
        ([1.0, float("nan")], [1.0, 1.0], "finite"),
        ([1.0, 1.0], [-1.0, 1.0], "no variance less than 0"),
    ],
)
def test_what_cannot_be_pooled_is_refused(estimates, variances, said):
    with pytest.raises(ValueError, match=said):
        pool(estimates, variances)


def test_pooled_intervals_cover_the_truth_where_complete_rows_mislead():
    """y = a - b/2 + noise; ``a`` is missing more often the higher y is, as seen through a fourth column."""
    whole, rows = make_table("straight", 3)
    copies = TabglotImputer(random_state=2).fit(rows).sample(rows, n_draws=10)
    _, low, high = pool_copies(copies)
    assert ((low < TRUTH) & (high > TRUTH)).all()
    assert (high - low > np.ptp(pool_copies([whole, whole])[1:], axis=0)).all()  # holes cost something
    estimate, variance = regress(rows.dropna())
    assert abs(estimate[0] - TRUTH[0]) > 2 * variance[0] ** 0.5


@pytest.mark.parametrize("law", LAWS)
def test_simulated_tables_say_the_truth_where_nothing_is_missing(law):
    found = np.stack([regress(make_table(law, seed)[0])[0] for seed in range(40)])
    assert found.mean(axis=0) == pytest.approx(TRUTH, abs=0.03)


def test_the_small_form_of_the_bench_prints_a_table_and_writes_its_figures(tmp_path, capsys):
    assert main(["bench", "pooling", "--quick", "--json", str(tmp_path / "figures.json")]) == 0
    assert "straight: iterative_bayesridge" in capsys.readouterr().out
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert {figure["metric"] for figure in figures} == {"coverage", "bias", "width"}
    assert all(figure["seeds"] == 2 for figure in figures)
    off = {figure["method"]: abs(figure["value"]) for figure in figures if figure["metric"] == "bias"}
    assert off["ours"] < off["complete_rows"]
