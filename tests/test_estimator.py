"""The scikit-learn estimators: scikit-learn's own checks, and what users of mixed tables expect."""

from datetime import date

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from model.runtime import Predictor
from training.estimator import TabglotClassifier, TabglotImputer, TabglotRegressor

QUICK = 4.0


@parametrize_with_checks(
    [TabglotImputer(epochs=QUICK), TabglotClassifier(epochs=QUICK), TabglotRegressor(epochs=QUICK)]
)
def test_scikit_learn_finds_what_it_expects(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def cars():
    """Two hundred cars of mixed types, with holes."""
    rng = np.random.default_rng(0)
    weight = rng.normal(3000, 600, 200).round()
    frame = pd.DataFrame(
        {
            "weight": weight,
            "power": 0.04 * weight + rng.normal(0, 8, 200),
            "fuel": pd.Categorical(np.where(weight > 3200, "diesel", "petrol")),
            "new": weight > 2800,
            "sold": pd.Timestamp("2020-01-01") + pd.to_timedelta((weight / 10).round(), unit="D"),
            "doors": pd.array(np.where(weight > 3000, 5, 3), dtype="Int64"),
            "wheels": 4,
        },
        index=range(100, 300),
    )
    for column in frame.columns[1:]:
        holes = rng.random(200) < 0.2
        frame[column] = frame[column].astype("object" if column in ("new", "wheels") else frame[column].dtype)
        frame.loc[holes, column] = None if column == "new" else pd.NA if column == "doors" else np.nan
    return frame


@pytest.fixture(scope="module")
def imputer(cars):
    return TabglotImputer(epochs=60.0).fit(cars)


def test_a_mixed_frame_comes_back_whole_with_its_known_cells_as_they_were(imputer, cars):
    filled = imputer.transform(cars)
    assert not filled.isna().any().any()
    assert list(filled.columns) == list(cars.columns)
    assert filled.index.equals(cars.index)
    for column in cars.columns:
        known = cars[column].notna()
        assert (filled[column][known] == cars[column][known]).all()
    assert filled.dtypes["fuel"] == cars.dtypes["fuel"]
    assert filled.dtypes["sold"] == cars.dtypes["sold"]
    assert set(filled["new"]) == {True, False}
    assert set(filled["wheels"]) == {4}  # constant: nothing to learn, but easily filled


def test_holes_are_filled_by_what_the_row_says(imputer, cars):
    filled = imputer.transform(cars)
    holes = cars["power"].isna()
    assert np.corrcoef(filled["power"][holes], cars["weight"][holes])[0, 1] > 0.9
    clear = cars["fuel"].isna() & ((cars["weight"] < 2700) | (cars["weight"] > 3700))
    expected = np.where(cars["weight"][clear] > 3200, "diesel", "petrol")
    assert np.mean(filled["fuel"][clear] == expected) > 0.85


def test_new_rows_may_hold_words_never_seen(imputer, cars):
    row = cars.iloc[:1].astype({"fuel": object}).assign(fuel="hydrogen", power=np.nan)
    filled = imputer.transform(row)
    assert filled["fuel"].tolist() == ["hydrogen"]
    assert filled["power"].notna().all()


def test_copies_agree_where_cells_are_known_and_differ_where_they_are_not(imputer, cars):
    first, second = imputer.sample(cars, n_draws=2)
    again, _ = imputer.sample(cars, n_draws=2)
    known = cars["power"].notna()
    assert (first["power"][known] == second["power"][known]).all()
    assert (first["power"][~known] != second["power"][~known]).mean() > 0.9
    pd.testing.assert_frame_equal(first, again)


def test_set_output_and_a_pipeline(cars):
    numbers = cars[["weight", "power"]]
    imputer = TabglotImputer(epochs=QUICK).set_output(transform="pandas")
    filled = imputer.fit_transform(numbers.to_numpy())
    assert isinstance(filled, pd.DataFrame)
    assert filled.shape == numbers.shape


def test_a_column_without_a_single_value_stays_empty(cars):
    frame = cars[["weight", "power"]].assign(empty=np.nan)
    assert TabglotImputer(epochs=QUICK).fit_transform(frame)["empty"].isna().all()


def test_classes_of_any_type_with_holes_in_the_columns(cars):
    rows = cars[["weight", "power", "sold"]]
    classes = np.where(cars["weight"] > 3200, 20, 10)
    model = TabglotClassifier(epochs=60.0).fit(rows, classes)
    assert set(model.classes_) == {10, 20}
    assert model.score(rows, classes) > 0.9
    assert model.predict_proba(rows).sum(axis=1) == pytest.approx(1.0)


def test_a_regressor_tells_its_interval(cars):
    rows, weight = cars[["power", "sold", "fuel"]], cars["weight"]
    model = TabglotRegressor(epochs=60.0).fit(rows, weight)
    low, high = model.predict_interval(rows, 0.9).T
    assert 0.8 < np.mean((low <= weight) & (weight <= high)) <= 1.0


def test_a_column_named_like_the_target_is_no_trouble(cars):
    rows = pd.DataFrame({"target": cars["weight"], "power": cars["power"]})
    model = TabglotRegressor(epochs=QUICK).fit(rows, cars["weight"])
    assert len(model.predict(rows)) == len(rows)


def test_a_fit_can_be_saved_and_served(imputer, cars, tmp_path):
    imputer.save(tmp_path / "bundle")
    served = Predictor.load(tmp_path / "bundle")
    told = served.predict({"weight": [3000.0]}, "power", table="table")
    assert told.values[0] == pytest.approx(120, rel=0.2)
    with pytest.raises(FileExistsError, match="force=True"):
        imputer.save(tmp_path / "bundle")
    imputer.save(tmp_path / "bundle", force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]


def test_what_cannot_be_fitted_says_why(cars):
    with pytest.raises(ValueError, match="at least two are needed"):
        TabglotImputer().fit(cars[["weight"]])
    with pytest.raises(ValueError, match="kinds speaks of columns that X does not have: \\['wieght'\\]"):
        TabglotImputer(kinds={"wieght": "numeric"}).fit(cars)
    with pytest.raises(ValueError, match="1 class"):
        TabglotClassifier().fit(cars[["weight"]], ["same"] * len(cars))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"kinds": {"weight": "number"}}, "kinds are numeric, ordinal, .*not {'weight': 'number'}"),
        ({"epochs": 0}, "epochs must be a number that is more than 0"), ({"epochs": "5"}, "not '5'"),
    ],
)  # fmt: skip
def test_wrong_settings_are_told_before_the_fit(cars, settings, said):
    with pytest.raises(ValueError, match=said):
        TabglotImputer(**settings).fit(cars)


