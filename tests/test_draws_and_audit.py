"""Drawn copies follow the model's distributions, and the audit measures against them."""

import numpy as np
import pandas as pd
import pytest

from model.audit import audit, measure
from model.draws import draw_copies
from model.errors import AskError
from training.frames import fit_frames

ROW = {"weight": [3504], "cylinders": [8], "year": [70]}


def test_drawn_numbers_follow_the_predicted_distribution(predictor):
    draws = draw_copies(predictor, {**ROW, "mpg": [None]}, n_draws=20_000, seed=3, which=["mpg"])
    values = np.asarray([copy[0] for copy in draws.values["mpg"]])
    told = predictor.predict(ROW, "mpg", interval=0.8)
    low, high = told.interval[0]
    median = told.median[0]
    assert np.mean(values < median) < 0.53  # an atom may sit on the median
    assert np.mean(values <= median) > 0.47
    # Of values that many rows share an interval holds all or nothing, draws a part: they need not agree to the point.
    assert np.mean((values >= low) & (values <= high)) >= 0.77


def test_drawn_categories_follow_their_probabilities(predictor):
    draws = draw_copies(predictor, {**ROW, "origin": [None]}, n_draws=4000, seed=3, which=["origin"])
    told = predictor.predict(ROW, "origin")
    shares = np.mean([copy[0] == told.values[0] for copy in draws.values["origin"]])
    assert shares == pytest.approx(told.probability[0], abs=0.03)


def test_holes_of_one_copy_are_drawn_given_each_other(predictor):
    empty = {"weight": [None], "displacement": [None]}
    draws = draw_copies(predictor, empty, n_draws=1500, seed=0)
    weight, displacement = (np.asarray([copy[0] for copy in draws.values[name]]) for name in empty)
    assert np.corrcoef(weight, displacement)[0, 1] > 0.3


def test_columns_without_holes_are_not_drawn_and_rows_are_named(predictor):
    columns = {"weight": [3504, 2100, None], "mpg": [None, 30, None]}
    draws = draw_copies(predictor, columns, n_draws=2)
    assert {name: rows.tolist() for name, rows in draws.rows.items()} == {"weight": [2], "mpg": [0, 2]}
    assert [len(copy) for copy in draws.values["mpg"]] == [2, 2]


def test_a_table_lends_its_units_to_draws(predictor):
    draws = draw_copies(predictor, {"cyl": [8], "wt": [None]}, n_draws=50, table="mtcars", which=["wt"])
    assert all(1 < copy[0] < 7 for copy in draws.values["wt"])


def test_the_models_own_draws_are_not_surprising(predictor):
    draws = draw_copies(predictor, {"weight": [2500] * 800, "horsepower": [None] * 800}, n_draws=1, seed=1)
    cells = predictor.encode(
        {"weight": [2500] * 800, "horsepower": draws.values["horsepower"][0]}, predictor.links(None)
    )
    surprise = measure(predictor, cells)[:, 1]
    assert surprise.mean() < 0.7
    for level in (1.0, 2.3, 4.6):
        assert np.mean(surprise >= level) < np.exp(-level) + 0.005


def test_a_usual_value_in_the_wrong_row_has_more_against_it_than_a_rare_one():
    """Both are equally improbable in their rows; a rare word is so in every row."""
    rng = np.random.default_rng(0)
    side = rng.choice(["a", "b"], 1200)
    word = np.where(rng.random(1200) < 0.97, side, np.where(side == "a", "b", "a")).astype(object)
    word[rng.random(1200) < 0.03] = "rare"
    predictor = fit_frames({"t": pd.DataFrame({"side": side, "word": word})}, epochs=30.0)
    cells = predictor.encode({"side": ["a", "a", "a"], "word": ["b", "rare", "a"]}, predictor.links("t"))
    wrong, rare, right = measure(predictor, cells)[:, 1]
    assert wrong > rare > right


def test_no_more_cells_are_surprising_than_the_bound_says(predictor_of_noise):
    """In every column, in whole rows and in rows of two cells: new rows without a mistake."""
    predictor, fresh = predictor_of_noise
    for n_hidden in (0, 3):
        known = fresh.iloc[:, n_hidden:]
        cells = predictor.encode({name: known[name].tolist() for name in known}, predictor.links("t"))
        surprise = measure(predictor, cells)
        for level in (1.0, 2.3, 4.6):
            assert (np.mean(surprise >= level, axis=0) < np.exp(-level) + 0.005).all()


@pytest.fixture(scope="module")
def predictor_of_noise():
    """Fitted on rows some of whose columns hang together and one of which is noise, and 2,000 new ones."""
    rng = np.random.default_rng(1)
    common = rng.normal(size=(3000, 1))
    numbers = pd.DataFrame(common + rng.normal(size=(3000, 3)) * [0.1, 0.5, 1.0], columns=list("abc"))
    word = np.where(common[:, 0] + rng.normal(size=3000) > 0.5, "yes", "no")
    rows = numbers.assign(noise=rng.normal(size=3000), word=word)
    return fit_frames({"t": rows[:1000]}, epochs=10.0), rows[1000:].reset_index(drop=True)


