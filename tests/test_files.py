"""Whole files through the model: what was there stays to the letter, what was missing is filled."""

import csv
import io
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.errors import CellError, TableError
from model.schema import Feature, Link
from service.files.ask import FileAsk
from service.files.cells import read_column
from service.files.course import Sizes
from service.files.csv_source import CsvSource
from service.files.fills import learn_spelling, natural_type, put, show_numbers, to_array, to_texts
from service.files.notes import MISFIT
from service.files.tokens import scan, splice
from service.files.work import impute_file, predict_file, read_columns

TINY = Sizes(csv_bytes=64, rows=7)
N_MANY = 200_000


def ask_of(predictor, table="auto", **more):
    return FileAsk(predictor, predictor.links(table), table, **more)


def fill(predictor, path, out=None, *, read_as="csv", write_as=None, sizes=TINY, table="auto", **more):
    """Impute a file; returns the report and the path of what was written."""
    write_as = write_as or read_as
    out = out or path.with_name(f"filled.{write_as}")
    return impute_file(path, read_as, out, write_as, ask_of(predictor, table, **more), sizes=sizes), out


def fill_text(predictor, tmp_path, text, **more):
    """Impute CSV text; returns what was written, as bytes."""
    path = tmp_path / "in.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    report, out = fill(predictor, path, **more)
    return report, out.read_bytes()


def read_stream(path):
    with pa.ipc.open_stream(str(path)) as reader:
        return reader.read_all()


def write_stream(table, path, rows=None):
    with pa.ipc.new_stream(str(path), table.schema) as writer:
        for batch in table.to_batches(rows):
            writer.write_batch(batch)


# The tokenizer and the splicer.

CELLS = st.text(alphabet='ab,";\r\n é|\t1.', max_size=6)
TABLES = st.integers(1, 4).flatmap(lambda n: st.lists(st.lists(CELLS, min_size=n, max_size=n), max_size=12))


def write_rows(rows, quoting, line_end, delimiter=","):
    text = io.StringIO()
    csv.writer(text, quoting=quoting, lineterminator=line_end, delimiter=delimiter).writerows(rows)
    return text.getvalue()


@settings(max_examples=150, deadline=None)
@given(
    TABLES,
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.booleans(),
    st.integers(1, 40),
)
def test_pieces_of_any_size_hold_every_byte_and_every_cell(tmp_path_factory, rows, quoting, end, has_end, size):
    n = len(rows[0]) if rows else 2
    if quoting == csv.QUOTE_MINIMAL:  # the csv module quotes only the line end it writes
        other = {"\n": "\r", "\r": "\n"}.get(end, "")
        rows = [[cell.replace(other, "") for cell in row] for row in rows]
    text = write_rows([[f"c{j}" for j in range(n)], *rows], quoting, end)
    text = text if has_end else text.removesuffix(end)
    path = tmp_path_factory.getbasetemp() / "pieces.csv"
    path.write_bytes(text.encode())
    source = CsvSource(path, size, 3)
    try:
        pieces = list(source.pieces())
    finally:
        source.close()
    assert source.header + b"".join(piece.text for piece in pieces) == text.encode()
    if source.delimiter == b",":
        expected = [row for row in csv.reader(io.StringIO(text, newline="")) if row][1:]
        cells = [list(row) for p in pieces for row in zip(*[p.array(j).to_pylist() for j in range(n)], strict=True)]
        assert cells == expected
        assert [piece.first_row for piece in pieces] == np.cumsum([0, *[p.n_rows for p in pieces]])[:-1].tolist()


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet='a,"\n\r', max_size=30))
def test_quotes_in_the_midst_of_a_cell_are_read_as_the_csv_module_reads_them(text):
    if text.count('"') % 2:
        text += '"'
    records = scan(text.encode(), b",", final=True)
    counts = [int(n) for n, blank in zip(records.counts, records.blank, strict=True) if not blank]
    if records.unclosed is None:
        assert counts == [len(row) for row in csv.reader(io.StringIO(text, newline="")) if row]


def test_splicing_replaces_only_what_it_is_told_to():
    at = np.array([2, 0, 4])
    assert splice(b"a,,c", at, np.array([2, 1, 4]), [b"b", b"A", b",d"]) == b"A,b,c,d"


# A file, and what stands at @, its hole.
ODD = [
    ("mpg,weight,origin\n18, 3504 ,1\n@,2000,\n", ""),
    ("mpg,weight,origin\r\n18,3504,1\r\n\r\n@,2000,3\r\n", " "),
    ('mpg,weight,origin\n"18","3504","1"\n"@","2000",""', ""),
    ("\ufeffmpg,weight,origin\n18,3504,1\n@,2000,3", "NA"),
    ('\ufeff"mpg", weight ,origin\n18,3504,1\n@,2000,3\n\n\n', " n/a"),
    ("weight;mpg;origin\n3504;18;1\n2000;@;\n", ""),
    ("mpg\tweight\torigin\n18\t3504\t1\n@\t2000\t\n", "null"),
    ("weight,mpg\r3504,18\r2000,@\r", ""),
    ('name,mpg\n5" pipe,18\n"a, ""b""\r\nc",@\n', "nan"),
]


