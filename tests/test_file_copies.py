"""Whole files with intervals beside the filled cells, and files of drawn copies for multiple imputation."""

import csv
import io

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest

from model.draws import draw_copies
from model.errors import TableError
from service.files.notes import MISFIT
from service.files.work import draw_file, impute_file
from tests.server import run_service
from tests.test_files import TINY, ask_of, make_cars, read_stream, write_stream

TEXT = 'name,weight,mpg,origin\r\n"a, ""b""",3504,,1\r\n\r\nc,2100,30,\r\n,,18,3\r\n'
WANTED = ("weight", "mpg", "origin")


def rows_of(content):
    return [row for row in csv.reader(io.StringIO(content.decode(), newline="")) if row]


def fill(predictor, path, out, *, table="auto", columns=WANTED, **more):
    read_as, write_as = path.suffix[1:], out.suffix[1:]
    return impute_file(
        path, read_as, out, write_as, ask_of(predictor, table, columns=columns, **more), sizes=TINY
    )  # fmt: skip


def draw(predictor, path, out, *, n_draws=3, seed=0, columns=WANTED, table="auto", sizes=TINY, **more):
    ask = ask_of(predictor, table, columns=columns, unknown="ignore")
    return draw_file(
        path, path.suffix[1:], out, out.suffix[1:], ask, n_draws=n_draws, seed=seed, sizes=sizes, **more
    )  # fmt: skip


# Intervals.


def test_intervals_stand_beside_filled_cells_and_nowhere_else(predictor, tmp_path):
    path, out = tmp_path / "in.csv", tmp_path / "out.csv"
    path.write_bytes(TEXT.encode())
    report = fill(predictor, path, out, interval=0.8, columns=("mpg", "origin", "year"))
    header, *rows = rows_of(out.read_bytes())
    assert header[4:] == ["year", "mpg_low", "mpg_high", "origin_probability", "year_low", "year_high"]
    cells = {"weight": [3504, 2100, None], "mpg": [None, 30, 18], "origin": ["1", None, "3"]}
    told = predictor.impute(cells, table="auto", which=("mpg", "origin", "year"), interval=0.8).filled
    assert [float(cell) for cell in rows[0][5:7]] == pytest.approx(told["mpg"].interval[0], rel=1e-5)
    assert float(rows[0][5]) <= float(rows[0][2]) <= float(rows[0][6])
    assert rows[0][7] == ""
    assert rows[1][5:7] == ["", ""]
    assert float(rows[1][7]) == pytest.approx(told["origin"].probability[0], rel=1e-5)
    assert rows[2][5:8] == ["", "", ""]
    years = [[float(cell) for cell in row[8:]] for row in rows]  # a column that the file lacks has answers in every row
    np.testing.assert_allclose(years, told["year"].interval, rtol=1e-5)
    assert report.filled == 5  # ends of intervals are no filled cells


def test_all_other_bytes_stay_when_intervals_are_added(predictor, tmp_path):
    path, out = tmp_path / "in.csv", tmp_path / "out.csv"
    path.write_bytes(TEXT.encode())
    fill(predictor, path, out, interval=0.9, columns=("origin",))
    lines = out.read_bytes().split(b"\r\n")
    assert lines[:3] == [b"name,weight,mpg,origin,origin_probability", b'"a, ""b""",3504,,1,', b""]
    assert lines[4:] == [b",,18,3,", b""]


