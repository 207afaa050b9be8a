"""Intervals hold what they promise, and probabilities come closer to frequencies."""

import numpy as np
import pandas as pd
import pytest
from crepes import ConformalRegressor

from model import codec
from model.calibration import LEVELS, Calibration, calibration_of, log_shares_of
from model.draws import draw_copies
from model.schema import Feature
from training.calibrating import conformal_levels, how_far_out
from training.frames import fit_frames

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("n", [30, 101, 1000])
def test_conformal_levels_are_those_of_an_independent_implementation(n):
    far = RNG.random(n)
    found = dict(zip(LEVELS, conformal_levels(far), strict=True))
    oracle = ConformalRegressor().fit(far)
    for level in (0.5, 0.8, 0.9, 0.95):
        low, high = oracle.predict_int(np.zeros(1), confidence=level, y_min=-1.0, y_max=1.0)[0]
        assert found[level] == pytest.approx(high, abs=1e-12)
        assert found[level] == pytest.approx(-low, abs=1e-12)


def test_too_few_rows_give_the_whole_range():
    assert conformal_levels(np.asarray([0.1, 0.2]))[LEVELS.index(0.9)] == 1.0
    assert conformal_levels(np.empty(0)).tolist() == list(LEVELS)


def number() -> Feature:
    values = np.random.default_rng(1).normal(size=1000)
    bins = codec.fit_bins(values)
    return Feature(
        "x", "numeric", bins, shares=codec.fit_shares(codec.encode_numbers(Feature("x", "numeric", bins), values), 16)
    )


def test_calibrated_intervals_cover_fresh_cells_though_the_distribution_is_wrong():
    feature = number()
    flat = np.full((4000, 16), 1.0 / 16)  # says far too little of a cell that lies near the median
    truth = RNG.normal(scale=0.2, size=4000)
    part = conformal_levels(how_far_out(feature, flat[:500], truth[:500])[0])[LEVELS.index(0.9)]
    low, high = codec.read_quantiles(feature.knots, flat[500:], codec.tails(part)).T
    assert 0.87 < np.mean((low <= truth[500:]) & (truth[500:] <= high)) < 0.93
    assert part < 0.6


def test_what_lies_beyond_the_range_is_as_far_out_as_can_be():
    feature = number()
    far = how_far_out(feature, np.full((2, 16), 1.0 / 16), np.asarray([-100.0, 100.0]))
    assert [part.tolist() for part in far] == [[1.0, 1.0], [1.0, 1.0]]


@pytest.mark.parametrize("shares", [(0.2, 0.6, 0.2), (0.7, 0.3), (0.1, 0.2, 0.4, 0.2, 0.1)])
def test_draws_of_levels_that_were_right_all_along_stay_so(shares):
    n, n_levels = 20_000, len(shares)
    bins = codec.fit_bins(np.repeat(np.arange(float(n_levels)), 50), n_bins=n_levels)
    feature = Feature("x", "ordinal", bins, shares=shares)
    mass = np.tile(shares, (n, 1))
    truth = RNG.choice(n_levels, n, p=shares).astype(float)
    spreads = np.tile(conformal_levels(how_far_out(feature, mass, truth)[1]), (1, 3, 1))
    calibration = Calibration(np.ones(1), np.ones(1), spreads, spreads, np.zeros((1, n_levels)), np.zeros((1, 3)))
    levels = calibration.levels(0, np.zeros(n, dtype=np.int64), RNG.random(n))
    drawn = codec.read_quantiles(bins, mass, levels[:, None])[:, 0]
    assert np.bincount(drawn.astype(int), minlength=n_levels) / n == pytest.approx(shares, abs=0.02)


def test_few_held_out_cells_do_not_send_draws_to_the_ends():
    spreads = np.tile(conformal_levels(np.asarray([0.3, 0.5, 0.7])), (1, 3, 1))
    calibration = Calibration(np.ones(1), np.ones(1), spreads, spreads, np.zeros((1, 2)), np.zeros((1, 3)))
    levels = calibration.levels(0, np.zeros(2000, dtype=np.int64), RNG.random(2000))
    assert np.mean((levels <= 0.0) | (levels >= 1.0)) == 0.0