@pytest.mark.parametrize(("text", "hole"), ODD)
def test_all_bytes_but_those_of_the_hole_stay(predictor, tmp_path, text, hole):
    report, out = fill_text(predictor, tmp_path, text.replace("@", hole), columns=("mpg",))
    head, tail = text.encode().split(b"@")
    assert report.filled == 1
    assert out.startswith(head)
    assert out.endswith(tail)
    assert 8 < float(out[len(head) : len(out) - len(tail)]) < 60


def test_nothing_to_fill_gives_the_same_bytes(predictor, tmp_path):
    text = 'name,mpg,weight\r\n"a ""b"", c\nd",18,3504\r\n5" pipe,NA,\r\n\r\nü,  19 ,1e3'
    report, out = fill_text(predictor, tmp_path, text, columns=())
    assert out == text.encode()
    assert (report.rows, report.filled) == (3, 0)


# Faults of CSV files.


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"\nmpg,weight\n", "first line of the CSV file is empty"),
        (b"mpg,mpg\n1,2\n", "more than once: 'mpg'"),
        (b"mpg,weight\n1,2\n3\n", "line 3 .*expected 2 fields as in the header, got 1"),
        (b"mpg,weight\n1,2\n\n1,2,3\n", "line 4 .*expected 2 fields as in the header, got 3"),
        (b'name,mpg\n"a\nb",1\n2\n', "line 4 .*expected 2 fields"),
        (b"mpg,weight\n1,2\n1,\xe9\n", "line 3 .*not UTF-8 .byte 0xe9"),
        (b"mpg,weight\n1,2\n1,\x00\n", "line 3 .*NUL"),
        (b'mpg,weight\n1,2\n1,"3\n4,5\n', "line 3 .*never ends"),
        (b'"mpg,weight\n1,2\n', "line 1 .*column name begins that never ends"),
    ],
)
def test_a_torn_csv_file_is_refused_by_line(predictor, tmp_path, text, said):
    with pytest.raises(TableError, match=said):
        fill_text(predictor, tmp_path, text)


def test_a_bad_number_in_the_third_piece_is_named_by_its_row_in_the_file(predictor, tmp_path):
    rows = [f"{i % 30 + 10},{2000 + i}" for i in range(30)]
    rows[18], rows[20] = "abc,2000", "12,inf"
    with pytest.raises(CellError) as caught:
        fill_text(predictor, tmp_path, "mpg,weight\n" + "\n".join(rows), sizes=Sizes(rows=7))
    assert [(p.row, p.column) for p in caught.value.problems] == [(18, "mpg"), (20, "weight")]
    assert "expected a number, got 'abc'" in str(caught.value)
    assert "not a finite number" in str(caught.value)


def test_all_faults_of_a_column_are_told_together(predictor, tmp_path):
    """Else each run would find the next: words first, and what is infinite once those were mended."""
    with pytest.raises(CellError) as caught:
        fill_text(predictor, tmp_path, "mpg,weight\nnot,1\ninf,2\n18,1e999\nTRUE,heavy\n-Infinity,3\n")
    infinite = "not a finite number"
    assert [(p.row, p.column, p.message) for p in caught.value.problems] == [
        (0, "mpg", "expected a number, got 'not'"),
        (1, "mpg", infinite),
        (2, "weight", infinite),
        (3, "mpg", "expected a number, got 'TRUE'"),
        (3, "weight", "expected a number, got 'heavy'"),
        (4, "mpg", infinite),
    ]


def test_a_file_without_a_header_is_asked_for_one_once(predictor, tmp_path):
    with pytest.raises(CellError) as caught:
        fill_text(predictor, tmp_path, "18,3504,70\n19,2000,71\n")
    assert len(caught.value.problems) == 3
    assert str(caught.value).count("is the first line of the file a header?") == 1
    assert str(caught.value).count("unknown=ignore passes over columns nobody knows") == 1


def test_a_header_without_rows_is_a_file_without_rows(predictor, tmp_path):
    for text in ("mpg,weight", "mpg,weight\r\n", "mpg,weight\n\n"):
        report, out = fill_text(predictor, tmp_path, text, columns=("mpg", "origin"))
        assert (report.rows, out.decode()) == (0, text.replace("weight", "weight,origin"))


