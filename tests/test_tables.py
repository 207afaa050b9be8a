"""From files to features: kinds, joins, units, codes for missing, and what is left out."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from model.errors import FamilyError, TableError
from model.schema import OTHER
from training.family import family_of_paths, read_family
from training.tables import Dataset, load_family


def load(*paths: Path, **options) -> Dataset:
    return load_family(family_of_paths(list(paths)), **options)


def kinds_of(dataset: Dataset) -> dict[str, str]:
    return {feature.name: feature.kind for feature in dataset.schema.features}


@pytest.fixture
def mixed() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 60
    return pd.DataFrame(
        {
            "row_id": range(n),
            "price": rng.normal(100, 20, n).round(2),
            "doors": rng.choice([2, 4, 5], n),
            "colour": rng.choice(["red", "blue", "straße"], n),
            "sold": rng.random(n) < 0.5,
            "day": pd.date_range("2020-01-01", periods=n, freq="D").strftime("%Y-%m-%d"),
            "seen": pd.date_range("2020-01-01 08:30", periods=n, freq="7h").strftime("%Y-%m-%dT%H:%M:%S"),
            "same": "x",
            "note": [f"free text about thing number {i} here" for i in range(n)],
            "empty": [None] * n,
        }
    )


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_kinds_are_inferred_and_useless_columns_left_out_and_said_so(mixed, tmp_path, suffix):
    path = tmp_path / f"t.{suffix}"
    mixed.to_csv(path, index=False) if suffix == "csv" else mixed.to_parquet(path)
    said: list[str] = []
    dataset = load(path, say=said.append)
    assert kinds_of(dataset) == {
        "price": "numeric", "doors": "ordinal", "colour": "categorical", "sold": "boolean",
        "day": "datetime", "seen": "datetime",
    }  # fmt: skip
    text = "\n".join(said)
    for name, reason in {"row_id": "identifier", "same": "constant", "note": "identifier or free text"}.items():
        assert f"'{name}' left out ({reason}" in text
    assert "'empty' left out (only missing values)" in text
    day, seen = (dataset.schema.features[dataset.schema.index[n]] for n in ("day", "seen"))
    assert day.date_only
    assert not seen.date_only


def test_csv_and_parquet_of_the_same_table_give_the_same_positions(mixed, tmp_path):
    mixed.to_csv(tmp_path / "t.csv", index=False)
    mixed.to_parquet(tmp_path / "t.parquet")
    one, two = load(tmp_path / "t.csv"), load(tmp_path / "t.parquet")
    assert one.schema.features == two.schema.features
    np.testing.assert_array_equal(one.tables[0].positions, two.tables[0].positions)


def test_delimiters_byte_order_marks_quotes_and_white_space_are_understood(write_csv):
    rows = "\n".join(f' {i % 7} ;"a;\nb";{i}.5' for i in range(30))
    dataset = load(write_csv("t.csv", f"﻿x;y z;w\n{rows}\n"))
    assert kinds_of(dataset) == {"x": "ordinal", "w": "numeric"}
    assert dataset.schema.by_table["t"].left_out == {"y z": "constant in the training rows"}


def test_frequent_categories_are_kept_and_the_rest_is_other(write_csv):
    common = [f"c{i % 20}" for i in range(2000)]
    rare = [f"r{i}" for i in range(300)]
    lines = "\n".join(f"{word},{i % 13}" for i, word in enumerate(common + rare))
    feature = load(write_csv("t.csv", f"word,n\n{lines}\n")).schema.features[0]
    assert feature.kind == "categorical"
    assert {f"c{i}" for i in range(20)} <= set(feature.categories)
    assert feature.words[-1] == OTHER
    assert len(feature.words) <= 64


def test_ten_thousand_categories_without_a_frequent_one_are_left_out_with_a_reason(write_csv):
    lines = "\n".join(f"word{i // 2},{i % 13},{i % 5}" for i in range(20_000))
    dataset = load(write_csv("t.csv", f"word,n,m\n{lines}\n"))
    assert "word" not in dataset.schema.index
    assert "10,000 different values" in dataset.schema.by_table["t"].left_out["word"]


def write_family(folder: Path, text: str) -> Path:
    path = folder / "family.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_family_joins_renames_units_kinds_and_codes_for_missing(tmp_path):
    rng = np.random.default_rng(0)
    weight = rng.normal(3000, 500, 40)
    pd.DataFrame({"weight": weight, "k": rng.integers(0, 3, 40), "junk": 1.5}).to_csv(tmp_path / "a.csv", index=False)
    other = pd.DataFrame(
        {"wt": weight / 1000, "kind": ["?"] * 5 + ["1"] * 15 + ["2"] * 20, "chol": [0] * 10 + [200] * 30}
    )
    other.to_csv(tmp_path / "b.csv", index=False)
    family = read_family(
        write_family(
            tmp_path,
            """
            name = "two"
            target = "weight"
            [tables.a]
            path = "a.csv"
            ignore = ["junk"]
            [tables.b]
            path = "b.csv"
            rename = { wt = "weight", kind = "k" }
            units = { weight = { scale = 1000.0 } }
            missing = { kind = ["?"], chol = ["0"] }
            [kinds]
            k = "categorical"
            chol = "numeric"
            """,
        )
    )
    dataset = load_family(family)
    assert kinds_of(dataset) == {"weight": "numeric", "k": "categorical"}
    assert dataset.schema.features[1].categories in {("2", "1", "0"), ("1", "2", "0"), ("2", "0", "1")}
    one, two = dataset.tables
    np.testing.assert_allclose(one.positions[:, 0], two.positions[:, 0], atol=1e-4)
    assert np.isnan(two.positions[:5, 1]).all()
    assert dataset.schema.by_table["b"].left_out["chol"].startswith("constant")
    link = dataset.schema.by_table["b"].links[0]
    assert (link.column, link.feature, link.scale) == ("wt", "weight", 1000.0)


def test_a_feature_constant_in_each_table_but_not_over_all_is_kept(tmp_path):
    for name, year in (("a", 2012), ("b", 2021)):
        pd.DataFrame({"year": [year] * 30, "x": range(30)}).assign(x=lambda d: d.x % 11).to_csv(
            tmp_path / f"{name}.csv", index=False
        )
    assert "year" in load(tmp_path / "a.csv", tmp_path / "b.csv").schema.index


def test_a_number_here_and_text_there_is_an_error_that_names_both_and_the_way_out(tmp_path):
    pd.DataFrame({"origin": [1, 2, 3] * 10, "x": range(30)}).to_csv(tmp_path / "a.csv", index=False)
    pd.DataFrame({"origin": ["USA", "Japan"] * 15, "x": range(30)}).to_csv(tmp_path / "b.csv", index=False)
    with pytest.raises(FamilyError) as caught:
        load(tmp_path / "a.csv", tmp_path / "b.csv")
    text = str(caught.value)
    for part in ("'origin'", "'a'", "'b'", "USA", 'rename = { origin = "origin_b" }', "[tables.b]"):
        assert part in text


def test_quantiles_and_vocabularies_come_from_training_rows_only(tmp_path):
    frame = pd.DataFrame({"x": np.arange(100.0), "c": ["a", "b"] * 50, "y": np.arange(100) % 7})
    frame.to_csv(tmp_path / "t.csv", index=False)
    held = load(tmp_path / "t.csv").tables[0].held_out
    frame.loc[held, "x"] = 1e9
    frame.loc[held, "c"] = "only held out"
    frame.to_csv(tmp_path / "t.csv", index=False)
    dataset = load(tmp_path / "t.csv")
    np.testing.assert_array_equal(dataset.tables[0].held_out, held)
    x, c = dataset.schema.features[:2]
    assert x.knots.values[-1] < 100
    assert set(c.categories) == {"a", "b"}


def test_max_rows_takes_a_sample_in_order_the_same_for_the_same_seed(tmp_path):
    pd.DataFrame({"x": np.arange(5000.0) ** 2, "y": np.arange(5000) % 7}).to_csv(tmp_path / "t.csv", index=False)
    one, two = (load(tmp_path / "t.csv", max_rows=500).tables[0].positions for _ in range(2))
    assert one.shape == (500, 2)
    np.testing.assert_array_equal(one, two)
    assert (np.diff(one[:, 0]) >= 0).all()


def test_pairs_never_seen_together_are_known(tmp_path):
    pd.DataFrame({"a": range(20), "s": range(20)}).assign(a=lambda d: d.a % 9).to_csv(tmp_path / "l.csv", index=False)
    pd.DataFrame({"b": range(20), "s": range(20)}).assign(b=lambda d: d.b % 9).to_csv(tmp_path / "r.csv", index=False)
    family = write_family(tmp_path, '[tables.l]\npath = "l.csv"\n[tables.r]\npath = "r.csv"\n[kinds]\ns = "numeric"\n')
    dataset = load_family(read_family(family))
    index, company = dataset.schema.index, dataset.company()
    assert company[index["a"], index["b"]] == 0.0
    assert company[index["a"], index["s"]] == 1.0
    assert company[index["s"], index["a"]] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no tables"),
        ("[tables.a]\n", "no path"),
        ('[tables.a]\npath = "a.csv"\nrenam = {}\n', "did you mean 'rename'"),
        ('[tables.a]\npath = "a.csv"\n[kinds]\nx = "number"\n', "the kinds are numeric"),
        ('[tables.a]\npath = "a.csv"\nunits = { x = { scale = 0 } }\n', "other than 0"),
        ("name = \n", "not a TOML file"),
        ('[tables.a]\npath = "a.csv"\nignore = ["nope"]\n', "does not have: 'nope'"),
        ('[tables.a]\npath = "a.csv"\n[kinds]\nnope = "numeric"\n', "no table has: 'nope'"),
        ('[tables.a]\npath = "a.csv"\n[kinds]\nc = "numeric"\n', "holds text"),
        ('[tables.a]\npath = "a.csv"\n[kinds]\nc = "boolean"\n', "expected true or false"),
        ('[tables.a]\npath = "a.csv"\nrename = { x = "y" }\n', "are both the feature 'y'"),
    ],
)
def test_mistakes_in_family_toml_are_named(tmp_path, text, message):
    frame = pd.DataFrame({"x": np.arange(20) % 12, "y": np.arange(20) % 11, "c": ["u", "v"] * 10})
    frame.to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises((FamilyError, TableError), match=message):
        load_family(read_family(write_family(tmp_path, text)))


def test_a_number_column_with_a_stray_code_is_not_silently_lost(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"chol": rng.integers(100, 400, 60).astype(str), "x": rng.normal(size=60)})
    frame.loc[7, "chol"] = "?"
    frame.to_csv(tmp_path / "b.csv", index=False)
    with pytest.raises(TableError, match=r"column 'chol': nearly all cells are numbers, but not '\?'") as caught:
        load(tmp_path / "b.csv")
    assert "missing = ['?']" in str(caught.value)
    family = write_family(tmp_path, '[tables.b]\npath = "b.csv"\nmissing = ["?"]\n')
    assert kinds_of(load_family(read_family(family))) == {"chol": "numeric", "x": "numeric"}


def test_missing_is_missing_with_space_around_it_and_in_parquet_text(tmp_path, write_csv):
    rows = "\n".join(f"{i % 7}, {'NA' if i % 5 == 0 else i * 1.5}" for i in range(40))
    assert kinds_of(load(write_csv("t.csv", f"a , b\n{rows}\n"))) == {"a": "ordinal", "b": "numeric"}
    squares = ["NA", *(str(i * i) for i in range(30))]
    pd.DataFrame({"a": squares, "b": np.arange(31) % 12}).to_parquet(tmp_path / "p.parquet")
    assert kinds_of(load(tmp_path / "p.parquet"))["a"] == "numeric"


def test_text_that_looks_like_numbers_stays_text_where_the_family_says_so(tmp_path):
    frame = pd.DataFrame({"zip": ["01234", "10115", "00501"] * 10, "origin": ["1.0", "2.0", ""] * 10, "x": range(30)})
    frame["x"] = frame["x"] % 13
    frame.to_csv(tmp_path / "a.csv", index=False)
    family = '[tables.a]\npath = "a.csv"\n[kinds]\nzip = "categorical"\norigin = "categorical"\n'
    features = load_family(read_family(write_family(tmp_path, family))).schema.features
    assert set(features[0].categories) == {"01234", "10115", "00501"}
    assert set(features[1].categories) == {"1", "2"}


def test_parquet_types_of_all_sorts_are_read(tmp_path):
    import datetime
    from decimal import Decimal

    import pyarrow as pa
    import pyarrow.parquet

    n = 40
    days = [datetime.datetime(2020, 1, 1) + datetime.timedelta(days=i, microseconds=i) for i in range(n - 1)]
    table = pa.table(
        {
            "big": pa.array([2**53 + 1 + i % 9 for i in range(n)]),
            "nanos": pa.array([*days, datetime.datetime(9999, 12, 31)], pa.timestamp("us")).cast(
                pa.timestamp("s"), safe=False
            ),
            "zoned": pa.array([*days, None], pa.timestamp("us", tz="Europe/Berlin")),
            "date": pa.array([d.date() for d in days] + [None], pa.date32()),
            "wait": pa.array([datetime.timedelta(seconds=i % 12) for i in range(n)], pa.duration("ns")),
            "cost": pa.array([Decimal(i) / 4 for i in range(n)], pa.decimal128(10, 2)),
            "word": pa.array(["a", "b"] * (n // 2)).dictionary_encode(),
            "large": pa.array(["u", None] * (n // 2), pa.large_string()),
            "flag": pa.array([True, None, False, True] * (n // 4)),
            "nothing": pa.nulls(n),
            "nested": pa.array([[1]] * n),
        }
    )
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    dataset = load(tmp_path / "t.parquet")
    kinds = kinds_of(dataset)
    assert kinds["zoned"] == kinds["date"] == kinds["nanos"] == "datetime"
    assert kinds["cost"] == kinds["wait"] == "numeric"
    assert kinds["word"] == "categorical"
    assert kinds["flag"] == "boolean"
    assert dataset.schema.features[dataset.schema.index["wait"]].knots.values[-1] == 11.0
    left_out = dataset.schema.by_table["t"].left_out
    assert "type list" in left_out["nested"]
    assert left_out["nothing"] == "only missing values"


def test_dates_with_and_without_a_zone_may_be_mixed(write_csv):
    cells = ["2020-01-01", "2020-01-02T10:00:00Z", "2020-01-03 10:00:00", "2020-01-04T10:00:00+02:00"] * 8
    dataset = load(write_csv("t.csv", "d,x\n" + "\n".join(f"{c},{i % 11}" for i, c in enumerate(cells))))
    assert kinds_of(dataset)["d"] == "datetime"
    first = dataset.schema.features[0].knots.values
    assert first[-1] - first[0] == 3 * 86_400 + 8 * 3600


def test_an_unclosed_quote_is_named_and_does_not_swallow_rows(write_csv):
    rows = [f"{i % 7},{i}.5" for i in range(60)]
    rows[30] = '1,"oops'
    with pytest.raises(TableError, match="row 31: a quoted cell begins there that never ends"):
        load(write_csv("t.csv", "a,b\n" + "\n".join(rows) + "\n"))


def test_a_yearly_series_is_no_identifier_but_a_customer_number_is(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"year": range(1950, 1990), "customer_id": rng.integers(0, 10**6, 40), "x": rng.normal(size=40)}
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert set(kinds_of(load(tmp_path / "t.csv"))) == {"year", "x"}


def test_infinity_can_be_declared_missing(tmp_path):
    frame = pd.DataFrame({"x": [np.inf, *(np.arange(30) * 1.5)], "y": np.arange(31) % 12})
    frame.to_parquet(tmp_path / "a.parquet")
    with pytest.raises(TableError, match="row 1, column 'x': inf"):
        load(tmp_path / "a.parquet")
    family = write_family(tmp_path, '[tables.a]\npath = "a.parquet"\nmissing = ["inf"]\n')
    assert np.isnan(load_family(read_family(family)).tables[0].positions[0, 0])


def test_a_target_that_is_left_out_is_an_error(tmp_path):
    pd.DataFrame({"k": ["same"] * 20, "x": np.arange(20) % 12, "y": np.arange(20) % 11}).to_csv(
        tmp_path / "a.csv", index=False
    )
    family = write_family(tmp_path, 'target = "k"\n[tables.a]\npath = "a.csv"\n')
    with pytest.raises(FamilyError, match="target 'k' is no feature: it is left out"):
        load_family(read_family(family))


def test_the_truth_of_held_out_rows_is_kept_as_it_is(tmp_path):
    frame = pd.DataFrame({"x": np.arange(100) * 1.5, "c": ["a", "b"] * 50})
    frame.to_csv(tmp_path / "t.csv", index=False)
    held = load(tmp_path / "t.csv").tables[0].held_out
    frame.loc[held, "x"] = 1e6
    frame.loc[held, "c"] = "new"
    frame.to_csv(tmp_path / "t.csv", index=False)
    truth = load(tmp_path / "t.csv").tables[0].truth
    assert (truth[:, 0] == 1e6).all()
    assert (truth[:, 1] == -1).all()


def test_a_column_that_is_empty_here_and_known_elsewhere_keeps_its_link(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"chol": rng.normal(200, 30, 40), "age": rng.normal(50, 10, 40), "sex": rng.integers(0, 2, 40)}
    )
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.assign(chol=0).to_csv(tmp_path / "b.csv", index=False)
    family = '[tables.a]\npath = "a.csv"\n[tables.b]\npath = "b.csv"\nmissing = { chol = ["0"] }\n'
    dataset = load_family(read_family(write_family(tmp_path, family)))
    link = {link.column: link for link in dataset.schema.by_table["b"].links}["chol"]
    assert link.missing == ("0",)
    assert dataset.tables[1].positions.shape == (40, 2)


def test_numbers_and_dates_in_another_notation_are_named_as_such(tmp_path):
    n = 40
    frame = pd.DataFrame(
        {
            "comma": [f"{i},25" for i in range(n)],
            "percent": [f"{i / 3:.2f}%" for i in range(n)],
            "day": [f"{i % 28 + 1:02d}/0{i % 9 + 1}/2020" for i in range(n)],
            "x": np.arange(n) % 12,
            "y": np.arange(n) % 11,
        }
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    left_out = load(tmp_path / "t.csv").schema.by_table["t"].left_out
    assert left_out["comma"] == "numbers must be written as 1234.5, not as '0,25'"
    assert left_out["percent"].startswith("numbers must be written")
    assert left_out["day"] == "dates must be written as 2020-01-31, not as '01/01/2020'"
