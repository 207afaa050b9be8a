"""A loaded bundle answers: any subset, any target, with reasons that add up."""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from model import codec
from model.cells import read_cells
from model.errors import AskError, CellError
from model.requests import nearest
from model.runtime import Predictor
from model.schema import Feature, Link

ROW = {"cylinders": [8], "weight": [3504], "horsepower": [130], "year": [70]}


def test_predicts_any_column_from_any_subset(predictor):
    for target in predictor.schema.index:
        answer = predictor.predict(ROW, target, interval=0.9)
        assert len(answer.values) == 1
        assert answer.mass.sum() == pytest.approx(1.0)
        if answer.kind == "numeric":
            low, high = answer.interval[0]
            assert low <= answer.median[0] <= high
            assert math.isfinite(answer.values[0])
        if answer.kind in ("categorical", "boolean", "ordinal"):
            assert 0 < answer.probability[0] <= 1


def test_a_heavier_car_goes_less_far(predictor):
    light, heavy = predictor.predict({"weight": [2000, 4500]}, "mpg").values
    assert light > heavy + 5


def test_base_and_contributions_add_up_to_the_score(predictor):
    for target in ("mpg", "origin", "cylinders", "release_date"):
        row = {name: cells for name, cells in ROW.items() if name != target}
        experts = predictor.predict(row, target, explain=True).experts
        total = experts.base + experts.contributions.sum(axis=1)
        assert np.abs(total - experts.score).max() < 1e-4 * max(1.0, np.abs(experts.score).max())
        assert experts.columns == tuple(row)
        assert (experts.weights >= 0).all()
    answer = predictor.predict(ROW, "mpg", explain=True)
    assert answer.experts.score[0] == pytest.approx(answer.values[0], abs=1e-3)


def test_a_tables_own_names_and_units_are_understood(predictor):
    by_feature = predictor.predict({"weight": [2620.0], "cylinders": [6]}, "mpg").values
    by_column = predictor.predict({"wt": [2.62], "cyl": [6]}, "mpg", table="mtcars").values
    assert by_column == pytest.approx(by_feature, abs=1e-4)
    pounds = predictor.predict({"cylinders": [6]}, "weight", explain=True)
    thousands = predictor.predict({"cyl": [6]}, "wt", table="mtcars", explain=True)
    assert thousands.values[0] * 1000 == pytest.approx(pounds.values[0], rel=1e-5)
    assert thousands.experts.score[0] == pytest.approx(thousands.values[0], rel=1e-4)


def test_absent_null_and_nan_are_the_same_and_its_own_cell_is_not_looked_at(predictor):
    without = predictor.predict({"weight": [3000]}, "mpg").values
    for nothing in (None, math.nan):
        assert predictor.predict({"weight": [3000], "year": [nothing]}, "mpg").values == pytest.approx(without)
    assert predictor.predict({"weight": [3000], "mpg": [99.0]}, "mpg").values == pytest.approx(without)


def test_nothing_observed_gives_the_columns_own_distribution(predictor):
    for feature in predictor.schema.features:
        for row in ({"weight": [None]}, {feature.name: [None]}):
            answer = predictor.predict(row, feature.name)
            if feature.is_number:
                _, _, mass = codec.read_pieces(feature.knots, np.asarray([feature.shares]))
                assert np.abs(answer.mass - mass).max() < 1e-5
            else:
                assert np.abs(answer.mass[0] - feature.shares).max() < 1e-5
            if feature.kind == "numeric":
                assert answer.values[0] == pytest.approx(feature.knots.mean, rel=1e-5)


def test_rows_columns_and_batches_in_any_order_give_the_same_answers(predictor, cars):
    frame = pd.read_csv(cars / "auto.csv").drop(columns=["name", "rownames"]).head(50)
    columns = {c: frame[c].tolist() for c in frame}
    whole = np.array(predictor.predict(columns, "mpg").values)
    turned = {c: columns[c] for c in reversed(list(columns))}
    assert np.abs(np.array(predictor.predict(turned, "mpg").values) - whole).max() < 1e-4
    shuffled = {c: cells[::-1] for c, cells in columns.items()}
    assert np.abs(np.array(predictor.predict(shuffled, "mpg").values)[::-1] - whole).max() < 1e-4
    single = [predictor.predict({c: [cells[i]] for c, cells in columns.items()}, "mpg").values[0] for i in range(50)]
    assert np.abs(np.array(single) - whole).max() < 1e-4