def test_an_unknown_column_is_refused_with_the_nearest_name_or_ignored(predictor, tmp_path):
    text = "mpg,wieght,name\n,3504,x\n"
    with pytest.raises(CellError, match="'wieght': there is no such column; did you mean 'weight'"):
        fill_text(predictor, tmp_path, text)
    report, out = fill_text(predictor, tmp_path, text, unknown="ignore", columns=("mpg",))
    assert out.endswith(b",3504,x\n")
    assert len(report.warnings) == 1  # name was left out of the fit: that needs no words
    assert "wieght" in report.warnings[0]
    with pytest.raises(CellError, match="is the first line of the file a header"):
        fill_text(predictor, tmp_path, "18,3504\n19,2000\n")
    with pytest.raises(CellError, match="did you mean 'weight'"):
        fill_text(predictor, tmp_path, "mpg\n1\n", columns=("weigth",))


# What is filled.


def test_a_column_the_file_lacks_is_added_at_the_end(predictor, tmp_path):
    report, out = fill_text(predictor, tmp_path, "weight,mpg\r\n3504,18\r\n\r\n2000,\r\n", columns=("origin", "mpg"))
    lines = out.decode().split("\r\n")
    assert lines[0] == "weight,mpg,origin"
    assert lines[1][:8] == "3504,18,"
    assert lines[2] == ""
    assert all(line.split(",")[2] in ("1", "2", "3") for line in (lines[1], lines[3]))
    assert report.columns == {"mpg": 1, "origin": 2}


def test_all_columns_of_the_table_are_filled_unless_others_are_named(predictor, tmp_path):
    _, out = fill_text(predictor, tmp_path, "weight\n3504\n")
    assert out.decode().splitlines()[0].split(",") == ["weight", *[c for c in predictor.links("auto") if c != "weight"]]
    _, out = fill_text(predictor, tmp_path, "weight,mpg\n3504,\n,\n", table=None)
    assert out.decode().splitlines()[0] == "weight,mpg"
    assert "" not in out.decode().splitlines()[2].split(",")


def test_a_file_of_strangers_is_answered_from_nothing(predictor, tmp_path):
    report, out = fill_text(predictor, tmp_path, "name,\na,1\nb,2\n", columns=("mpg",))
    assert report.filled == 2
    assert out.decode().splitlines()[0] == "name,,mpg"
    expected = predictor.predict({"mpg": [None]}, "mpg").values[0]
    assert float(out.decode().splitlines()[1].split(",")[2]) == pytest.approx(expected, rel=1e-5)


def test_codes_for_missing_are_holes_and_new_categories_are_not(predictor, tmp_path):
    words = predictor.schema.features[predictor.schema.index["car_truck"]].categories
    text = f"car_truck,city_mpg\n??,20\nspaceship,21\n{words[0]},22\n n/a ,23\nspaceship,24\n"
    report, out = fill_text(predictor, tmp_path, text, table="epa2021", columns=("car_truck",))
    lines = out.decode().splitlines()
    assert [line.split(",")[0] in words for line in lines[1:]] == [True, False, True, True, False]
    assert lines[2] == "spaceship,21"
    assert report.warnings == ("column 'car_truck': categories never seen, read as missing, in 2 rows: 1, 4",)


def test_warnings_are_merged_over_pieces(predictor, tmp_path):
    text = "weight,mpg\n" + "99999,20\n" * 30
    report, _ = fill_text(predictor, tmp_path, text, columns=("mpg",))
    assert len(report.warnings) == 1
    assert "clamped, in 30 rows: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, and 20 more" in report.warnings[0]


