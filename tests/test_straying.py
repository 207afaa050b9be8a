"""Numbers that are read about their expected value: as far out as held-out cells lay, and no further."""

import itertools
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from crepes import ConformalPredictiveSystem

from model import codec
from model.audit import measure
from model.calibration import LEVELS, Calibration, calibration_of
from model.draws import draw_copies
from model.requests import count_observed
from model.runtime import Predictor
from model.schema import Feature, Link
from model.straying import (
    FAR,
    HEIGHTS,
    MIDDLE,
    Ends,
    Straying,
    no_straying,
    read_about,
    read_ends,
    read_spread,
    read_strays,
)
from training.asked import Asked
from training.frames import fit_frames
from training.straying import conformal_strays, fit_straying

LOW, HIGH = HEIGHTS.index(0.05), HEIGHTS.index(1.0 - 0.05)


def make_number(values: np.ndarray) -> Feature:
    bins = codec.fit_bins(values)
    shares = codec.fit_shares(codec.encode_numbers(Feature("x", "numeric", bins), values), len(bins.values))
    return Feature("x", "numeric", bins, shares=shares)


@pytest.mark.parametrize("n", [40, 101, 1000])
def test_strays_are_those_of_an_independent_implementation(n):
    residuals = np.random.default_rng(n).normal(size=n)
    strays = conformal_strays(residuals)
    oracle = ConformalPredictiveSystem().fit(residuals)
    low, high = oracle.predict_int(np.zeros(1), confidence=0.9)[0]
    assert (strays[LOW], strays[HIGH]) == pytest.approx((low, high), abs=1e-12)
    assert strays[MIDDLE] == pytest.approx(np.median(residuals))
    assert (np.diff(strays) >= 0.0).all()


def test_what_too_few_cells_cannot_tell_is_as_far_as_can_be():
    strays = conformal_strays(np.asarray([-0.5, 0.1, 0.4]))
    assert (strays[LOW], strays[HIGH]) == (-FAR, FAR)


@pytest.mark.parametrize(("n_rows", "is_told"), [(18, False), (19, True)])
def test_a_row_that_is_asked_several_times_counts_once(n_rows, is_told):
    strays = conformal_strays(np.repeat(np.arange(float(n_rows)), 3), 3)
    assert (abs(strays[LOW]) < FAR, abs(strays[HIGH]) < FAR) == (is_told, is_told)
    if is_told:
        assert (strays[LOW], strays[HIGH]) == (0.0, n_rows - 1.0)


def test_strays_hold_what_they_promise_of_fresh_cells():
    rng = np.random.default_rng(0)
    strays = conformal_strays(rng.exponential(size=400))
    fresh = rng.exponential(size=20_000)
    assert np.mean(fresh < strays[LOW]) == pytest.approx(0.05, abs=0.025)
    assert np.mean(fresh > strays[HIGH]) == pytest.approx(0.05, abs=0.025)


def test_shares_beyond_are_those_of_held_out_cells_and_fall_with_the_square_of_the_distance():
    residuals = np.random.default_rng(0).normal(size=(3, 4000))
    straying = Straying(np.stack([[conformal_strays(some) for some in residuals]]), np.ones((1, 3), dtype=bool))
    fresh = np.random.default_rng(1).normal(size=6000)
    groups = np.arange(6000) % 3
    shares = straying.share_beyond(0, groups, fresh)
    for level in (0.01, 0.05, 0.2, 0.5):
        assert np.mean(shares <= level) == pytest.approx(level, rel=0.2)
    near, far = straying.share_beyond(0, np.zeros(2, dtype=np.int64), np.asarray([10.0, 20.0]))
    assert near / far == pytest.approx(4.0, rel=0.1)
    assert 0.0 < near < 0.002


def plain_calibration(n_values: int) -> Calibration:
    parts = np.tile(np.asarray(LEVELS), (1, 3, 1))
    return Calibration(np.ones(1), np.ones(1), parts, parts, np.zeros((1, n_values)), no_straying(1, 3))


def ask_about(feature: Feature, truth: np.ndarray, expected: np.ndarray, mass: np.ndarray) -> Asked:
    bins = feature.knots
    return Asked(np.log(mass + 1e-9), (expected - bins.mean) / bins.spread, truth, np.ones(len(truth)))


