"""Which columns mean the same: from portraits alone, between tables of a bundle, and with rows never seen."""

import csv
from dataclasses import replace

import numpy as np
import pytest

from model.bundle import Bundle
from model.known_tables import sample_cells
from model.linking import fit_space, turn_over
from model.matching import match_portraits
from model.portraits import Sample, draw_portrait
from model.similarity import find_similar, to_units
from model.table_matching import match_rows, match_tables
from model.units import Pair, find_units

N = 600


def draw_rows(seed: int, n: int = N) -> dict[str, np.ndarray]:
    """Numbers and words that go together, each in its own way."""
    rng = np.random.default_rng(seed)
    size, age = rng.normal(size=n), rng.normal(size=n)
    return {
        "size": size,
        "age": age,
        "price": 0.9 * size - 0.4 * age + 0.3 * rng.normal(size=n),
        "speed": 0.3 * size + rng.normal(size=n),
        "wear": age**2 + 0.5 * rng.normal(size=n),
        "noise": rng.normal(size=n),
        "kind": np.digitize(size + 0.3 * rng.normal(size=n), [-1.0, 0.2]).astype(float),
        "place": rng.choice(5, n, p=[0.4, 0.3, 0.15, 0.1, 0.05]).astype(float),
    }


def samples(rows: dict[str, np.ndarray]) -> dict[str, Sample]:
    words = {"kind": ("low", "middle", "high"), "place": ("a", "b", "c", "d", "e")}
    return {name: Sample(cells, words.get(name)) for name, cells in rows.items()}


def disguise(rows: dict[str, np.ndarray]) -> dict[str, Sample]:
    """Other names, other numbers (price falls where it rose), other words in another order; size and age are kept."""
    price = -np.exp(rows["price"])
    return {
        "x3": Sample(price),
        "age": Sample(rows["age"]),
        "x1": Sample(rows["speed"] ** 3),
        "size": Sample(rows["size"]),
        "x5": Sample(2.0 - rows["kind"], ("p", "q", "r")),
        "x2": Sample(1000.0 * rows["wear"]),
        "x4": Sample(4.0 - rows["place"], ("v", "w", "x", "y", "z")),
    }


TWINS = {"price": "x3", "speed": "x1", "wear": "x2", "kind": "x5", "place": "x4"}


@pytest.fixture(scope="module")
def left():
    return draw_portrait(samples(draw_rows(0)))


@pytest.fixture(scope="module")
def right():
    return draw_portrait(disguise(draw_rows(1)))


def test_twins_are_found_whatever_they_are_called_and_however_they_are_expressed(left, right):
    matches = match_portraits(left, right, {"size": "size", "age": "age"})
    likely = {match.left: match.right for match in matches if match.probability >= 0.5}
    assert likely == TWINS  # noise has no twin, and none is found for it
    signs = {match.left: match.sign for match in matches}
    assert (signs["price"], signs["speed"], signs["wear"]) == (-1, 1, 1)


def test_tables_that_share_nothing_still_match_by_company(left, right):
    matches = match_portraits(left, right, {})
    found = {match.left: match.right for match in matches}
    assert found["price"] == "x3"
    assert found["kind"] == "x5"


def test_rows_in_another_order_and_columns_in_another_order_change_nothing(left):
    rng = np.random.default_rng(3)
    rows = draw_rows(1)
    order = rng.permutation(N)
    shuffled = {name: cells[order] for name, cells in reversed(list(rows.items()))}
    once = match_portraits(left, draw_portrait(samples(rows)), {"size": "size"})
    again = match_portraits(left, draw_portrait(samples(shuffled)), {"size": "size"})
    probability = {match.left: match.probability for match in again}
    assert {m.left: m.probability for m in once} == pytest.approx(probability, rel=1e-6)


def test_numbers_never_match_words_but_two_values_may_be_either():
    rows = draw_rows(0)
    flag = (rows["size"] > 0.3).astype(float)
    one = draw_portrait(
        {"size": Sample(rows["size"]), "flag": Sample(flag, ("no", "yes")), "kind": Sample(rows["kind"])}
    )
    rows = draw_rows(1)
    flag = (rows["size"] > 0.3).astype(float)
    two = draw_portrait(
        {"size": Sample(rows["size"]), "f": Sample(flag), "kind": Sample(rows["kind"], ("a", "b", "c"))}
    )
    pairs = {(match.left, match.right) for match in match_portraits(one, two, {"size": "size"})}
    assert pairs == {("flag", "f")}


