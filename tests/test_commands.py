"""python -m service impute, predict and audit, as a user runs them."""

import csv
import re

import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.server import run_service

TEXT = "weight,horsepower,mpg,cylinders,year\n3504,,18,8,70\n2100,95,,4,78\n1900,60,39,8,80\n"


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text(TEXT)
    return path


def test_impute_fills_a_file_and_says_so(tmp_path, table, small_bundle):
    told = run_service(tmp_path, "impute", "in.csv", "out.csv", "--bundle", str(small_bundle))
    assert told.returncode == 0, told.stderr
    assert "3 rows, 2 cells filled (horsepower 1, mpg 1) in out.csv" in told.stdout
    with (tmp_path / "out.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert rows[1]["horsepower"] == "95"
    assert float(rows[0]["horsepower"]) > 60


def test_a_published_model_and_a_registered_table_serve_files_too(tmp_path, small_bundle):
    (tmp_path / "in.csv").write_text("wt,hp\n3.5,\n")
    assert run_service(tmp_path, "publish", str(small_bundle)).returncode == 0
    told = run_service(tmp_path, "impute", "in.csv", "out.parquet", "--table", "mtcars", "--columns", "hp")
    assert told.returncode == 0, told.stderr
    back = pyarrow.parquet.read_table(tmp_path / "out.parquet")
    assert back.column_names == ["wt", "hp"]
    named = run_service(
        tmp_path, "impute", "in.csv", "b.csv", "--table", "mtcars", "--columns", "hp", "--model", "small@1"
    )
    assert named.returncode == 0, named.stderr


def test_answers_too_large_for_their_column_are_told(tmp_path, small_bundle):
    power = pa.array([None, 90], pa.int8())
    table = pa.table({"weight": [4900, 2100], "displacement": [450, 100], "horsepower": power})
    pyarrow.parquet.write_table(table, tmp_path / "in.parquet")
    told = run_service(
        tmp_path, "impute", "in.parquet", "out.parquet", "--columns", "horsepower", "--bundle", str(small_bundle)
    )
    assert told.returncode == 0, told.stderr
    assert "warning: column 'horsepower': answers that the column's type cannot hold, left empty" in told.stderr
    assert pyarrow.parquet.read_table(tmp_path / "out.parquet")["horsepower"].to_pylist() == [None, 90]


def test_predict_adds_columns(tmp_path, table, small_bundle):
    bundle = ("--bundle", str(small_bundle))
    told = run_service(tmp_path, "predict", "in.csv", "out.csv", "--target", "mpg", *bundle)
    assert told.returncode == 0, told.stderr
    with (tmp_path / "out.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0])[-3:] == ["mpg_predicted", "mpg_low", "mpg_high"]
    assert all(float(row["mpg_low"]) <= float(row["mpg_predicted"]) <= float(row["mpg_high"]) for row in rows)
    told = run_service(tmp_path, "predict", "in.csv", "out2.csv", "--target", "origin", *bundle)
    assert told.returncode == 0, told.stderr
    with (tmp_path / "out2.csv").open() as file:
        assert next(csv.DictReader(file)).keys() >= {"origin_predicted", "origin_probability"}


def test_audit_lists_suspicious_cells_most_surprising_first(tmp_path, table, small_bundle):
    told = run_service(tmp_path, "audit", "in.csv", "out.csv", "--bundle", str(small_bundle), "--surprise", "1.0")
    assert told.returncode == 0, told.stderr
    with (tmp_path / "out.csv").open() as file:
        cells = list(csv.DictReader(file))
    assert cells[0]["row"] == "2"
    surprise = [float(cell["surprise"]) for cell in cells]
    assert surprise == sorted(surprise, reverse=True)
    assert re.search(r"\w+ [+-]", cells[0]["reasons"])


def test_audit_warns_of_what_it_could_not_take_as_it_is_by_rows_of_the_file(tmp_path, small_bundle):
    rows = ["3504,red,1"] * 16_384 + ["99999,red,1", "2100,red,Mars"]  # two pieces
    (tmp_path / "in.csv").write_text("\n".join(["weight,colour,origin", *rows]) + "\n")
    given = ("--bundle", str(small_bundle), "--unknown", "ignore")
    told = run_service(tmp_path, "audit", "in.csv", "out.csv", *given)
    assert told.returncode == 0, told.stderr
    assert told.stderr.count("warning: ") == 3
    assert "warning: column 'colour' ignored: there is no such column" in told.stderr
    assert re.search(r"warning: column 'weight': outside the fitted range .*, clamped, in 1 row: 16384\n", told.stderr)
    assert "column 'origin': categories never seen, read as missing, in 1 row: 16385\n" in told.stderr
    quiet = run_service(tmp_path, "audit", "in.csv", "out2.csv", *given, "--quiet")
    assert quiet.stderr == ""


def test_nothing_suspicious_is_an_empty_table(tmp_path, table, small_bundle):
    told = run_service(tmp_path, "audit", "in.csv", "out.csv", "--bundle", str(small_bundle), "--surprise", "99")
    assert told.returncode == 0, told.stderr
    assert (tmp_path / "out.csv").read_text().strip().count("\n") == 0


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (("in.csv", "out.txt"), "its ending must be one of"),
        (("none.csv", "out.csv"), "there is no such file"),
        (("in.csv", "in.csv"), "exists already"),
        (("in.csv", "out.csv", "--table", "autos"), "did you mean 'auto'"),
        (("in.csv", "out.csv", "--columns", "mgp"), "did you mean 'mpg'"),
        (("in.csv", "no/out.csv"), "cannot be written"),
        (("in.csv", "out.csv", "--engine", "spark"), "not there yet"),
    ],
)
def test_mistakes_get_one_sentence_and_leave_nothing_behind(tmp_path, table, small_bundle, args, reason):
    told = run_service(tmp_path, "impute", *args, "--bundle", str(small_bundle))
    assert told.returncode == 2
    assert reason in told.stderr
    assert "Traceback" not in told.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"in.csv"}
    assert table.read_text() == TEXT


def test_a_column_nobody_knows_is_told_with_the_way_to_pass_over_it(tmp_path, small_bundle):
    (tmp_path / "in.csv").write_text("weight,colour\n3504,red\n")
    told = run_service(tmp_path, "impute", "in.csv", "out.csv", "--bundle", str(small_bundle))
    assert told.returncode == 2
    assert "column 'colour': there is no such column" in told.stderr
    assert "(--unknown ignore passes over columns nobody knows)" in told.stderr
    more = ("--unknown", "ignore", "--bundle", str(small_bundle))
    assert run_service(tmp_path, "impute", "in.csv", "out.csv", *more).returncode == 0


def test_without_a_model_it_says_how_to_get_one(tmp_path, table):
    told = run_service(tmp_path, "impute", "in.csv", "out.csv")
    assert told.returncode == 2
    assert "publish" in told.stderr