def test_what_is_told_more_finely_than_knots_are_apart_is_read_about_the_expected_value():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=500)
    feature = make_number(truth)
    positions = codec.encode_numbers(feature, truth).astype(float)
    mass = np.maximum(1.0 - np.abs(positions[:, None] - np.arange(feature.n_values)), 0.0)
    asked = {0: ask_about(feature, truth, truth + 0.01 * rng.normal(size=500), mass)}
    straying = fit_straying(asked, (feature,), plain_calibration(feature.n_values))
    assert straying.about.tolist() == [[True, True, True]]
    ends = Ends(strays=straying.quantiles(0, np.full(500, 2), np.asarray([0.05, 0.95])))
    _, interval = read_ends(feature.knots, mass, truth, ends)
    assert np.mean(interval[:, 1] - interval[:, 0]) < 0.08
    assert np.mean(read_spread(feature.knots, mass)) > 0.05  # which is what the distributions say


def test_where_expected_values_say_little_of_long_tails_the_distribution_is_read():
    rng = np.random.default_rng(0)
    level = rng.integers(-2, 3, 500)
    truth = np.exp(level + rng.normal(size=500))
    feature = make_number(truth)
    each = [np.exp(one + rng.normal(size=5000)) for one in range(-2, 3)]
    mass = np.stack([codec.fit_shares(codec.encode_numbers(feature, some), feature.n_values) for some in each])
    mean = np.asarray([some.mean() for some in each])
    asked = {0: ask_about(feature, truth, mean[level + 2], mass[level + 2])}
    straying = fit_straying(asked, (feature,), plain_calibration(feature.n_values))
    assert straying.about.tolist() == [[False, False, False]]


def test_too_few_cells_do_not_decide():
    truth = np.random.default_rng(0).normal(size=119)
    feature = make_number(truth)
    asked = {0: ask_about(feature, truth, truth, np.tile(feature.shares, (119, 1)))}
    straying = fit_straying(asked, (feature,), plain_calibration(feature.n_values))
    assert straying.about.tolist() == [[False, False, False]]


def make_asked(truth: np.ndarray, expected: np.ndarray) -> tuple[Feature, Asked]:
    """Cells of which the distribution tells what is usual, and no more."""
    feature = make_number(truth)
    return feature, ask_about(feature, truth, expected, np.tile(feature.shares, (len(truth), 1)))


def test_few_cells_of_one_column_do_not_stray_as_little_as_the_many_of_another():
    """A column that is seldom known was drawn as far out as those that follow from each other: five times too close."""
    rng = np.random.default_rng(0)
    sure, unsure = rng.normal(size=(2, 600))
    told = [make_asked(sure, sure + 0.01 * rng.normal(size=600)), make_asked(unsure[:60], np.zeros(60))]
    features = tuple(replace(feature, name=name) for name, (feature, _) in zip("ab", told, strict=True))
    plain = plain_calibration(max(feature.n_values for feature in features))
    two = replace(plain, parts=np.tile(plain.parts, (2, 1, 1)))
    asked = {i: replace(cells, observed=rng.random(len(cells.truth))) for i, (_, cells) in enumerate(told)}
    straying = fit_straying(asked, features, two)
    assert straying.about.tolist() == [[True, True, True], [False, False, False]]


def test_columns_that_lie_in_clusters_are_not_drawn_between_them():
    rng = np.random.default_rng(0)
    cluster = rng.integers(-1, 2, 600)
    guess = np.where(rng.random(600) < 0.4, rng.integers(-1, 2, 600), cluster)  # what the rest of the row says
    truth = 3.0 * cluster + 0.3 * rng.normal(size=600)
    feature = make_number(truth)
    each = np.stack([
        codec.fit_shares(codec.encode_numbers(feature, truth[guess == one]), feature.n_values) for one in (-1, 0, 1)
    ])  # fmt: skip
    expected = np.asarray([truth[guess == one].mean() for one in (-1, 0, 1)])
    asked = {0: ask_about(feature, truth, expected[guess + 1], each[guess + 1])}
    straying = fit_straying(asked, (feature,), plain_calibration(feature.n_values))
    assert straying.about.tolist() == [[False, False, False]]


def test_a_value_that_many_of_few_rows_share_is_one_that_the_distribution_knows():
    """Few rows have few knots, and what a tenth of them share is no atom there."""
    rng = np.random.default_rng(0)
    truth = np.where(rng.random(200) < 0.1, 0.0, rng.normal(2.0, 1.0, 200))
    feature, cells = make_asked(truth, truth + 0.01 * rng.normal(size=200))
    assert not any(feature.knots.atoms)
    straying = fit_straying({0: cells}, (feature,), plain_calibration(feature.n_values))
    assert straying.about.tolist() == [[True, False, False]]


