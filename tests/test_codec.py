"""Cells to positions and distributions back to values."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from model import codec
from model.bends import check_bends
from model.layout import hats
from model.schema import Feature

numbers = st.lists(st.floats(-1e6, 1e6).map(lambda x: round(x, 3)), min_size=2, max_size=300)


def feature_of(values, n_bins: int = 16) -> Feature:
    return Feature("x", "numeric", codec.fit_bins(np.asarray(values, dtype=float), n_bins))


@given(numbers)
@settings(deadline=None, max_examples=200)
def test_a_number_keeps_its_resolution_through_its_position(values):
    feature = feature_of(values)
    knots = np.asarray(feature.knots.values)
    assert (np.diff(knots) > 0).all()
    assert knots[0] == min(values)
    assert knots[-1] == max(values)
    positions = codec.encode_numbers(feature, np.asarray(values, dtype=float))
    back = np.interp(positions.astype(float), np.arange(len(knots)), knots)
    assert np.abs(back - values).max() <= 1e-5 * max(1.0, knots[-1] - knots[0])


def test_few_distinct_values_are_each_a_knot():
    bins = codec.fit_bins(np.array([3.0, 1.0, 2.0, 2.0] * 20))
    assert bins.values == (1.0, 2.0, 3.0)
    assert all(bins.atoms)


def test_a_value_that_holds_most_rows_gets_a_knot_and_the_rest_keep_theirs():
    rng = np.random.default_rng(0)
    values = np.where(rng.random(5000) < 0.9, 0.0, rng.lognormal(8, 1, 5000))
    bins = codec.fit_bins(values)
    assert len(bins.values) == 16
    assert [v for v, atom in zip(bins.values, bins.atoms, strict=True) if atom] == [0.0]


def test_hats_around_a_position_add_up_to_one_and_missing_has_none():
    weights = hats(torch.tensor([0.0, 2.25, torch.nan, 4.0]), 5)
    assert weights.sum(dim=0).tolist() == [1.0, 1.0, 0.0, 1.0]
    assert weights[:, 1].tolist() == [0.0, 0.0, 0.75, 0.25, 0.0]


def test_values_beyond_the_ends_are_clamped_and_nan_stays():
    feature = feature_of(np.linspace(0, 10, 100))
    positions = codec.encode_numbers(feature, np.array([-5.0, 99.0, np.nan]))
    assert positions[0] == 0
    assert positions[1] == feature.n_values - 1
    assert np.isnan(positions[2])


@given(st.lists(st.floats(0.001, 1.0), min_size=16, max_size=16), st.floats(0.01, 0.98))
@settings(deadline=None)
def test_quantiles_ascend_and_lie_between_the_ends(weights, level):
    bins = codec.fit_bins(np.random.default_rng(0).lognormal(size=1000))
    mass = np.asarray([weights]) / np.sum(weights)
    low, high = (codec.read_quantile(bins, mass, q)[0] for q in (level, level + 0.01))
    assert bins.values[0] <= low <= high <= bins.values[-1]


@pytest.mark.parametrize("draw", ["normal", "lognormal", "uniform"])
def test_a_distribution_over_knots_reads_back_as_the_data_it_came_from(draw):
    values = getattr(np.random.default_rng(1), draw)(size=20_000)
    feature = feature_of(values)
    shares = np.asarray([codec.fit_shares(codec.encode_numbers(feature, values), feature.n_values)])
    mean = (shares @ codec.axis_of(feature.knots).knots)[0]
    assert mean == pytest.approx(values.mean(), abs=0.02 * values.std())
    for level in (0.1, 0.5, 0.9):
        near = np.quantile(values, [level - 0.03, level + 0.03])
        assert near[0] <= codec.read_quantile(feature.knots, shares, level)[0] <= near[1]
    low, high = codec.read_quantiles(feature.knots, shares, codec.tails(0.8))[0]
    assert np.mean((values >= low) & (values <= high)) == pytest.approx(0.8, abs=0.03)


def long_tail():
    """Most rows below 30, a few far out, as the mileage of cars once some are electric."""
    rng = np.random.default_rng(3)
    return np.concatenate([rng.normal(20, 4, 3000), 30 + rng.exponential(4.0, 200), rng.uniform(90, 110, 8)])


def test_a_long_tail_is_filled_at_its_foot_as_its_rows_are():
    values = long_tail()
    feature = feature_of(values)
    straight = replace(feature.knots, bends=())
    shares = np.asarray([codec.fit_shares(codec.encode_numbers(feature, values), feature.n_values)])
    truth = np.quantile(values, 0.98)
    assert codec.read_quantile(feature.knots, shares, 0.98)[0] == pytest.approx(truth, abs=4.0)
    assert codec.read_quantile(straight, shares, 0.98)[0] > truth + 20.0


def test_rows_that_lie_evenly_between_knots_need_no_bends():
    assert codec.fit_bins(np.random.default_rng(0).uniform(size=3000)).bends == ()
    assert codec.fit_bins(np.repeat(np.arange(10.0), 30)).bends == ()


@given(st.lists(st.floats(0.001, 1.0), min_size=16, max_size=16), st.floats(0.001, 0.999))
@settings(deadline=None)
def test_heights_are_the_inverse_of_quantiles_with_bends_too(weights, level):
    feature = feature_of(long_tail())
    assert feature.knots.bends
    mass = np.asarray([weights]) / np.sum(weights)
    value = codec.read_quantiles(feature.knots, mass, [level])[0]
    position = np.interp(value, feature.knots.values, np.arange(feature.n_values))
    at_most, less = codec.read_heights(feature.knots, mass, position)
    assert less[0] - 1e-6 <= level <= at_most[0] + 1e-6


def test_pieces_and_quantiles_tell_the_same_of_a_bent_distribution():
    bins = codec.fit_bins(long_tail())
    mass = np.random.default_rng(1).dirichlet(np.ones(len(bins.values)), size=5)
    _, highs, pieces = codec.read_pieces(bins, mass)
    heights = np.cumsum(pieces, axis=1)
    assert codec.read_quantiles(bins, mass, heights[:, :-1])[:, ::3] == pytest.approx(np.tile(highs[:-1:3], (5, 1)))


@pytest.mark.parametrize(
    ("bends", "reason"),
    [
        (((0.0, 0.5),), "between two knots"),
        (((1.0, 0.5),), "between two knots"),
        (((0.5, 0.0),), "between two knots"),
        (((0.5, 1.5),), "between two knots"),
        (((9.0, 0.5),), "between two knots"),
        (((0.5, 0.5), (0.4, 0.6)), "ascend"),
        (((0.5, 0.5), (0.6, 0.4)), "ascend"),
        (((0.5, float("nan")),), "between two knots"),
    ],
)
def test_bends_that_cannot_be_are_refused(bends, reason):
    with pytest.raises(ValueError, match=reason):
        check_bends(bends, (0.0, 1.0, 2.0))


def test_the_median_of_levels_is_a_level_and_pieces_are_its_atoms():
    bins = codec.fit_bins(np.array([4.0] * 50 + [6.0] * 20 + [8.0] * 40))
    mass = np.array([[0.2, 0.5, 0.3]])
    assert codec.read_quantile(bins, mass, 0.5)[0] == 6.0
    lows, highs, pieces = codec.read_pieces(bins, mass)
    assert lows.tolist() == highs.tolist() == [4.0, 6.0, 8.0]
    assert pieces[0] == pytest.approx([0.2, 0.5, 0.3])


def test_pieces_hold_all_of_the_mass():
    bins = codec.fit_bins(np.concatenate([np.zeros(500), np.random.default_rng(0).lognormal(size=500)]))
    mass = np.random.default_rng(1).dirichlet(np.ones(len(bins.values)), size=7)
    lows, highs, pieces = codec.read_pieces(bins, mass)
    assert (lows <= highs).all()
    assert pieces.sum(axis=1) == pytest.approx(np.ones(7))


def test_words_never_seen_are_missing_and_rare_ones_are_other():
    feature = Feature("c", "categorical", categories=("a", "b"), rare=("z",))
    assert codec.encode_words(feature, ["b", "z", "?", None])[:2].tolist() == [1.0, 2.0]
    assert np.isnan(codec.encode_words(feature, ["?", None])).all()


def test_levels_of_an_ordinal_are_all_knots_even_in_a_small_table():
    values = np.arange(30.0) % 10
    assert codec.fit_bins(values, 64).values == tuple(range(10))


def test_a_forgotten_code_for_missing_does_not_set_the_scale():
    rng = np.random.default_rng(0)
    values = rng.normal(200, 20, 600)
    clean = codec.fit_bins(values)
    values[:3] = 99_999_999
    soiled = codec.fit_bins(values)
    assert soiled.mean == pytest.approx(clean.mean, abs=2)
    assert soiled.spread == pytest.approx(clean.spread, rel=0.1)
    assert np.abs(codec.standardize(soiled)).max() <= codec.MOST_SPREADS


def test_huge_numbers_do_not_overflow():
    bins = codec.fit_bins(np.linspace(1e200, 3e200, 100))
    assert np.isfinite([bins.mean, bins.spread]).all()
    assert bins.spread == pytest.approx(0.57e200, rel=0.1)


@pytest.mark.parametrize(
    ("word", "plain"), [("4.0", "4"), ("01234", "01234"), ("4.5", "4.5"), ("v1.0", "v1.0"), ("-2.00", "-2")]
)
def test_whole_numbers_that_a_file_wrote_with_a_point_are_the_same_word(word, plain):
    assert codec.plain_word(word) == plain


def test_rounding_does_not_choose_between_two_atoms():
    """Half of the distribution lies at or below the second of four values, give or take a rounding."""
    bins = codec.fit_bins(np.repeat([1.0, 2.0, 5.0, 9.0], 10))
    assert all(bins.atoms)
    even = np.full(4, 0.25)
    off = 1e-9 * np.asarray([1.0, 1.0, -1.0, -1.0])
    assert codec.read_quantile(bins, np.stack([even, even + off, even - off]), 0.5).tolist() == [2.0, 2.0, 2.0]