def test_wrong_rows_and_targets_are_told_by_column(imputer, cars):
    with pytest.raises(ValueError, match=r"column 'power' of kind 'numeric'.*'strong'"):
        imputer.transform(cars.assign(power="strong"))
    with pytest.raises(ValueError, match="n_draws must be a whole number from 1, not 0"):
        imputer.sample(cars, n_draws=0)
    with pytest.raises(ValueError, match="y holds dates"):
        TabglotRegressor().fit(cars[["weight", "power"]], cars["sold"].fillna(pd.Timestamp("2020-01-01")))


@pytest.mark.parametrize(
    ("classes", "named"),
    [
        (["heavy", "light"], ["heavy", "light"]), ([7, -1], [7, -1]), ([True, False], ["True", "False"]),
        (["-0", "1"], ["-0", "1"]), (["NA", "a"], ["class 0", "class 1"]), ([" a", "a"], ["class 0", "class 1"]),
    ],
)  # fmt: skip
def test_a_served_classifier_answers_with_the_names_of_its_classes(cars, tmp_path, classes, named):
    rows, is_heavy = cars[["weight", "power"]], (cars["weight"] > 3000).to_numpy()
    model = TabglotClassifier(epochs=QUICK).fit(rows, np.asarray(classes)[np.where(is_heavy, 0, 1)])
    model.save(tmp_path / "bundle")
    told = Predictor.load(tmp_path / "bundle").predict({"weight": [4200.0, 1800.0]}, "target", table="table")
    assert told.values == named
    assert model.predict(pd.DataFrame({"weight": [4200.0, 1800.0], "power": [np.nan] * 2})).tolist() == classes


