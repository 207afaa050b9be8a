"""Rubin's rules, and that copies drawn by a fitted imputer give honest intervals when pooled by them."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t

from training.estimator import TabglotImputer
from training.pooling import pool

TRUTH = (0.0, 1.0, -0.5)


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


def regress(rows):
    """Coefficients of y on a and b, and their squared standard errors."""
    x = np.column_stack([np.ones(len(rows)), rows["a"], rows["b"]])
    y = rows["y"].to_numpy()
    inverse = np.linalg.inv(x.T @ x)
    coefficients = inverse @ x.T @ y
    noise = np.square(y - x @ coefficients).sum() / (len(y) - 3)
    return coefficients, noise * np.diag(inverse)


def test_pooled_intervals_cover_the_truth_where_complete_rows_mislead():
    """y = a - b/2 + noise; ``a`` is missing more often the higher y is, as seen through a fourth column."""
    rng = np.random.default_rng([2, 3])
    n = 500
    a = rng.normal(size=n)
    b = 0.6 * a + 0.8 * rng.normal(size=n)
    y = a - 0.5 * b + rng.normal(size=n)
    rows = pd.DataFrame({"a": a, "b": b, "y": y, "z": y + rng.normal(size=n)})
    complete = regress(rows)
    rows.loc[rng.random(n) < 1 / (1 + np.exp(0.9 - 1.2 * rows["z"])), "a"] = np.nan
    rows.loc[rng.random(n) < 0.25, "b"] = np.nan
    rows.loc[rng.random(n) < 0.2, "y"] = np.nan
    copies = TabglotImputer(random_state=2).fit(rows).sample(rows, n_draws=10)
    found = [regress(copy) for copy in copies]
    for k, truth in enumerate(TRUTH):
        pooled = pool([estimate[k] for estimate, _ in found], [variance[k] for _, variance in found], n - 3)
        low, high = pooled.interval(0.95)
        assert low < truth < high
        assert pooled.stderr > complete[1][k] ** 0.5  # holes cost something
    estimate, variance = regress(rows.dropna())
    assert abs(estimate[0] - TRUTH[0]) > 2 * variance[0] ** 0.5
