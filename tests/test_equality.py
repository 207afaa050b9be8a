"""Values that are exactly equal: how they are drawn, kept in a bundle, and what they say of two columns."""

from dataclasses import replace

import numpy as np
import pytest

from model.equality import compare_equal
from model.examples import MOST_EXAMPLES, draw_examples, rescale_examples, round_off
from model.known_tables import portrait_of
from model.matching import match_portraits
from model.portrait_files import linking_of
from model.portraits import Sample, draw_portrait

N = 400


def draw(**columns):
    return draw_portrait({name: Sample(cells) for name, cells in columns.items()})


def compare(left, right):
    return compare_equal(left, right, np.arange(len(left.columns)), np.arange(len(right.columns)))


@pytest.fixture(scope="module")
def unlike():
    """Columns that are the same for all that can be seen, but that every cell holds a number of its own."""
    rng = np.random.default_rng(0)
    return {name: rng.normal(size=N) for name in ("a", "b", "c", "d")}


def test_tables_that_share_rows_are_matched_by_equal_values_alone(unlike):
    rng = np.random.default_rng(1)
    half = {
        name: np.where(rng.random(N) < 0.5, rng.permutation(cells), rng.normal(size=N))
        for name, cells in unlike.items()
    }
    right = draw(**{f"x{i}": half[name] for i, name in enumerate("dbca")})
    matches = match_portraits(draw(**unlike), right, {})
    likely = {match.left: match.right for match in matches if match.probability > 0.8}
    assert likely == {"d": "x0", "b": "x1", "c": "x2", "a": "x3"}
    assert all(match.evidence["equal"] > 5.0 for match in matches)


def test_a_grid_of_measurement_tells_columns_that_have_moved():
    rng = np.random.default_rng(2)
    quarters, tenths, thirds, cents = (
        lambda at, step=step: np.round(rng.normal(at, 8.0, N) / step) * step for step in (0.25, 0.1, 1 / 3, 0.01)
    )
    left = draw(a=quarters(50), b=tenths(50.03), c=thirds(50.1), d=cents(50))
    right = draw(w=thirds(58.1), x=quarters(58), y=cents(58), z=tenths(58.03))
    odds = compare(left, right)
    assert odds[0].argmax() == 1
    assert odds[2].argmax() == 0
    assert min(odds[0, 1], odds[2, 0]) > 2.0


def test_small_integers_say_next_to_nothing():
    rng = np.random.default_rng(3)
    left, right = (draw(**{f"{side}{i}": rng.integers(1, 6, N).astype(float) for i in range(4)}) for side in "lr")
    assert np.abs(np.log(compare(left, right))).max() < 0.2
    assert all(abs(match.evidence["equal"]) < 1.0 for match in match_portraits(left, right, {}))


def test_nothing_in_common_hardly_speaks_against_a_pair(unlike):
    other = draw(**{name: 2.2 * np.exp(cells) for name, cells in unlike.items()})
    assert compare(draw(**unlike), other).min() > 0.5


def test_words_say_nothing_here(unlike):
    words = draw_portrait({"w": Sample(np.arange(N) % 3.0, ("p", "q", "r")), "n": Sample(unlike["a"])})
    assert (words.distinct > 0).tolist() == [False, True]
    odds = compare(draw(**unlike), words)
    assert (odds[:, 0] == 1.0).all()
    assert odds[:, 1].argmax() == 0


def test_of_many_values_those_in_common_are_drawn_on_both_sides():
    values = np.random.default_rng(4).normal(size=9_000)
    (one, n_one), (other, n_other) = draw_examples(values[:6_000]), draw_examples(values[3_000:])
    assert [n_one, n_other] == pytest.approx([6_000, 6_000], abs=60)  # some agree in six digits
    assert len(set(one) & set(other)) / MOST_EXAMPLES == pytest.approx(0.5, abs=0.1)
    odds = compare(draw(a=values[:6_000], b=-values[:6_000]), draw(x=values[3_000:], y=values[3_000:] + 0.5))
    assert odds[0, 0] > 5.0 * odds[0, 1]


