"""Drawn copies follow the model's distributions, and the audit measures against them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from model.audit import audit, measure, weigh
from model.calibration import NOTHING_AGAINST
from model.draws import draw_copies
from model.errors import AskError
from model.runtime import Predictor
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
    """Of cells drawn as the model expects them about a hundredth lies beyond 4.6."""
    draws = draw_copies(predictor, {"weight": [2500] * 800, "horsepower": [None] * 800}, n_draws=1, seed=1)
    cells = predictor.encode(
        {"weight": [2500] * 800, "horsepower": draws.values["horsepower"][0]}, predictor.links(None)
    )
    surprise = measure(predictor, cells)[:, 1]
    assert surprise.min() >= 0.0
    assert 0.5 < surprise.mean() < 2.0
    assert np.mean(surprise > 4.6) < 0.03


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


def test_surprise_is_as_rare_in_new_rows_as_it_says(predictor_of_noise):
    predictor, fresh = predictor_of_noise
    for n_hidden in (0, 3):  # whole rows, and rows of two cells
        known = fresh.iloc[:, n_hidden:]
        cells = predictor.encode({name: known[name].tolist() for name in known}, predictor.links("t"))
        surprise = measure(predictor, cells)
        assert np.mean(surprise >= np.log(10)) == pytest.approx(0.1, abs=0.04)
        assert np.mean(surprise >= np.log(100)) == pytest.approx(0.01, abs=0.01)


@pytest.fixture(scope="module")
def predictor_of_noise():
    """Fitted on rows that hang together a little, and 2,000 new ones."""
    rng = np.random.default_rng(1)
    common = rng.normal(size=(3000, 1))
    numbers = pd.DataFrame(common + rng.normal(size=(3000, 4)), columns=list("abcd"))
    rows = numbers.assign(word=np.where(common[:, 0] + rng.normal(size=3000) > 0.5, "yes", "no"))
    return fit_frames({"t": rows[:1000]}, epochs=10.0), rows[1000:].reset_index(drop=True)


def test_what_was_seen_of_no_held_out_cells_is_told_as_it_is(predictor):
    """Bundles of before do not say how rare evidence is."""
    bundle = predictor.bundle
    assert bundle.calibration is not None
    before = Predictor(replace(bundle, calibration=replace(bundle.calibration, against=NOTHING_AGAINST)))
    cells = before.encode({"weight": [3504, 2100], "cylinders": [8, 8]}, before.links(None))
    evidence = weigh(before, cells)
    assert measure(before, cells) == pytest.approx(np.maximum(evidence, 0.0))
    assert np.argmax(evidence[:, 1]) == np.argmax(measure(predictor, cells)[:, 1]) == 1


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