def test_columns_whose_values_many_rows_share_are_drawn_as_they_are():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 5, 500).astype(float)
    feature = make_number(truth)
    mass = np.tile(feature.shares, (500, 1))
    asked = {0: ask_about(feature, truth, truth + 0.01, mass)}
    straying = fit_straying(asked, (feature,), plain_calibration(feature.n_values))
    assert straying.about.tolist() == [[True, False, False]]


def read_in_one_way(predictor, about):
    """The predictor with its numbers read in one way."""
    schema, calibration = predictor.schema, predictor.bundle.calibration
    strays = np.sort(np.random.default_rng(0).normal(size=(len(schema.features), 3, len(HEIGHTS))), axis=2)
    of_each = np.asarray([about if feature.is_continuous else (False,) * 3 for feature in schema.features])
    straying = Straying(strays, of_each)
    return Predictor(replace(predictor.bundle, calibration=replace(calibration, straying=straying)))


@pytest.fixture(scope="module", params=itertools.product((True, False), repeat=3))
def either(request, predictor):
    """The predictor with its numbers read in each way."""
    return read_in_one_way(predictor, request.param)


@pytest.mark.parametrize("interval", [None, 0.5, 0.9])
def test_single_rows_are_read_as_those_of_many(either, interval):
    links = dict(either.links(None))
    links |= {"turned": Link("turned", "mpg", -2.0, 30.0), "twin": Link("twin", "mpg")}
    rows = (
        {"weight": 3504, "cylinders": 8},
        {"weight": 2100.5, "year": 78, "horsepower": None},
        {"weight": 3000, "twin": 20},
    )
    for row in rows:
        for target in ("mpg", "displacement", "turned"):
            cells = {name: [cell] for name, cell in row.items()}
            readout, columns, positions = either.read_single(cells, links[target], links)
            logits, points = either.ask_singles(columns, [positions], readout.asked)
            single = readout.read(logits[0], points[0], interval, count_observed(columns, positions, readout.index))
            many = {name: [cell] * 2 for name, cell in row.items()}
            twice = either.predict(many, target, links=links, interval=interval)
            same = partial(pytest.approx, rel=1e-4, abs=1e-4)
            assert single.median == same(twice.median[0])
            if interval is not None:
                assert single.interval == same(twice.interval[0])
                low, high = single.interval
                assert low <= min(single.value, single.median) <= max(single.value, single.median) <= high


@pytest.mark.parametrize("about", [True, False])
def test_draws_lie_where_medians_do(predictor, about):
    other = read_in_one_way(predictor, (about,) * 3)
    rows = {"weight": [3504] * 4000, "mpg": [None] * 4000}
    drawn = np.asarray(draw_copies(other, rows, n_draws=1, seed=1, which=["mpg"]).values["mpg"][0])
    told = other.predict({"weight": [3504, 3504]}, "mpg")
    assert np.median(drawn) == pytest.approx(told.median[0], rel=0.03)


def test_wider_intervals_hold_narrower_ones_up_to_the_whole_range(predictor):
    before = None
    for interval in (0.5, 0.8, 0.9, 0.99, 0.999999):
        low, high = predictor.predict({"weight": [3504]}, "mpg", interval=interval).interval[0]
        assert before is None or (low <= before[0] and before[1] <= high)
        before = low, high
    knots = predictor.schema.features[predictor.schema.index["mpg"]].knots.values
    assert before == pytest.approx((knots[0], knots[-1]), rel=1e-3)


def test_a_date_is_read_about_the_expected_one_alone_and_among_others(either):
    rows = {"weight": [3504, 2000], "release_date": [None, None]}
    among = either.impute(rows, which=["release_date"], interval=0.9).filled["release_date"]
    for i in range(2):
        one = {name: cells[i : i + 1] for name, cells in rows.items()}
        alone = either.impute(one, which=["release_date"], interval=0.9).filled["release_date"]
        assert (alone.median[0], alone.interval[0]) == (among.median[i], among.interval[i])


def test_what_cannot_be_told_is_the_whole_range_however_far_it_goes():
    """A forgotten code for missing lies a hundred million spreads out."""
    bins = codec.fit_bins(np.append(np.random.default_rng(0).normal(size=400), 1e8))
    mass = np.full((1, len(bins.values)), 1.0 / len(bins.values))
    told = read_about(bins, mass, np.zeros(1), np.asarray([[-FAR, -1.0, 1.0, FAR]]))[0]
    assert (told[0], told[-1]) == (bins.values[0], bins.values[-1])
    own = conformal_strays(np.random.default_rng(0).normal(size=100))
    assert read_strays(own, np.asarray([0.001, 0.006, 0.994])).tolist() == [-FAR, -FAR, FAR]
    assert np.abs(read_strays(own, np.asarray([0.03, 0.97]))).max() < 4.0


