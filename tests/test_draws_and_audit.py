"""Drawn copies follow the model's distributions, and the audit measures against them."""

import numpy as np
import pytest

from model.audit import audit, measure
from model.draws import draw_copies
from model.errors import AskError

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
    """-ln p of cells drawn from the model is about exponential: its mean about 1, a hundredth beyond 4.6."""
    draws = draw_copies(predictor, {"weight": [2500] * 800, "horsepower": [None] * 800}, n_draws=1, seed=1)
    cells = predictor.encode(
        {"weight": [2500] * 800, "horsepower": draws.values["horsepower"][0]}, predictor.links(None)
    )
    surprise = measure(predictor, cells)[:, 1]
    assert 0.7 < surprise.mean() < 1.3
    assert np.mean(surprise > 4.6) < 0.03


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