def test_pieces_of_a_large_request_fit_together(predictor, monkeypatch):
    cells = {"weight": np.linspace(1700, 5000, 300), "year": np.full(300, 75.0)}
    whole = predictor.predict(cells, "mpg", explain=True)
    monkeypatch.setattr("model.runtime.MOST_GATES", 5000)
    pieces = predictor.predict(cells, "mpg", explain=True)
    assert pieces.values == pytest.approx(whole.values, abs=1e-4)
    assert pieces.experts.contributions == pytest.approx(whole.experts.contributions, abs=1e-4)


def test_impute_answers_the_holes_and_only_them(predictor):
    columns = {"weight": [3504, None, 2000], "horsepower": [None, 130, None], "cylinders": [8, 8, 4]}
    filled = predictor.impute(columns, interval=0.9)  # other holes in each row
    assert {name: rows.tolist() for name, rows in filled.rows.items()} == {"weight": [1], "horsepower": [0, 2]}
    one = predictor.predict({"weight": [3504], "cylinders": [8]}, "horsepower", interval=0.9)
    assert filled.filled["horsepower"].values[0] == pytest.approx(one.values[0], abs=1e-3)
    assert filled.filled["horsepower"].interval[0] == pytest.approx(one.interval[0], abs=1e-3)


def test_filled_cells_come_with_their_reason(predictor):
    for columns in ({"weight": [3504, None], "year": [70, 80], "mpg": [None, 20]}, {"weight": [3504], "mpg": [None]}):
        for answer in predictor.impute(columns, explain=True).filled.values():
            experts = answer.experts
            assert experts.base + experts.contributions.sum(axis=1) == pytest.approx(experts.score, rel=1e-4)
            assert experts.score == pytest.approx(answer.values, rel=1e-3)


def test_a_column_the_table_never_had_is_predicted_in_its_names_and_units(predictor):
    by_table = predictor.predict({"wt": [2.62]}, "acceleration", table="mtcars").values
    assert by_table == pytest.approx(predictor.predict({"weight": [2620]}, "acceleration").values, abs=1e-4)
    filled = predictor.impute({"wt": [2.62]}, table="mtcars", which=["acceleration"])
    assert filled.filled["acceleration"].values == pytest.approx(by_table, abs=1e-4)


def test_a_fitted_tables_own_rows_can_be_sent_whole(predictor, cars):
    frame = pd.read_csv(cars / "mtcars.csv").head(3)
    answer = predictor.predict({c: frame[c].tolist() for c in frame}, "mpg", table="mtcars")
    assert "'rownames' ignored: left out when the table was fitted (ignored)" in answer.warnings[0]


def test_words_that_mean_missing_mean_it_among_words_but_not_among_numbers(predictor):
    assert predictor.predict({"class": ["NA", ""]}, "mpg").warnings == ()
    with pytest.raises(CellError, match="row 0, column 'weight': expected a number, got 'NA', which is text"):
        predictor.predict({"weight": ["NA", 3000]}, "mpg")


def test_impute_fills_a_tables_absent_columns_or_those_asked_for(predictor):
    every = predictor.impute({"wt": [2.62]}, table="mtcars")
    assert set(every.rows) == {link.column for link in predictor.schema.by_table["mtcars"].links} - {"wt"}
    some = predictor.impute({"wt": [2.62]}, table="mtcars", which=["hp"])
    assert list(some.rows) == ["hp"]
    assert predictor.impute({"weight": [2000]}).rows == {}


def test_a_name_that_is_another_but_for_case_is_the_nearest():
    known = dict.fromkeys(["W.Hnd", "NW.Hnd", "Age"])
    assert nearest("nw.hnd", known) == "; did you mean 'NW.Hnd'?"
    assert nearest("NW.Hndd", known) == "; did you mean 'NW.Hnd'?"
    assert nearest("AGE", known) == "; did you mean 'Age'?"
    assert nearest("zzz", known) == "; known are 'W.Hnd', 'NW.Hnd', 'Age'"