def test_a_wrong_word_stands_out_where_all_sound_ones_are_certain():
    """Evidence against wrong cells must not be levelled by the many cells that have none."""
    countries = [f"country {i}" for i in range(12)]
    which = np.random.default_rng(0).integers(12, size=1000)
    rows = pd.DataFrame({
        "country": np.asarray(countries, dtype=object)[which],
        "code": np.asarray([f"C{i}" for i in range(12)], dtype=object)[which],
        "continent": np.asarray(["north", "south", "east"], dtype=object)[which % 3],
    })  # fmt: skip
    predictor = fit_frames({"t": rows}, epochs=20.0)
    sent = rows[:50].copy()
    sent.loc[7, "code"] = "C3" if sent.loc[7, "code"] != "C3" else "C4"
    suspects, _ = audit(predictor, {name: sent[name].tolist() for name in sent}, table="t", limit=150)
    assert len(suspects) == 150
    assert {suspect.row for suspect in suspects[:2]} == {7}
    assert suspects[0].surprise > suspects[3].surprise + 1.0
    assert suspects[-1].surprise < 0.0


def test_a_number_beyond_all_that_was_seen_gets_no_credit_from_its_row():
    rng = np.random.default_rng(3)
    cause = rng.normal(size=800)
    predictor = fit_frames(
        {"t": pd.DataFrame({"cause": cause, "effect": cause + 0.1 * rng.normal(size=800)})}, epochs=10.0
    )
    highest = float(cause.max())
    cells = predictor.encode({"cause": [highest, 2.0], "effect": [10.0 * highest, 2.0]}, predictor.links("t"))
    beyond, usual = measure(predictor, cells)[:, 1]
    assert beyond > usual
    assert beyond >= 0.0


# A real car of the fitted table.
CAR = {
    "mpg": 18,
    "cylinders": 8,
    "displacement": 307,
    "horsepower": 130,
    "weight": 3504,
    "acceleration": 12,
    "year": 70,
}


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("mpg", 3000), ("cylinders", 77), ("horsepower", -50), ("weight", 100), ("acceleration", 1e5), ("year", -1),
        ("weight", 1e300), ("displacement", -1e308),
    ],
)  # fmt: skip
def test_an_impossible_number_is_what_stands_out_and_not_its_sound_neighbours(predictor, column, value):
    usual, _ = audit(predictor, {name: [cell] for name, cell in CAR.items()}, table="auto")
    suspects, warnings = audit(predictor, {name: [cell] for name, cell in {**CAR, column: value}.items()}, table="auto")
    assert suspects[0].column == column
    assert suspects[0].surprise > 3.0  # what `service audit` lists
    assert max(s.surprise for s in suspects[1:]) < max(2.5, usual[0].surprise + 1.0)
    assert "outside the fitted range" in warnings[0]


def test_the_further_beyond_all_that_was_seen_the_more_surprising(predictor):
    far = [3504, 5400, 6000, 8000, 20_000, 1e6]
    columns = {name: [cell] * len(far) for name, cell in CAR.items()}
    cells = predictor.encode({**columns, "weight": far}, predictor.links("auto"))
    surprise = measure(predictor, cells)[:, cells.names.index("weight")]
    assert (np.diff(surprise) > 0.0).all()
    alone = [measure(predictor, cells.rows(slice(i, i + 1)))[0] for i in range(len(far))]
    assert np.stack(alone) == pytest.approx(measure(predictor, cells), abs=1e-4)


def test_the_cell_that_was_swapped_is_the_most_surprising(predictor):
    columns = {"weight": [3504, 2100, 2300], "cylinders": [8, 4, 8], "displacement": [307, 97, 98], "mpg": [18, 30, 29]}
    suspects, warnings = audit(predictor, columns, limit=3)
    assert (suspects[0].row, suspects[0].column, suspects[0].value) == (2, "cylinders", 8)
    assert suspects[0].expected.values == [4.0]
    assert warnings == ()


def test_missing_and_unseen_cells_are_no_suspects(predictor):
    suspects, warnings = audit(predictor, {"weight": [3504, None], "origin": ["Mars", None]})
    assert [(s.row, s.column) for s in suspects] == [(0, "weight")]
    assert "never seen" in warnings[0]


def test_no_rows_no_suspects_and_a_bad_interval_is_refused(predictor):
    assert audit(predictor, {"weight": []}) == ([], ())
    with pytest.raises(AskError, match="interval"):
        audit(predictor, ROW, interval=1.5)