def test_a_bundles_calibration_is_read_back_and_applied(predictor):
    calibration = predictor.bundle.calibration
    assert calibration is not None
    again = calibration_of(predictor.schema, calibration.to_arrays())
    index = predictor.schema.index["mpg"]
    many, few = again.widths(index, np.asarray([50, 0]), 0.9)
    assert (many, few) == pytest.approx(tuple(calibration.widths(index, np.asarray([50, 0]), 0.9)))
    told = predictor.predict({"weight": [3504]}, "mpg", interval=0.9)
    narrower = predictor.predict({"weight": [3504]}, "mpg", interval=0.5)
    assert told.interval[0][0] <= narrower.interval[0][0] <= narrower.interval[0][1] <= told.interval[0][1]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda a: a.pop("temper"), "'temper' is not there"),
        (lambda a: a.update(usual=a["usual"][:-1]), "made for other features"),
        (lambda a: a.update(temper=-a["temper"]), "negative"),
        (lambda a: a.update(parts=a["parts"][:, :, ::-1]), "grow"),
    ],
)
def test_a_calibration_of_something_else_is_refused(predictor, change, reason):
    arrays = predictor.bundle.calibration.to_arrays()
    change(arrays)
    with pytest.raises(ValueError, match=reason):
        calibration_of(predictor.schema, arrays)


def test_tempering_draws_logits_to_what_is_said_with_nothing_observed(predictor):
    schema = predictor.schema
    usual = log_shares_of(schema)
    n = len(schema.features)
    half = Calibration(np.full(n, 0.5), np.ones(n), np.empty(0), np.empty(0), usual, np.empty(0))
    logits = RNG.normal(size=(3, 1, schema.n_values)).astype(np.float32)
    parts = RNG.normal(size=(3, 1, 2, schema.n_values)).astype(np.float32)
    base = logits - parts.sum(axis=2)
    feed = {"asked": np.asarray([0])}
    told, moved, start = half.apply(("logits", "contributions", "base"), feed, (logits, parts, base))
    assert told == pytest.approx((logits + usual[0]) / 2, abs=1e-5)
    assert start + moved.sum(axis=2) == pytest.approx(told, abs=1e-5)


def test_draws_stray_from_what_is_expected_as_the_truth_does():
    """A coarse distribution is far wider than the noise about its expected value: draws must not be."""
    rng = np.random.default_rng(0)
    cause = rng.normal(size=600)
    rows = pd.DataFrame({"cause": cause, "effect": cause + 0.3 * rng.normal(size=600)})
    predictor = fit_frames({"t": rows}, kinds={"cause": "numeric", "effect": "numeric"})
    fresh = rng.normal(size=2000)
    holes = {"cause": fresh, "effect": np.full(2000, np.nan)}
    drawn = np.asarray(draw_copies(predictor, holes, n_draws=1, table="t").values["effect"][0])
    slope, _ = np.polyfit(fresh, drawn, 1)
    assert slope == pytest.approx(1.0, abs=0.08)
    assert np.std(drawn - fresh) == pytest.approx(0.3, rel=0.35)


def test_draws_of_a_column_with_a_long_tail_do_not_pile_up_at_its_end():
    rng = np.random.default_rng(0)
    cause = rng.normal(size=400)
    rows = pd.DataFrame({"cause": cause, "income": np.exp(0.5 * cause + 0.8 * rng.normal(size=400))})
    predictor = fit_frames({"t": rows}, kinds={"cause": "numeric", "income": "numeric"}, epochs=40.0)
    holes = {"cause": cause, "income": np.full(400, np.nan)}
    drawn = np.concatenate([draw_copies(predictor, holes, n_draws=5, table="t").values["income"]])
    assert np.mean(drawn <= rows["income"].min() * 1.001) < 0.02
    assert np.median(drawn) == pytest.approx(rows["income"].median(), rel=0.25)


def test_single_answers_do_not_share_what_is_kept(predictor):
    predictor.predict({"weight": [3000.0]}, "origin").choices.clear()
    assert predictor.predict({"weight": [3000.0]}, "origin").choices