def test_words_and_infinite_numbers_in_one_column_are_refused_together(predictor):
    with pytest.raises(CellError) as caught:
        predictor.predict({"weight": [3504, math.inf, "heavy", True]}, "mpg")
    assert [problem.row for problem in caught.value.problems] == [1, 2, 3]
    assert "row 1, column 'weight': not a finite number" in str(caught.value)


def test_an_unknown_column_is_refused_with_the_nearest_name_or_ignored(predictor):
    with pytest.raises(CellError, match="column 'wieght': there is no such column; did you mean 'weight'"):
        predictor.predict({"wieght": [1]}, "mpg")
    answer = predictor.predict({"wieght": [1], "year": [75]}, "mpg", unknown="ignore")
    assert "'wieght' ignored" in answer.warnings[0]
    with pytest.raises(CellError, match="did you mean 'mpg'"):
        predictor.predict(ROW, "mgp")
    with pytest.raises(AskError, match="there is no table 'mtcar'; did you mean 'mtcars'"):
        predictor.predict(ROW, "mpg", table="mtcar")


@pytest.mark.parametrize(
    ("column", "cell", "message"),
    [
        ("weight", "3504", "expected a number, got '3504'"),
        ("weight", True, "expected a number, got True"),
        ("weight", math.inf, "not a finite number"),
        ("weight", 10**400, "not a finite number"),
        ("weight", [1], "expected a number, got"),
        ("release_date", "yesterday", "expected an ISO 8601 date"),
        ("release_date", 5, "expected an ISO 8601 date"),
        ("class", {"a": 1}, "expected a string"),
    ],
)
def test_a_cell_of_the_wrong_type_is_named_by_row_and_column(predictor, column, cell, message):
    with pytest.raises(CellError) as caught:
        predictor.predict({column: [None, cell], "year": [70, 70]}, "mpg")
    assert f"row 1, column '{column}': {message}" in str(caught.value)
    assert caught.value.problems[0].row == 1


def test_all_faults_are_told_at_once_but_not_endlessly(predictor):
    with pytest.raises(CellError, match="and 31 more") as caught:
        predictor.predict({"weight": ["x"] * 40, "year": [70] * 40, "nope": [1] * 40}, "mpg")
    assert len(caught.value.problems) == 41


def test_an_unseen_category_is_missing_and_a_far_number_clamped_with_warnings(predictor):
    known = predictor.predict({"year": [75]}, "mpg").values
    answer = predictor.predict({"year": [75], "class": ["Spaceships"]}, "mpg")
    assert answer.values == pytest.approx(known)
    assert "categories never seen" in answer.warnings[0]
    far = predictor.predict({"weight": [1e9, 3000]}, "mpg")
    heaviest = predictor.schema.features[predictor.schema.index["weight"]].knots.values[-1]
    assert far.values[0] == pytest.approx(predictor.predict({"weight": [heaviest]}, "mpg").values[0], abs=1e-4)
    assert "clamped, in row 0" in far.warnings[0]


def test_dates_are_taken_and_given_back_as_dates(predictor):
    answer = predictor.predict({"class": ["Two Seaters"]}, "release_date", interval=0.5)
    assert answer.kind == "datetime"
    assert answer.values[0][:2] == "20"
    assert answer.interval[0][0] <= answer.interval[0][1]
    for date in ("2020-08-10", "2020-08-10T00:00:00Z", np.datetime64("2020-08-10")):
        assert predictor.predict({"release_date": [date]}, "mpg").warnings == ()


def test_encodings_are_there_for_every_feature(predictor):
    encodings = predictor.bundle.encodings
    assert encodings.shape[0] == len(predictor.schema.features)
    assert np.isfinite(encodings).all()