def test_columns_without_a_hole_get_no_interval(predictor, tmp_path):
    path, out = tmp_path / "in.csv", tmp_path / "out.csv"
    path.write_text("weight,mpg\n" + "3000,20\n" * 20 + "2000,\n")  # the hole is in a later piece
    fill(predictor, path, out, interval=0.9, columns=("weight", "mpg"))
    assert rows_of(out.read_bytes())[0] == ["weight", "mpg", "mpg_low", "mpg_high"]
    path.write_text("weight,mpg\n3000,20\n")
    fill(predictor, path, out, interval=0.9, columns=("weight", "mpg"))
    assert out.read_text() == path.read_text()


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_intervals_have_the_natural_type_of_their_column(predictor, tmp_path, form):
    before = make_cars(30, holes=10)
    path, out = tmp_path / f"in.{form}", tmp_path / f"out.{form}"
    pa.parquet.write_table(before, path, row_group_size=12) if form == "parquet" else write_stream(before, path, 12)
    columns = ("release_date", "class", "city_mpg")
    fill(predictor, path, out, table="epa2021", columns=columns, interval=0.9, unknown="ignore")
    after = pa.parquet.read_table(out) if form == "parquet" else read_stream(out)
    added = after.select(after.schema.names[len(before.schema) :])
    assert {field.name: str(field.type) for field in added.schema} == {
        "release_date_low": "date32[day]", "release_date_high": "date32[day]", "class_probability": "double",
        "city_mpg_low": "double", "city_mpg_high": "double",
    }  # fmt: skip
    for name, column in (("release_date", "release_date_low"), ("class", "class_probability")):
        hole = before[name].is_null().to_pylist()
        assert [cell is None for cell in added[column].to_pylist()] == [not missing for missing in hole]