def test_progress_reaches_the_end_and_others_have_a_turn_between_pieces(predictor, tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("mpg,weight\n" + ",3000\n" * 40)
    shares, turns = [], []
    impute_file(
        path,
        "csv",
        tmp_path / "out.csv",
        "csv",
        ask_of(predictor),
        progress=lambda share, words: shares.append((share, words)),
        pause=lambda: turns.append(1),
        sizes=TINY,
    )
    assert shares == sorted(shares, key=lambda s: s[0])
    assert shares[-1] == (1.0, "40 rows")
    assert len(turns) == len(shares) > 4


# Parquet and Arrow.


def make_cars(n_rows, holes=40):
    """Cars of the table epa2021 with all sorts of types, a hole in every so many rows, and what it holds
    beside: columns left out of the fit and columns nobody knows.
    """
    rng = np.random.default_rng(0)
    rows = np.arange(n_rows)

    def missing(phase):
        return rows % holes == phase

    days = rng.integers(14_000, 18_000, n_rows).astype("datetime64[D]")
    names = np.array(["Ünïcode, das Auto", 'the "quoted"', "two\nlines", "", "plain"], dtype=object)
    words = np.array(["N", "Y"], dtype=object)
    classes = np.array(["Compact Cars", "Midsize Cars", "Subcompact Cars"], dtype=object)
    return pa.table(
        {
            "carline": pa.array(names[rng.integers(0, 5, n_rows)], pa.string()),
            "city_mpg": pa.array(rng.integers(10, 40, n_rows), pa.int16(), mask=missing(0)),
            "engine_displacement": pa.array(rng.uniform(1, 6, n_rows).round(3), mask=missing(1)),
            "no_cylinders": pa.array(rng.choice([4, 6, 8], n_rows), pa.int64(), mask=missing(2)),
            "release_date": pa.array(days, mask=missing(3)),
            "class": pa.array(classes[rng.integers(0, 3, n_rows)], pa.large_string(), mask=missing(4)),
            "guzzler": pa.array(words[rows % 2], pa.string(), mask=missing(0)).dictionary_encode(),
            "seen": pa.array(rows * 1_000_003, pa.timestamp("ms", tz="Europe/Berlin"), mask=missing(5)),
            "is_new": pa.array(rows % 3 == 0, mask=missing(6)),
        }
    ).replace_schema_metadata({"made by": "hand"})


FILLED = ("city_mpg", "engine_displacement", "no_cylinders", "release_date", "class", "guzzler")
MORE = {"table": "epa2021", "columns": FILLED, "unknown": "ignore"}


def plain_cells(column):
    """A column of make_cars as JSON would hold it."""
    column = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    return [cell.isoformat() if isinstance(cell, date) else cell for cell in column.to_pylist()]


def expect(predictor, table):
    """What the Predictor gives for the holes: {column: (rows, values)}; other rows are not asked about."""
    rows = np.flatnonzero(np.logical_or.reduce([table[name].is_null().to_numpy() for name in FILLED]))
    part = table.take(pa.array(rows))
    columns = {name: plain_cells(part[name].combine_chunks()) for name in FILLED}
    told = predictor.impute(columns, table="epa2021", which=FILLED)
    return {name: (rows[at], list(told.filled[name].values)) for name, at in told.rows.items()}


def check_filled(predictor, before, after):
    """Untouched cells are equal, holes hold what the Predictor says, in the column's type."""
    expected = expect(predictor, before)
    for name in before.schema.names:
        old, new = before[name].combine_chunks(), after[name].combine_chunks()
        if name not in expected:
            assert new.equals(old), name
            continue
        rows, values = expected[name]
        kept = pa.array(~np.isin(np.arange(len(old)), rows))
        assert new.filter(kept).to_pylist() == old.filter(kept).to_pylist(), name
        got = plain_cells(new.take(pa.array(rows)))
        if name == "city_mpg":
            values = [round(value) for value in values]
        if isinstance(values[0], str):
            assert got == values
        else:
            assert got == pytest.approx(values, rel=1e-5)


def test_many_rows_of_parquet_keep_types_metadata_and_every_other_cell(predictor, tmp_path):
    before = make_cars(N_MANY, holes=400)
    path = tmp_path / "in.parquet"
    pa.parquet.write_table(before, path, compression="zstd", row_group_size=70_000)
    report, out = fill(predictor, path, read_as="parquet", sizes=Sizes(), **MORE)
    after = pa.parquet.read_table(out)
    meta = pa.parquet.read_metadata(out)
    assert after.schema.equals(before.schema, check_metadata=True)
    assert pa.parquet.read_schema(out).equals(pa.parquet.read_schema(path), check_metadata=True)
    assert meta.row_group(0).column(0).compression == "ZSTD"
    assert [meta.row_group(i).num_rows for i in range(meta.num_row_groups)] == [70_000, 70_000, 60_000]
    assert (report.rows, report.filled) == (N_MANY, 6 * N_MANY // 400)
    check_filled(predictor, before, after)


def test_many_rows_of_an_arrow_stream_keep_types_metadata_and_every_other_cell(predictor, tmp_path):
    before = make_cars(N_MANY, holes=400)
    path = tmp_path / "in.arrow"
    write_stream(before, path, 33_333)
    _, out = fill(predictor, path, read_as="arrow", sizes=Sizes(), **MORE)
    after = read_stream(out)
    assert after.schema.equals(before.schema, check_metadata=True)
    check_filled(predictor, before, after)


def fields_of(path):
    text = path.read_bytes()
    records = scan(text, b",", final=True)
    fields = [text[a:b] for a, b in zip(records.starts.tolist(), records.ends.tolist(), strict=True)]
    return np.array(fields, dtype=object).reshape(-1, int(records.counts[0]))


def test_many_rows_of_csv_keep_every_other_byte(predictor, tmp_path):
    table = make_cars(N_MANY, holes=400)
    flat = table.set_column(6, "guzzler", table["guzzler"].cast(pa.string()))
    path = tmp_path / "in.csv"
    pa.csv.write_csv(flat, path)
    _, out = fill(predictor, path, sizes=Sizes(), **MORE)
    before, after = fields_of(path), fields_of(out)
    assert before.shape == after.shape == (N_MANY + 1, 9)
    expected = expect(predictor, table)
    touched = np.zeros(before.shape, dtype=bool)
    for name, (rows, values) in expected.items():
        j = table.schema.names.index(name)
        touched[rows + 1, j] = True
        got = [cell.decode() for cell in after[rows + 1, j]]
        is_text = isinstance(values[0], str)
        assert (got if is_text else list(map(float, got))) == (values if is_text else pytest.approx(values, rel=1e-5))
    assert (before[~touched] == after[~touched]).all()


@pytest.mark.parametrize("rows", [0, 1, 23])
@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_files_of_any_number_of_rows_and_chunks_keep_their_schema(predictor, tmp_path, form, rows):
    before = make_cars(rows, holes=5)
    path = tmp_path / f"in.{form}"
    if form == "parquet":
        pa.parquet.write_table(before, path, row_group_size=10)
    else:
        write_stream(before, path, 4)
    report, out = fill(predictor, path, read_as=form, **MORE)
    after = pa.parquet.read_table(out) if form == "parquet" else read_stream(out)
    assert after.schema.equals(before.schema, check_metadata=True)
    assert (report.rows, len(after)) == (rows, rows)
    check_filled(predictor, before, after)


def test_what_pandas_wrote_is_read_back_by_pandas_as_it_was(predictor, tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"weight": [3504, 2000], "mpg": [np.nan, 30.0]}, index=["a", "b"])
    frame.to_parquet(tmp_path / "in.parquet")
    _, out = fill(predictor, tmp_path / "in.parquet", read_as="parquet", table=None, unknown="ignore")
    after = pandas.read_parquet(out)
    assert list(after.index) == ["a", "b"]
    assert after.dtypes.equals(frame.dtypes)
    assert after["mpg"].notna().all()


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (pa.array(["a", None]), "row 0, column 'mpg': expected a number, got 'a', which is text"),
        (pa.array(["18", None]), "expected a number, got '18', which is text"),
        (pa.array([True, None]), "expected a number, got True, which is bool"),
        (pa.array([1.0, float("inf")]), "row 1, column 'mpg': not a finite number"),
        (pa.array([[1.0], None]), "expected a number, got .1.0., which is list"),
    ],
)
def test_cells_of_the_wrong_type_are_refused_by_row_and_column(predictor, tmp_path, cells, said):
    pa.parquet.write_table(pa.table({"mpg": cells}), tmp_path / "in.parquet")
    with pytest.raises(CellError, match=said):
        fill(predictor, tmp_path / "in.parquet", read_as="parquet")


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_files_that_are_something_else_or_torn_are_refused(predictor, tmp_path, form):
    (tmp_path / "in.bin").write_bytes(b"mpg,weight\n1,2\n")
    with pytest.raises(TableError, match="not a"):
        fill(predictor, tmp_path / "in.bin", read_as=form)
    (tmp_path / "in.bin").write_bytes(b"")
    with pytest.raises(TableError, match="not a"):
        fill(predictor, tmp_path / "in.bin", read_as=form)
    table = pa.table({"mpg": list(range(1000))})
    write_stream(table, tmp_path / "whole") if form == "arrow" else pa.parquet.write_table(table, tmp_path / "whole")
    (tmp_path / "in.bin").write_bytes((tmp_path / "whole").read_bytes()[:-900])
    with pytest.raises(TableError):
        fill(predictor, tmp_path / "in.bin", read_as=form)