def test_the_draw_does_not_depend_on_the_order_of_cells_nor_on_missing_ones():
    cells = np.random.default_rng(5).normal(size=2_000)
    again = np.append(cells[::-1], [np.nan, np.nan])
    assert draw_examples(cells)[0].tolist() == draw_examples(again)[0].tolist()


def test_what_differs_only_in_how_it_was_reckoned_is_equal():
    assert round_off(np.asarray([0.1 + 0.2, -0.0, 3504.0004, 1e-300, 1.5e99])).tolist() == [
        0.3,
        0.0,
        3504.0,
        0.0,
        1.5e99,
    ]
    assert not np.signbit(round_off(np.asarray([-0.0])))[0]


def test_identifiers_too_long_to_be_told_apart_give_no_examples():
    assert draw_examples(np.arange(10_000_000.0, 10_000_900.0))[1] == 0
    assert draw_examples(np.arange(100_000.0, 100_900.0))[1] == 900


@pytest.mark.parametrize("huge", [1e200, np.inf, -np.inf])
def test_numbers_beyond_all_measure_are_no_examples(huge):
    assert draw_examples(np.asarray([1.0, huge]))[1] == 1


def test_in_another_unit_all_values_can_be_told_but_no_draw_of_them():
    grams, n = draw_examples(np.asarray([1500.0, 2000.0, 2500.0]))
    kilos, m = rescale_examples(grams, n, 1000.0, 0.0)
    assert (kilos[:m].tolist(), m) == ([1.5, 2.0, 2.5], 3)
    many, n = draw_examples(np.random.default_rng(6).normal(size=1_000))
    assert rescale_examples(many, n, 1.0, 0.0) == (many, n)
    assert rescale_examples(many, n, 1000.0, 0.0)[1] == 0


# In a bundle


def test_examples_come_back_from_a_bundle_in_the_units_of_the_table(predictor):
    links = predictor.links("mtcars")
    portrait = portrait_of(predictor.bundle, links)
    at = portrait.index["wt"]
    assert links["wt"].scale == 1000.0
    examples = portrait.examples[at, : portrait.distinct[at]]
    assert 10 < len(examples) <= 32
    assert {2.62, 3.44} & set(examples)
    assert (examples < 6.0).all()


def test_a_bundle_from_before_there_were_examples_is_read_and_says_nothing_of_equal_values(predictor):
    linking = predictor.bundle.linking
    arrays = {key: array for key, array in linking.to_arrays().items() if not key.endswith((".examples", ".distinct"))}
    old = replace(predictor.bundle, linking=linking_of(linking.schema, arrays))
    left, right = (portrait_of(old, predictor.links(table)) for table in ("auto", "mtcars"))
    assert not left.distinct.any()
    assert all(match.evidence["equal"] == 0.0 for match in match_portraits(left, right, {}))


def _turn(examples, distinct):
    examples[0] = examples[0, ::-1].copy() + np.arange(MOST_EXAMPLES)[::-1]


def _repeat(examples, distinct):
    examples[0], distinct[0] = 1.0, 5


def _owe(examples, distinct):
    distinct[0] = -1


def _boast(examples, distinct):
    distinct[0] = 2**62


def _swell(examples, distinct):
    examples[0, -1] = 1e200


@pytest.mark.parametrize("spoil", [_turn, _repeat, _owe, _boast, _swell])
def test_examples_that_cannot_be_are_refused(predictor, spoil):
    linking = predictor.bundle.linking
    arrays = {key: array.copy() for key, array in linking.to_arrays().items()}
    spoil(arrays["0.examples"], arrays["0.distinct"])
    with pytest.raises(ValueError, match=r"0\.examples (are not distinct values in rising order|hold a number beyond)"):
        linking_of(linking.schema, arrays)


@pytest.mark.parametrize("missing", ["0.distinct", "0.examples"])
def test_examples_and_their_number_come_together_or_not_at_all(predictor, missing):
    linking = predictor.bundle.linking
    arrays = {key: array for key, array in linking.to_arrays().items() if key != missing}
    with pytest.raises(ValueError, match=r"distinct|examples"):
        linking_of(linking.schema, arrays)