def test_dates_and_their_ends_are_written_as_text_from_csv(predictor, tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("release_date,city_mpg\n2020-05-05,20\n,21\n")
    for out in (tmp_path / "out.csv", tmp_path / "out.parquet"):
        fill(predictor, path, out, table="epa2021", columns=("release_date",), interval=0.9)
    _, observed, filled = rows_of((tmp_path / "out.csv").read_bytes())
    assert observed == ["2020-05-05", "20", "", ""]
    assert filled[2] <= filled[0] <= filled[3]
    assert pa.parquet.read_table(tmp_path / "out.parquet")["release_date_low"].to_pylist() == [None, filled[2]]


def test_an_interval_in_the_way_of_a_column_is_refused(predictor, tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("mpg,mpg_high\n,2\n")
    with pytest.raises(TableError, match="'mpg_high' already; rename or remove it"):
        fill(predictor, path, tmp_path / "out.csv", columns=("mpg",), interval=0.9, unknown="ignore")


# Draws.


def test_copies_stand_below_each_other_and_keep_what_was_observed(predictor, tmp_path):
    path, out = tmp_path / "in.csv", tmp_path / "out.csv"
    path.write_bytes(TEXT.encode())
    report = draw(predictor, path, out)
    header, *rows = rows_of(out.read_bytes())
    assert header == ["draw", "name", "weight", "mpg", "origin"]
    assert [row[0] for row in rows] == ["1"] * 3 + ["2"] * 3 + ["3"] * 3
    for row, before in zip(rows, rows_of(TEXT.encode())[1:] * 3, strict=True):
        assert all(now == was for now, was in zip(row[2:], before[1:], strict=True) if was)
        assert "" not in row[2:]
    assert len({row[3] for row in rows[::3]}) > 1
    assert (report.rows, report.filled) == (3, 3)
    assert out.read_bytes().count(b"\r\n") == 1 + 3 * 4  # the header, and in each copy three rows and a blank line
    assert b'1,"a, ""b""",3504,' in out.read_bytes()


@pytest.mark.parametrize(
    "text", ["mpg\n18\n\n20", "mpg\r\n18\r\n20\r\n", "\ufeffmpg\n18", "mpg\n", "mpg", "mpg\n\n18\n\n"]
)
def test_copies_of_a_whole_file_are_its_rows_again_however_it_ends(predictor, tmp_path, text):
    path, out = tmp_path / "in.csv", tmp_path / "out.csv"
    path.write_bytes(text.encode())
    draw(predictor, path, out, columns=(), n_draws=2)
    cells = [row[0] for row in rows_of(text.removeprefix("\ufeff").encode())][1:]
    assert rows_of(out.read_bytes().removeprefix(b"\xef\xbb\xbf")) == [
        ["draw", "mpg"], *(["1", cell] for cell in cells), *(["2", cell] for cell in cells)
    ]  # fmt: skip
    assert out.read_bytes().startswith(b"\xef\xbb\xbf") == text.startswith("\ufeff")


def test_each_piece_is_drawn_anew_and_the_same_seed_gives_the_same_file(predictor, tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("weight,mpg\n" + "3000,\n" * 40)
    outs = [tmp_path / f"{name}.csv" for name in "abcd"]
    for out, seed in zip(outs[:3], (5, 5, 6), strict=True):
        draw(predictor, path, out, columns=("mpg",), seed=seed, n_draws=2)
    draw(predictor, path, outs[3], columns=("mpg",), seed=5, n_draws=1)
    one, same, other, first = (out.read_text() for out in outs)
    assert one == same != other
    assert one.startswith(first)  # a copy does not depend on how many there are
    drawn = [float(row[2]) for row in rows_of(one.encode())[1:]]
    pieces = [tuple(drawn[at : at + 7]) for at in range(0, 35, 7)] + [tuple(drawn[40 + at : 47 + at]) for at in (0, 7)]
    assert len(set(pieces)) == len(pieces)


def test_copies_of_a_file_are_what_the_model_draws(predictor, tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("weight,mpg,origin\n3504,,\n2000,,1\n")
    draw(predictor, path, tmp_path / "out.csv", seed=3, n_draws=2)
    cells = {"weight": [3504, 2000], "mpg": [None, None], "origin": [None, "1"]}
    rows = rows_of((tmp_path / "out.csv").read_bytes())[1:]
    for copy in (1, 2):
        told = draw_copies(predictor, cells, n_draws=1, seed=(3, copy, 0), table="auto", which=WANTED)
        mine = [row for row in rows if row[0] == str(copy)]
        assert [float(row[2]) for row in mine] == pytest.approx(told.values["mpg"][0], rel=1e-5)
        assert mine[0][3] == str(told.values["origin"][0][0])


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_copies_of_typed_files_keep_every_type_and_observed_cell(predictor, tmp_path, form):
    before = make_cars(30, holes=7)
    path, out = tmp_path / f"in.{form}", tmp_path / f"out.{form}"
    pa.parquet.write_table(before, path, row_group_size=12) if form == "parquet" else write_stream(before, path, 12)
    columns = ("city_mpg", "class", "guzzler", "release_date")
    draw(predictor, path, out, table="epa2021", columns=columns, n_draws=3)
    after = pa.parquet.read_table(out) if form == "parquet" else read_stream(out)
    assert after["draw"].to_pylist() == [1] * 30 + [2] * 30 + [3] * 30
    assert after.drop_columns(["draw"]).schema.equals(before.schema, check_metadata=True)
    for name in before.schema.names:
        was, now = before[name].to_pylist() * 3, after[name].to_pylist()
        assert all(a == b for a, b in zip(was, now, strict=True) if a is not None), name
        assert (None in now) == (None in was and name not in columns), name


def test_copies_change_format_and_get_the_columns_that_the_file_lacks(predictor, tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("weight\n3504\n2000\n2100\n")
    draw(predictor, path, tmp_path / "out.parquet", columns=("mpg", "origin"), n_draws=2)
    after = pa.parquet.read_table(tmp_path / "out.parquet")
    assert after.schema.names == ["draw", "weight", "mpg", "origin"]
    assert after["weight"].to_pylist() == [3504, 2000, 2100] * 2
    assert after["mpg"].null_count == after["origin"].null_count == 0
    pa.parquet.write_table(after.drop_columns(["draw"]), tmp_path / "next.parquet")
    draw(predictor, tmp_path / "next.parquet", tmp_path / "out.csv", n_draws=2)
    assert len(rows_of((tmp_path / "out.csv").read_bytes())) == 13


def test_what_is_to_be_said_of_a_file_is_said_once_for_all_copies(predictor, tmp_path):
    power = pa.array([None, 90, None], pa.int8())
    table = pa.table({"weight": [4900, 2100, 99_999], "horsepower": power, "colour": ["r", "g", "b"]})
    pa.parquet.write_table(table, tmp_path / "in.parquet")
    told = []
    report = draw(
        predictor, tmp_path / "in.parquet", tmp_path / "out.parquet", columns=("horsepower",), n_draws=6,
        progress=lambda share, words: told.append((share, words)),
    )  # fmt: skip
    unknown, clamped, misfit = report.warnings
    assert "'colour' ignored" in unknown
    assert clamped.endswith("clamped, in 1 row: 2")
    assert MISFIT in misfit
    assert [share for share, _ in told] == sorted(share for share, _ in told)
    assert told[-1] == (1.0, "copy 6 of 6: 3 rows")


def test_a_file_that_numbers_its_rows_by_draw_already_is_refused(predictor, tmp_path):
    (tmp_path / "in.csv").write_text("draw,mpg\n1,\n")
    with pytest.raises(TableError, match="a column 'draw' already; rename or remove it: the number of each copy"):
        draw(predictor, tmp_path / "in.csv", tmp_path / "out.csv")


# The commands.


def test_impute_adds_intervals_on_request(tmp_path, small_bundle):
    (tmp_path / "in.csv").write_text("weight,mpg\n3504,\n2100,30\n")
    told = run_service(tmp_path, "impute", "in.csv", "out.csv", "--interval", "0.9", "--bundle", str(small_bundle))
    assert told.returncode == 0, told.stderr
    assert "2 rows, 1 cells filled (mpg 1) in out.csv" in told.stdout
    header, filled, observed = rows_of((tmp_path / "out.csv").read_bytes())
    assert header == ["weight", "mpg", "mpg_low", "mpg_high"]
    assert float(filled[2]) < float(filled[1]) < float(filled[3])
    assert observed == ["2100", "30", "", ""]


def test_impute_draws_copies_on_request(tmp_path, small_bundle):
    (tmp_path / "in.csv").write_text("weight,mpg\n3504,\n2100,30\n")
    given = ("--draws", "4", "--seed", "2", "--bundle", str(small_bundle))
    for out in ("out.csv", "again.csv", "out.parquet"):
        told = run_service(tmp_path, "impute", "in.csv", out, *given)
        assert told.returncode == 0, told.stderr
    assert "2 rows, 1 cells filled (mpg 1), each drawn 4 times, in out.parquet" in told.stdout
    assert "copy 4 of 4: 2 rows" in told.stderr
    assert (tmp_path / "out.csv").read_text() == (tmp_path / "again.csv").read_text()
    drawn = pa.parquet.read_table(tmp_path / "out.parquet")
    assert drawn["draw"].to_pylist() == [1, 1, 2, 2, 3, 3, 4, 4]
    rows = rows_of((tmp_path / "out.csv").read_bytes())[1:]
    assert drawn["mpg"].to_pylist() == pytest.approx([float(row[2]) for row in rows], rel=1e-5)


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (("--interval", "0.9", "--draws", "3"), "not allowed with argument"),
        (("--draws", "0"), "expected a whole number from 1"),
        (("--seed", "-1", "--draws", "2"), "expected a whole number from 0"),
        (("--seed", "1"), "give --draws M too"),
        (("--interval", "1"), "interval must be a number between 0 and 1"),
    ],
)
def test_draws_and_intervals_that_cannot_be_are_refused(tmp_path, small_bundle, args, reason):
    (tmp_path / "in.csv").write_text("weight,mpg\n3504,\n")
    told = run_service(tmp_path, "impute", "in.csv", "out.csv", *args, "--bundle", str(small_bundle))
    assert told.returncode == 2
    assert reason in told.stderr
    assert told.stderr.count("\n") == 1
    assert not (tmp_path / "out.csv").exists()