def test_columns_without_a_type_get_the_natural_one(predictor, tmp_path):
    before = pa.table({"weight": [3504, 2000], "mpg": pa.nulls(2), "origin": pa.nulls(2)})
    write_stream(before, tmp_path / "in.arrow")
    _, out = fill(predictor, tmp_path / "in.arrow", read_as="arrow", columns=("mpg", "year"))
    after = read_stream(out)
    assert after.schema.names == ["weight", "mpg", "origin", "year"]
    assert [field.type for field in after.schema] == [pa.int64(), pa.float64(), pa.null(), pa.float64()]
    assert after["mpg"].null_count == after["year"].null_count == 0


# Answers in any type.

NUMBER = Feature("n", "numeric")
MOMENT = Feature("d", "datetime")
FLAG = Feature("b", "boolean", categories=("false", "true"))
WORD = Feature("w", "categorical", categories=("red", "green"))


@pytest.mark.parametrize(
    ("feature", "values", "kind", "expected"),
    [
        (NUMBER, [127.4, 127.6, -5.5, -129.0], pa.int8(), [127, None, -6, None]),
        (NUMBER, [300.6, -0.4, -5.5], pa.uint64(), [301, 0, None]),
        (NUMBER, [1e30, 2.0**63, 2.0**63 - 1024, 2.5], pa.int64(), [None, None, 2**63 - 1024, 2]),
        (NUMBER, [0.5, 1.5, 1e6], pa.float16(), [0.5, 1.5, None]),
        (NUMBER, [0.5, 1e300], pa.float32(), [0.5, None]),
        (NUMBER, [1.0, 0.0, 18.5], pa.bool_(), [True, False, None]),
        (NUMBER, [2.5, 1e13], pa.duration("ns"), [timedelta(seconds=2.5), None]),
        (NUMBER, [1.5, 2.0], pa.string(), ["1.5", "2"]),
        (NUMBER, [1.5, 2.0], pa.date32(), [None, None]),
        (WORD, ["red", "green"], pa.string_view(), ["red", "green"]),
        (WORD, ["red", "green"], pa.int8(), [None, None]),
        (Feature("w", "categorical", categories=("1", "2")), [1, 2], pa.float32(), [1.0, 2.0]),
        (FLAG, [True, False], pa.bool_(), [True, False]),
        (FLAG, [True, False], pa.int32(), [1, 0]),
        (MOMENT, ["2020-01-02", "2020-01-03"], pa.date64(), [date(2020, 1, 2), date(2020, 1, 3)]),
        (MOMENT, ["2020-01-02T03:04:05"], pa.date32(), [date(2020, 1, 2)]),
        (MOMENT, ["2020-01-02T03:04:05"], pa.timestamp("s"), [datetime(2020, 1, 2, 3, 4, 5)]),
        (MOMENT, ["2020-01-02T03:04:05"], pa.timestamp("ns", "UTC"), [datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC)]),
        (MOMENT, ["2020-01-02", "2500-01-02"], pa.timestamp("ns"), [datetime(2020, 1, 2), None]),
        (MOMENT, ["2020-01-02T03:04:05"], pa.int64(), [None]),
    ],
)
def test_answers_are_put_in_the_type_of_the_column(feature, values, kind, expected):
    new = to_array(values, feature, kind)
    assert new.type == kind
    cells = new.cast(pa.timestamp("us", kind.tz)) if pa.types.is_timestamp(kind) else new
    assert cells.to_pylist() == expected