def test_the_command_line_answers_a_question(small_bundle: Path, capsys):
    from model.__main__ import main

    assert main([str(small_bundle), "mpg", "wt=2.62", "cyl=6", "--table", "mtcars"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("mpg = ")
    assert "in all" in shown
    assert main([str(small_bundle), "nope"]) == 2


def test_a_thread_count_can_be_chosen(small_bundle: Path):
    assert Predictor.load(small_bundle, threads=2).predict(ROW, "mpg").values


def test_impute_asks_rows_with_the_same_holes_in_one_pass_and_gives_the_same(predictor):
    alike = predictor.impute(
        {"weight": [3000, 2000], "year": [70, 80], "mpg": [None, None], "horsepower": [None, None]}
    )
    for name in ("mpg", "horsepower"):
        alone = predictor.predict({"weight": [3000, 2000], "year": [70, 80]}, name)
        assert alike.filled[name].values == pytest.approx(alone.values, abs=1e-3)


def test_impute_asks_for_holes_alone(predictor, monkeypatch):
    asked = []
    ask = Predictor.ask
    monkeypatch.setattr(
        Predictor, "ask", lambda *a, **k: asked.append((len(a[1].positions), len(a[2]))) or ask(*a, **k)
    )
    n = 60
    columns = {name: [1.0] * n for name in ("mpg", "weight", "horsepower", "acceleration")}
    for row in range(n):
        columns[list(columns)[row % 4]][row] = None
    predictor.impute(columns)
    assert sum(rows * questions for rows, questions in asked) == n


def test_a_category_never_seen_was_observed_and_is_not_imputed(predictor):
    filled = predictor.impute({"class": ["Spaceships", None], "mpg": [20, 20]})
    assert filled.rows["class"].tolist() == [1]


def test_no_rows_and_no_columns_are_answered(predictor):
    assert predictor.predict({"weight": []}, "mpg", interval=0.9, explain=True).values == []
    assert predictor.predict({}, "mpg").values == []
    assert predictor.impute({"weight": []}).rows == {}
    nothing = predictor.predict({"mpg": [None, None]}, "mpg", explain=True).experts
    assert nothing.contributions.shape == (2, 0)


@pytest.mark.parametrize(
    "columns", [{"weight": [1, 2], "year": [70]}, {"weight": "heavy"}, {"weight": 3}, {"weight": np.zeros((2, 2))}]
)
def test_columns_that_are_no_columns_are_refused(predictor, columns):
    with pytest.raises((AskError, CellError), match=r"one (cell )?per row"):
        predictor.predict(columns, "mpg")


@pytest.mark.parametrize("interval", [0, 1, -1, 1.5, math.nan, "0.9"])
def test_an_interval_that_is_none_is_refused(predictor, interval):
    with pytest.raises(AskError, match="between 0 and 1"):
        predictor.predict({"weight": [3000]}, "mpg", interval=interval)


@pytest.mark.parametrize("cell", [math.inf, -math.inf])
def test_infinity_is_no_category(predictor, cell):
    with pytest.raises(CellError, match="not a finite number"):
        predictor.predict({"class": [cell]}, "mpg")


def test_huge_whole_numbers_are_merely_unseen_categories(predictor):
    assert "never seen" in predictor.predict({"class": [10**400]}, "mpg").warnings[0]


def test_a_unit_that_turns_the_axis_around_keeps_order(predictor):
    from model.schema import Link

    links = {"less": Link("less", "mpg", scale=-1.0), "weight": Link("weight", "weight")}
    turned = predictor.predict({"weight": [3000]}, "less", links=links, interval=0.9, explain=True)
    plain = predictor.predict({"weight": [3000]}, "mpg", interval=0.9)
    assert turned.values[0] == pytest.approx(-plain.values[0])
    assert turned.interval[0] == pytest.approx([-end for end in reversed(plain.interval[0])])
    assert turned.lows == sorted(turned.lows)
    assert all(low <= high for low, high in zip(turned.lows, turned.highs, strict=True))
    assert turned.experts.score[0] == pytest.approx(turned.values[0], rel=1e-4)


def test_the_value_lies_in_its_interval(predictor, cars):
    frame = pd.read_csv(cars / "auto.csv")[["weight", "year", "horsepower"]]
    answer = predictor.predict({c: frame[c].tolist() for c in frame}, "mpg", interval=0.5)
    assert all(low <= value <= high for value, (low, high) in zip(answer.values, answer.interval, strict=True))


def test_dates_are_read_alike_as_text_and_as_an_array():
    feature = Feature("when", "datetime", codec.fit_bins(np.asarray([0.0, 1e9, 1.5e9])))
    text = ["1990-05-01T12:30:00", None, "2010-01-01"]
    array = np.asarray([np.datetime64(cell) if cell else np.datetime64("NaT") for cell in text], "datetime64[ns]")
    slow, fast = (read_cells(feature, cells, Link("when", "when")) for cells in (text, array))
    assert np.array_equal(slow.positions, fast.positions, equal_nan=True)
    assert slow.given.tolist() == fast.given.tolist() == [True, False, True]