def test_columns_that_can_hold_answers_keep_their_types():
    days = pd.Series(pd.date_range("2020-01-01", periods=60))
    x = np.arange(60.0)
    frame = pd.DataFrame({
        "single": x.astype("float32"), "nullable": pd.array(x + 1, dtype="Float64"), "day": days.dt.date,
        "arrow_day": pd.array(days.dt.date, dtype=pd.ArrowDtype(pa.date32())),
        "arrow": pd.array(x * 2, dtype=pd.ArrowDtype(pa.float64())),
    })  # fmt: skip
    holes = frame.copy()
    for j, column in enumerate(holes):
        holes.loc[holes.index[j::7], column] = None
    filled = TabglotImputer(epochs=QUICK).fit_transform(holes)
    assert not filled.isna().any().any()
    assert filled.dtypes.tolist() == frame.dtypes.tolist()
    for column in frame:
        known = holes[column].notna()
        assert (filled[column][known] == frame[column][known]).all()
        assert type(filled[column].iloc[0]) is type(frame[column].iloc[0])


def test_known_cells_of_wider_types_than_those_of_the_fit_come_back_as_they_are():
    x = np.arange(60.0)
    frame = pd.DataFrame({"x": x, "single": (x % 7).astype("float32"), "day": pd.date_range("2020-01-01", periods=60)})
    frame["day"] = frame["day"].dt.date
    imputer = TabglotImputer(epochs=np.int64(4)).fit(frame)
    moment = pd.Timestamp("2020-02-01 13:45")
    wide = pd.DataFrame({"x": [0.0, 1.0], "single": [1e39, np.nan], "day": [moment, pd.NaT]})
    filled = imputer.transform(wide)
    assert (filled["single"][0], filled["day"][0]) == (1e39, moment)
    empty = imputer.transform(wide.assign(day=np.nan))
    assert [type(cell) for cell in empty["day"]] == [date, date]


def test_numbers_as_words_and_words_with_blanks_come_back_as_they_were():
    words = {
        "text": ["1", "2"] * 20,
        "codes": pd.Categorical([1, 2] * 20),
        "blanks": [" red", "blue "] * 20,
        "halves": [1.0, "x"] * 20,
    }
    frame = pd.DataFrame({"x": np.tile([0.0, 1.0], 20) + np.arange(40) / 100, **words})
    holes = frame.copy()
    holes.loc[[3, 8], list(words)] = None
    filled = TabglotImputer(epochs=QUICK).fit(holes).transform(holes)
    for column, known in words.items():
        assert set(filled[column]) <= set(known)


def test_new_rows_may_lack_columns_and_categories(imputer, cars):
    empty = cars.head(3).assign(fuel=np.nan, sold=np.nan, new=np.nan)
    filled = imputer.transform(empty)
    assert set(filled["fuel"]) <= {"diesel", "petrol"}
    assert pd.api.types.is_datetime64_any_dtype(filled["sold"])
    fewer = cars.head(3).assign(fuel=pd.Categorical(["petrol", None, None]))
    assert imputer.transform(fewer)["fuel"].notna().all()
    assert len(imputer.sample(empty, n_draws=2)) == 2


def test_numbers_in_columns_of_objects_are_numbers():
    frame = pd.DataFrame({"a": np.arange(20.0), "b": np.array([np.float64(i) for i in range(20)], dtype=object)})
    assert [form.kind for form in TabglotImputer(epochs=QUICK).fit(frame).forms_] == ["numeric", "numeric"]


def test_text_that_says_nothing_is_left_and_a_rare_value_is_not_taken_for_the_usual_one():
    frame = pd.DataFrame({"x": np.arange(60.0), "y": np.arange(60.0) % 7, "c": ["b"] + ["a"] * 59})
    frame.loc[10:20, "c"] = None
    assert set(TabglotImputer(epochs=QUICK).fit_transform(frame)["c"]) == {"a", "b"}


def test_rare_classes_are_not_lost():
    rows = pd.DataFrame({"x": np.arange(60.0), "target": np.arange(60.0) % 7, "target_": np.arange(60.0) % 5})
    classes = np.zeros(60, dtype=int)
    classes[0] = 1
    proba = TabglotClassifier(epochs=QUICK).fit(rows, classes).predict_proba(rows)
    assert proba.shape == (60, 2)
    assert (proba > 0).all()


def test_very_wide_tables_and_words_of_many_values_do_without_the_law():
    rng = np.random.default_rng(0)
    wide = pd.DataFrame(rng.normal(size=(40, 161))).add_prefix("x")
    assert TabglotImputer(epochs=0.5).fit(wide).predictor_.bundle.expert is None
    words = pd.DataFrame({c: rng.integers(0, 20, 60).astype(str) for c in "ab"}).add_prefix("w")
    assert TabglotImputer(epochs=QUICK).fit(words).predictor_.bundle.expert is None