def test_decimals_are_rounded_and_beyond_their_digits_there_are_none():
    told = to_array([1.256, 999.994, 999.996, 1e9], NUMBER, pa.decimal128(5, 2)).to_pylist()
    assert list(map(str, told)) == ["1.26", "999.99", "None", "None"]


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_answers_too_large_for_a_column_leave_its_cells_empty_with_a_warning(predictor, tmp_path, form):
    power = pa.array([None, 90, None], pa.int8())
    before = pa.table({"weight": [4900, 2100, 2000], "horsepower": power, "displacement": [450, 100, 90]})
    path = tmp_path / f"in.{form}"
    pa.parquet.write_table(before, path) if form == "parquet" else write_stream(before, path)
    report, out = fill(predictor, path, read_as=form, columns=("horsepower",))
    after = pa.parquet.read_table(out) if form == "parquet" else read_stream(out)
    assert after.schema.equals(before.schema)
    large, kept, small = after["horsepower"].to_pylist()
    assert large is None
    assert kept == 90
    assert 40 < small < 128
    assert report.filled == 1
    assert report.warnings == (f"column 'horsepower': {MISFIT}, in 1 row: 0",)


def test_dictionaries_take_new_words_and_keep_their_type():
    cells = pa.DictionaryArray.from_arrays(pa.array([0, None, 0], pa.int8()), pa.array(["red"]), ordered=True)
    after = put(cells, np.array([1, 2]), to_array(["green", "red"], WORD, cells.type))
    assert after.type == cells.type
    assert after.to_pylist() == ["red", "green", "red"]
    full = pa.DictionaryArray.from_arrays(pa.array([0, None], pa.int8()), pa.array([f"w{i}" for i in range(128)]))
    with pytest.raises(TableError, match="no room for another word"):
        put(full, np.array([1]), pa.array(["red"]))


def test_string_views_are_filled():
    cells = pa.array(["é", None, "a long string that is not inlined"], pa.string_view())
    after = put(cells, np.array([1]), pa.array(["x"], pa.string_view()))
    assert after.type == cells.type
    assert after.to_pylist() == ["é", "x", "a long string that is not inlined"]


def test_numbers_are_written_as_short_as_they_can_be():
    numbers = np.array([14.0, 0.1, 16777217.0, 1 / 3, -2.0, 1e300, 1234.5678])
    assert show_numbers(numbers) == ["14", "0.1", "16777217", "0.33333334", "-2", "1e+300", "1234.5677"]