def test_bundles_of_before_are_read_by_their_distributions(predictor):
    arrays = predictor.bundle.calibration.to_arrays()
    del arrays["strays"], arrays["about"]
    before = calibration_of(predictor.schema, arrays)
    assert not before.straying.about.any()
    old = Predictor(replace(predictor.bundle, calibration=before))
    told = old.predict({"weight": [3504, 2000]}, "mpg", interval=0.9)
    mass = np.asarray(predictor.predict({"weight": [3504, 2000]}, "mpg").mass)
    assert told.mass == pytest.approx(mass)
    assert told.interval[0][0] <= told.median[0] <= told.interval[0][1]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda a: a.pop("strays"), "'strays' is not there"),
        (lambda a: a.update(about=a["about"][:-1]), "made for other features"),
        (lambda a: a.update(strays=a["strays"][:, :, ::-1] - 1.0), "grow"),
        (lambda a: a.update(strays=a["strays"] * np.nan), "grow"),
        (lambda a: a.update(about=a["about"] + 2), "neither yes nor no"),
        (lambda a: a.update(about=np.ones_like(a["about"]), strays=a["strays"] * 0.0), "no number"),
        (lambda a: a.update(strays=np.where(a["strays"] < 0.0, -FAR, FAR)), "leave out what must be told"),
    ],
)
def test_strays_of_something_else_are_refused(predictor, change, reason):
    arrays = predictor.bundle.calibration.to_arrays()
    change(arrays)
    with pytest.raises(ValueError, match=reason):
        calibration_of(predictor.schema, arrays)


def test_columns_that_all_but_repeat_each_other_are_drawn_alike():
    """Between two knots the distribution cannot tell them apart: copies strayed a dozen times as far as the truth."""
    rng = np.random.default_rng(0)
    size = np.exp(0.5 * rng.normal(size=400))
    rows = pd.DataFrame({"size": size, "width": size + 0.02 * rng.normal(size=400), "other": rng.normal(size=400)})
    predictor = fit_frames({"t": rows}, kinds=dict.fromkeys(rows, "numeric"), epochs=40.0)
    fresh = np.exp(0.5 * rng.normal(size=500))
    fresh = fresh[(fresh > np.quantile(size, 0.02)) & (fresh < np.quantile(size, 0.98))]
    holes = {"size": fresh, "width": np.full(len(fresh), np.nan), "other": rng.normal(size=len(fresh))}
    drawn = np.asarray(draw_copies(predictor, holes, n_draws=5, table="t").values["width"])
    assert np.std(drawn - fresh) < 0.06
    told = predictor.impute(holes, table="t", interval=0.9).filled["width"]
    low, high = np.asarray(told.interval).T
    assert np.mean(high - low) < 0.2
    truth = fresh + 0.02 * rng.normal(size=len(fresh))
    assert np.mean((low <= truth) & (truth <= high)) > 0.87


def test_the_audit_follows_what_strayed(either):
    """Alone or among others, and the further from what is expected the more surprising."""
    rows = {"weight": [3504] * 3, "horsepower": [150, 220, 46]}
    cells = either.encode(rows, either.links(None))
    surprise = measure(either, cells)
    for i in range(3):
        one = either.encode({name: column[i : i + 1] for name, column in rows.items()}, either.links(None))
        assert measure(either, one)[0] == pytest.approx(surprise[i], abs=1e-4)
    assert surprise[:, 1].argmin() == 0


def test_intervals_hold_on_fresh_rows_of_a_small_table():
    rng = np.random.default_rng(0)

    def draw(n):
        cause, other = rng.normal(size=(2, n))
        return pd.DataFrame({"cause": cause, "other": other, "effect": np.exp(cause) + 0.3 * rng.normal(size=n)})

    train, fresh = draw(120), draw(3000)
    predictor = fit_frames({"t": train}, kinds=dict.fromkeys(train, "numeric"))
    assert predictor.bundle.calibration.straying.about.any()
    for column in train:
        rows = {name: fresh[name].tolist() for name in train if name != column}
        told = predictor.predict(rows, column, table="t", interval=0.9)
        low, high = np.asarray(told.interval).T
        inside = fresh[column].between(train[column].min(), train[column].max())
        assert fresh[column].between(low, high)[inside].mean() > 0.85