@pytest.mark.parametrize("cells", [np.full(50, np.nan), np.full(50, 3.0), np.r_[1.0, np.full(49, np.nan)]])
def test_empty_and_constant_columns_have_portraits_too(left, cells):
    poor = draw_portrait({"poor": Sample(cells), "words": Sample(np.zeros(50), ("only",))})
    assert np.isfinite(poor.dependence).all()
    assert all(0.0 <= match.probability <= 1.0 for match in match_portraits(left, poor, {}))


def test_encodings_of_twins_are_nearest(left, right):
    own = [name if name in ("size", "age") else f"left.{name}" for name in left.columns]
    names = list(dict.fromkeys([*own, *right.columns]))
    _, encodings = fit_space([replace(left, columns=tuple(own)), right], names)
    unit = to_units(encodings)
    for mine, theirs in TWINS.items():
        asked = unit[names.index(theirs)]
        others = [name for name in own if name not in ("size", "age")]
        at = unit[[names.index(name) for name in others]]
        alike = np.maximum(at @ asked, turn_over(at) @ asked)
        if theirs != "x4":  # which depends on nothing: there is nothing to be near by
            assert others[int(alike.argmax())] == f"left.{mine}"


# Between tables of a bundle


def test_shared_features_are_sure_and_kinds_are_respected(predictor):
    left, right = predictor.links("auto"), predictor.links("epa2021")
    kinds = {f.name: f.is_number or f.n_values == 2 for f in predictor.schema.features}
    matching = match_tables(predictor.bundle, left, right, least=0.0)
    assert {(p.left, p.right) for p in matching.pairs if p.probability == 1.0} >= {("mpg", "city_mpg")}
    for pair in matching.pairs:
        assert kinds[left[pair.left].feature] == kinds[right[pair.right].feature]


def test_what_is_not_sure_is_unmatched(predictor):
    left, right = predictor.links("auto"), predictor.links("mtcars")
    matching = match_tables(predictor.bundle, left, right, least=0.999)
    assert "origin" in matching.left
    assert {"drat", "gear"} <= set(matching.right)
    assert {p.left for p in matching.pairs} | set(matching.left) == set(left)


def test_likeness_has_a_sign(predictor):
    found = {name: sign for name, _, sign in find_similar(predictor.bundle, "mpg", 1000)}
    assert found["weight"] == found["displacement"] == -1


# Rows of a table never seen


@pytest.fixture(scope="module")
def new_rows(cars):
    with (cars / "auto.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    return {
        "kilos": [float(line["weight"]) * 0.45359237 for line in lines],
        "litres_per_100": [235.2 / float(line["mpg"]) for line in lines],
        "cylinders": [int(line["cylinders"]) for line in lines],
        "litres": [round(float(line["displacement"]) / 61.0237, 1) for line in lines],
        "empty": [None] * len(lines),
    }


def test_a_new_table_is_matched_with_units_and_signs_and_placed(predictor, new_rows):
    matching = match_rows(predictor.bundle, predictor.links("auto"), new_rows)
    found = {pair.right: pair for pair in matching.pairs}
    assert {right: pair.left for right, pair in found.items()} == {
        "cylinders": "cylinders", "kilos": "weight", "litres": "displacement", "litres_per_100": "mpg",
    }  # fmt: skip
    assert found["kilos"].unit == pytest.approx((2.204623, 0.0), abs=1e-5)
    assert found["litres"].unit == pytest.approx((61.02374, 0.0), abs=1e-3)
    assert (found["litres_per_100"].sign, found["litres_per_100"].unit) == (-1, None)
    assert "empty" in matching.right
    assert found["kilos"].evidence["encoding"] > 0.75
    assert set(matching.encodings) == set(found)


def test_the_order_of_rows_does_not_turn_signs(predictor):
    """A column of two words counts one of them as the lower: which, must not depend on the row that comes first."""
    rng = np.random.default_rng(5)
    rows = draw_rows(1)
    words = np.where(rows["size"] + rng.normal(size=N) > 0, "big", "small")
    left = draw_portrait({**samples(draw_rows(0)), "word": sample_cells(list(words_of(draw_rows(0))))})
    for order in (np.argsort(words), np.argsort(words)[::-1]):
        cells = {"x": Sample(rows["price"][order]), "word": sample_cells(list(words[order]))}
        (match,) = match_portraits(left, draw_portrait(cells), {"word": "word"})[:1]
        assert (match.left, match.sign) == ("price", 1) or match.left == "size"
        turned = draw_portrait(
            {"x": Sample(rows["price"][order]), "word": Sample(1.0 - cells["word"].cells, ("small", "big"))}
        )
        (other,) = match_portraits(left, turned, {"word": "word"})[:1]
        assert (other.left, other.sign) == (match.left, match.sign)