@pytest.mark.parametrize(
    ("words", "spelling"),
    [
        (["TRUE"], ("TRUE", "FALSE")),
        (["False"], ("True", "False")),
        ([None, " no"], ("yes", "no")),
        (["Y"], ("Y", "N")),
        (["0"], ("1", "0")),
        (["maybe", True], None),
    ],
)
def test_booleans_are_spelt_as_the_file_spells_them(words, spelling):
    assert learn_spelling(words) == spelling
    if spelling:
        assert tuple(to_texts([True, False], FLAG, spelling)) == spelling


@pytest.mark.parametrize(
    "cells",
    [
        pa.array(["2020-01-02", "", "2020-01-02 03:00:00"]),
        pa.array(["2020-01-02T00:00:00Z", "NA", "2020-01-02T04:00:00+01:00"]),
        pa.array([datetime(2020, 1, 2), None, datetime(2020, 1, 2, 3)], pa.timestamp("ns")),
        pa.array([datetime(2020, 1, 2), None, datetime(2020, 1, 2, 3)], pa.timestamp("s", "Asia/Tokyo")),
        pa.array(["2020-01-02", None, "2020-01-02T03"]).dictionary_encode(),
    ],
)
def test_datetimes_of_any_type_are_read_alike(predictor, cells):
    feature = predictor.schema.features[predictor.schema.index["release_date"]]
    read = read_column(cells, feature, Link("d", "release_date"), spelt=True).cells
    expected = np.array(["2020-01-02", "NaT", "2020-01-02T03:00"], "datetime64[us]")
    assert read.dtype == expected.dtype
    np.testing.assert_array_equal(read, expected)


def test_a_date_that_is_none_is_named(predictor, tmp_path):
    text = "release_date,city_mpg\n2020-01-02,20\n13.1.2020,20\n"
    with pytest.raises(CellError, match="row 1, column 'release_date': expected an ISO 8601 date or time, got '13"):
        fill_text(predictor, tmp_path, text, table="epa2021")


# From one format to another.


def test_csv_becomes_parquet_with_numbers_as_numbers_and_all_else_as_text(predictor, tmp_path):
    path = tmp_path / "in.csv"
    path.write_text('name,mpg,weight,origin\n"a, b",18,3504,1\n,NA,2000,\n')
    _, out = fill(predictor, path, write_as="parquet", columns=("mpg", "origin", "year"))
    after = pa.parquet.read_table(out)
    assert [str(field.type) for field in after.schema] == ["string", "double", "double", "string", "double"]
    assert after["name"].to_pylist() == ["a, b", None]
    assert after["weight"].to_pylist() == [3504.0, 2000.0]
    told = predictor.impute({"mpg": [None], "weight": [2000], "origin": [None]}, table="auto", which=["mpg", "origin"])
    assert after["mpg"].to_pylist() == pytest.approx([18.0, told.filled["mpg"].values[0]], rel=1e-5)
    assert after["origin"].to_pylist() == ["1", str(told.filled["origin"].values[0])]


def test_parquet_becomes_csv_and_arrow_and_back(predictor, tmp_path):
    before = make_cars(50, holes=10)
    path = tmp_path / "in.parquet"
    pa.parquet.write_table(before, path)
    fill(predictor, path, tmp_path / "a.arrow", read_as="parquet", write_as="arrow", **MORE)
    fill(predictor, tmp_path / "a.arrow", tmp_path / "b.parquet", read_as="arrow", write_as="parquet", **MORE)
    after = pa.parquet.read_table(tmp_path / "b.parquet")
    assert after.schema.equals(before.schema, check_metadata=True)
    check_filled(predictor, before, after)
    fill(predictor, path, tmp_path / "c.csv", read_as="parquet", write_as="csv", **MORE)
    with (tmp_path / "c.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == before.schema.names
    assert [row[0] for row in rows] == before["carline"].to_pylist()
    assert [int(row[1]) for row in rows] == after["city_mpg"].to_pylist()
    assert rows[5][7] == ""


def test_nested_columns_pass_through_but_not_into_csv(predictor, tmp_path):
    before = pa.table({"mpg": [None, 18.0], "name": [[1, 2], None]})
    pa.parquet.write_table(before, tmp_path / "in.parquet", compression="gzip")
    _, out = fill(predictor, tmp_path / "in.parquet", read_as="parquet", columns=("mpg",))
    assert pa.parquet.read_table(out)["name"].to_pylist() == [[1, 2], None]
    assert pa.parquet.read_metadata(out).row_group(0).column(1).compression == "GZIP"
    with pytest.raises(TableError, match=r"'name': list.* cannot be written as CSV"):
        fill(predictor, tmp_path / "in.parquet", read_as="parquet", write_as="csv")


# Predictions.


def test_predictions_are_added_with_their_interval_or_their_probability(predictor, tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("mpg,weight,origin\r\nn/a,3504,1\r\n\r\n30,2000,\r\n")
    columns = {"weight": [3504, 2000], "origin": ["1", None]}
    told = predictor.predict(columns, "mpg", table="auto", interval=0.9)
    report = predict_file(path, "csv", tmp_path / "out.csv", "csv", ask_of(predictor), target="mpg")
    lines = (tmp_path / "out.csv").read_bytes().decode().split("\r\n")
    assert lines[0] == "mpg,weight,origin,mpg_predicted,mpg_low,mpg_high"
    assert [line[: line.index(",", 7)] for line in (lines[1], lines[3])] == ["n/a,3504", "30,2000"]
    got = [list(map(float, line.split(",")[3:])) for line in (lines[1], lines[3])]
    expected = [[value, *ends] for value, ends in zip(told.values, told.interval, strict=True)]
    np.testing.assert_allclose(got, expected, rtol=1e-5)
    assert report.columns == {"mpg_predicted": 2, "mpg_low": 2, "mpg_high": 2}

    predict_file(path, "csv", tmp_path / "out.parquet", "parquet", ask_of(predictor), target="cylinders")
    after = pa.parquet.read_table(tmp_path / "out.parquet")
    told = predictor.predict({**columns, "mpg": [None, 30]}, "cylinders", table="auto")
    assert after.schema.names[3:] == ["cylinders_predicted", "cylinders_probability"]
    assert after["cylinders_predicted"].to_pylist() == list(told.values)
    assert after["cylinders_probability"].to_pylist() == pytest.approx(told.probability.tolist(), rel=1e-5)


def test_dates_and_words_are_predicted_in_their_natural_types(predictor, tmp_path):
    path = tmp_path / "in.parquet"
    pa.parquet.write_table(make_cars(20).drop_columns(["seen", "is_new"]), path)
    for target, kinds in (("release_date", ["date32[day]"] * 3), ("class", ["string", "double"])):
        ask = ask_of(predictor, "epa2021")
        predict_file(path, "parquet", tmp_path / "out.parquet", "parquet", ask, target=target, sizes=TINY)
        after = pa.parquet.read_table(tmp_path / "out.parquet")
        assert [str(field.type) for field in after.schema][7:] == kinds
        assert after.column(7).null_count == 0
    assert str(natural_type(Feature("w", "categorical", categories=("1", "2")))) == "int64"


def test_a_file_that_has_predictions_already_is_refused(predictor, tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("mpg,mpg_low\n1,2\n")
    ask = ask_of(predictor, unknown="ignore")
    with pytest.raises(TableError, match="'mpg_low' already"):
        predict_file(path, "csv", tmp_path / "out.csv", "csv", ask, target="mpg")


# Only read.


def test_a_file_is_read_in_pieces_that_the_predictor_takes(predictor, tmp_path):
    before = make_cars(40, holes=8).select([0, *range(1, 7)])
    path = tmp_path / "in.parquet"
    pa.parquet.write_table(before, path)
    pieces = list(read_columns(path, "parquet", ask_of(predictor, "epa2021"), sizes=TINY))
    assert sum(piece.n_rows for piece in pieces) == 40
    assert [piece.first_row for piece in pieces] == list(range(0, 40, 7))
    told = [value for p in pieces for value in predictor.predict(p.columns, "city_mpg", table="epa2021").values]
    whole = {name: plain_cells(before[name].combine_chunks()) for name in FILLED}
    assert told == pytest.approx(list(predictor.predict(whole, "city_mpg", table="epa2021").values), rel=1e-5)


def test_the_package_is_imported_without_arrow():
    program = "import sys, service.files, service.files.ask\nsys.exit('pyarrow' in sys.modules)"
    root = Path(__file__).parent.parent
    assert subprocess.run([sys.executable, "-c", program], check=False, cwd=root).returncode == 0


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_an_altered_file_is_refused_or_read_but_never_breaks_us(predictor, tmp_path, form):
    table = pa.table({"mpg": [None, 20.0, 30.0], "origin": pa.array(["1", None, "2"]).dictionary_encode()})
    path = tmp_path / "in.bin"
    write_stream(table, path) if form == "arrow" else pa.parquet.write_table(table, path, compression="none")
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    n_refused = 0
    for at, value in zip(rng.integers(0, len(whole), 200), rng.integers(0, 256, 200), strict=True):
        path.write_bytes(whole[:at] + bytes([value]) + whole[at + 1 :])
        try:
            fill(predictor, path, read_as=form, unknown="ignore", columns=("mpg",))
        except (TableError, CellError):
            n_refused += 1
    assert n_refused > 20