def words_of(rows):
    return np.where(rows["size"] + np.random.default_rng(6).normal(size=N) > 0, "big", "small")


def test_codes_are_read_as_the_words_they_stand_for(predictor, cars):
    with (cars / "auto.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    rows = {"origin": [int(line["origin"]) for line in lines], "w": [float(line["weight"]) for line in lines]}
    found = {pair.right: pair for pair in match_rows(predictor.bundle, predictor.links("auto"), rows).pairs}
    assert (found["origin"].left, found["origin"].unit) == ("origin", (1.0, 0.0))


def test_a_column_that_falls_as_its_feature_rises(predictor, new_rows):
    links = {**predictor.links("auto"), "weight": replace(predictor.links("auto")["weight"], scale=-1.0)}
    rows = {"down": [-cell for cell in new_rows["kilos"]], "cylinders": new_rows["cylinders"]}
    found = {pair.right: pair for pair in match_rows(predictor.bundle, links, rows, least=0.0).pairs}
    assert (found["down"].left, found["down"].sign) == ("weight", 1)
    assert found["down"].unit == pytest.approx((-2.204623, 0.0), abs=1e-4)


@pytest.mark.parametrize("huge", [1.7e308, -1e200, 1e120])
def test_numbers_that_overflow_tell_nothing(predictor, huge):
    rows = {"mpg": [huge if i % 2 else -huge for i in range(50)], "weight": [huge] * 50}
    assert all(pair.unit is None for pair in match_rows(predictor.bundle, predictor.links("auto"), rows).pairs)


def test_long_names_cost_no_more(predictor):
    columns = {"a1" * 1_000_000: [1.0, 2.0, 3.0] * 10, "b2" * 1_000_000: [3.0, 2.0, 1.0] * 10}
    match_rows(predictor.bundle, predictor.links("auto"), columns)


def test_a_bundle_without_portraits_matches_by_values(predictor, new_rows):
    old = predictor.bundle
    bare = Bundle(old.manifest, old.schema, old.network, old.encodings, old.expert, old.calibration)
    rows = {"a": [cell / 0.45359237 for cell in new_rows["kilos"]], "b": new_rows["cylinders"]}
    found = {p.right: p.left for p in match_rows(bare, predictor.links("auto"), rows, least=0.0).pairs}
    assert found == {"a": "weight", "b": "cylinders"}


def test_no_rows_match_nothing(predictor):
    matching = match_rows(predictor.bundle, predictor.links("auto"), {"a": [None, None]})
    assert matching.pairs == []
    assert matching.right == ["a"]


@pytest.mark.parametrize(
    ("cells", "words"),
    [([1, 2.5, None], None), ([True, False, None], ("false", "true")), ([1, "x"], ("1", "x")), ([10**400, 1], None)],
)
def test_cells_as_they_come(cells, words):
    assert sample_cells(cells).words == words


# Units


@pytest.mark.parametrize(
    ("scale", "offset", "sign"),
    [(1.0, 0.0, 1), (2.204623, 0.0, 1), (1000.0, 0.0, 1), (1.8, 32.0, 1), (-1.0, 2026.0, -1)],
)
def test_units_are_found(scale, offset, sign):
    rng = np.random.default_rng(0)
    cells = np.quantile(rng.gamma(3.0, 10.0, 2000) + 5.0, np.linspace(0, 1, 129))
    feature = np.sort(cells * scale + offset)
    same = Pair(cells, cells)
    found = find_units([Pair(feature, cells, sign), same, same])
    assert found[0] == pytest.approx((scale, offset), rel=1e-3)
    assert found[1] == (1.0, 0.0)


def test_no_unit_where_none_would_do():
    cells = np.quantile(np.random.default_rng(0).gamma(1.0, 10.0, 2000) + 1.0, np.linspace(0, 1, 129))
    assert find_units([Pair(np.sort(235.0 / cells), cells, -1)]) == [None]
