"""The view Fill a file: a file goes in, its holes come back filled, marked and with how sure that is."""

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from tests.test_page_try import read_number

ASKED = {"table": "auto", "unknown": "ignore", "append": "false"}
# In a column that no table has: with it, few rows are more than the page sends at once.
NOTE = '"a, ""b""\r\n' + "x" * 1000 + '"'


def write_holes(path: Path, cars: Path) -> None:
    """Thirty real cars, names and all, with holes in three columns."""
    header, *rows = (cars / "auto.csv").read_text().splitlines()[:31]
    names = header.split(",")
    lines = [header]
    for i, row in enumerate(rows):
        cells = row.split(",")
        for name in (("weight",), ("horsepower", "origin"), ())[i % 3]:
            cells[names.index(name)] = ""
        lines.append(",".join(cells))
    path.write_text("\r\n".join(lines) + "\r\n", newline="")


@pytest.fixture(scope="module")
def holes(cars, tmp_path_factory):
    path = tmp_path_factory.mktemp("fill") / "holes.csv"
    write_holes(path, cars)
    return path


@pytest.fixture
def filling(browser, demo_server):
    browser.open(demo_server.url, "fill")
    return browser


def fill_by_service(server, content: bytes, media_type: str) -> bytes:
    answer = server.client.post("/impute", content=content, params=ASKED, headers={"content-type": media_type})
    assert answer.status_code == 200, answer.text
    return bytes(answer.content)


def test_filled_cells_are_marked_each_with_how_sure_it_is(filling, demo_server, holes):
    filling.give_file(holes)
    filling.find("#download")
    told = demo_server.client.post(
        "/impute", content=holes.read_bytes(), params={**ASKED, "interval": 0.9},
        headers={"content-type": "text/csv", "accept": "application/json"},
    ).json()  # fmt: skip
    assert filling.text("#filled-cells") == f"{len(told['imputed'])} cells" == "30 cells"
    assert len(filling.all("#cells tbody tr")) == 30
    marked = filling.all("#cells .filled")
    assert len(marked) == 30
    names = filling.texts("#cells thead th")
    for one in told["imputed"][:6]:
        cell = f"#cells tbody tr:nth-child({one['row'] + 1}) td:nth-child({names.index(one['column']) + 1})"
        (value,), (sure,) = filling.texts(f"{cell} b"), filling.texts(f"{cell} .sure")
        assert read_number(value) == pytest.approx(one["value"], rel=1e-3)
        if one["interval"]:
            assert list(map(read_number, sure.split(" to "))) == pytest.approx(one["interval"], rel=1e-3)
        else:
            assert sure == ("> 99 %" if 0.995 < one["probability"] < 1 else f"{100 * one['probability']:.0f} %")


def test_the_table_is_guessed_by_the_files_columns_and_can_be_changed(filling, cars):
    filling.give_file(cars / "mtcars.csv")
    filling.find("#download")
    assert filling.find("#file-table").get_property("value") == "mtcars"
    assert filling.text("#filled-cells") == "0 cells"
    filling.choose("#file-table", "gtcars")
    filling.wait_for("another answer", lambda: filling.texts("#cells thead th")[1:] == ["hp"])


def test_the_download_is_to_the_byte_what_the_service_gives(filling, demo_server, holes):
    filling.give_file(holes)
    filling.click("#download")
    assert filling.wait_for_download("holes_filled.csv") == fill_by_service(demo_server, holes.read_bytes(), "text/csv")


def test_a_parquet_file_is_filled_as_well(filling, demo_server, holes, tmp_path):
    path = tmp_path / "holes.parquet"
    pa.parquet.write_table(pa.csv.read_csv(holes), path)
    filling.give_file(path)
    filling.choose("#file-table", "auto")
    filling.wait_for("marked cells", lambda: len(filling.all("#cells .filled")) == 30)
    filling.click("#download")
    content = filling.wait_for_download("holes_filled.parquet")
    filled = pa.parquet.read_table(pa.BufferReader(content))
    by_service = fill_by_service(demo_server, path.read_bytes(), "application/vnd.apache.parquet")
    assert filled.equals(pa.parquet.read_table(pa.BufferReader(by_service)))
    assert filled["weight"].null_count == filled["origin"].null_count == 0


def test_a_file_can_be_dropped_on_the_page(filling, holes):
    filling.drop_file(".drop", "dropped.csv", holes.read_text())
    filling.wait_for("the filled file", lambda: filling.all("#download"))
    assert "dropped.csv" in filling.text()
    assert filling.text("#filled-cells") == "30 cells"


def test_a_file_that_is_let_go_beside_its_place_does_not_take_the_place_of_the_page(filling):
    let_go = """const event = new DragEvent(arguments[0], { bubbles: true, cancelable: true });
    document.body.dispatchEvent(event);
    return event.defaultPrevented"""
    assert filling.run(let_go, "dragover")
    assert filling.run(let_go, "drop")


def write_large(path: Path, rows: Path, last: str = "") -> None:
    """The rows 45 times, each with a note; then a last one."""
    header, *lines = rows.read_text().splitlines()
    many = "".join(f"{line},{NOTE}\r\n" for line in lines * 45)
    path.write_text(f"{header},note\r\n{many}{last}", newline="")
    assert path.stat().st_size > 1 << 20


def test_a_large_file_goes_in_parts_with_progress_and_comes_back_as_one(filling, demo_server, holes, tmp_path):
    path = tmp_path / "large.csv"
    write_large(path, holes)
    said = filling.keep_texts(".working span")
    filling.give_file(path)
    filling.find("#download")
    assert any(re.match(r"[\d,]+ rows done, [\d,]+ cells filled", text) for text in said())
    assert "of 1,350 rows" in filling.text("#filled")
    filling.click("#download")
    content = filling.wait_for_download("large_filled.csv")
    assert content == fill_by_service(demo_server, path.read_bytes(), "text/csv")


def test_a_cell_that_cannot_be_read_is_told_by_row_and_column(filling, holes, tmp_path):
    header, first = holes.read_text().splitlines()[:2]
    cells = first.split(",")
    cells[header.split(",").index("weight")] = "heavy"
    (tmp_path / "bad.csv").write_text(f"{header}\n{first}\n{','.join(cells)}\n")
    write_large(tmp_path / "late.csv", holes, ",".join([*cells, "late"]))
    for name, row in (("bad.csv", 2), ("late.csv", 1351)):
        filling.give_file(tmp_path / name)
        filling.wait_for("an error", lambda row=row: f"row {row}, column weight" in filling.text(".trouble"))
        assert "heavy" in filling.text(".trouble")
        assert not filling.all("#download")


def test_a_file_that_cannot_be_filled_is_refused_in_words(filling, tmp_path):
    for name, content, words in (
        ("notes.txt", b"weight\n1\n", "should end in .csv"),
        ("empty.csv", b"", "no bytes"),
        ("header.csv", b"weight,horsepower\n", "no rows"),
        ("ragged.csv", b"weight,cylinders\n3504,8,9\n", "line 2 of the CSV file"),
    ):
        (tmp_path / name).write_bytes(content)
        filling.give_file(tmp_path / name)
        filling.wait_for_text(words)
        assert not re.search(r"undefined|\[object|NaN", filling.text())


@pytest.mark.parametrize(
    ("name", "content", "first", "then"),
    [
        ("no.parquet", b"not parquet at all", "The names of its columns are not read here", "not a Parquet file"),
        ("foreign.csv", b"a,b\n1,2\n", "No table has columns of these names", "nothing to go by"),
    ],
)
def test_a_file_whose_table_cannot_be_seen_waits_for_the_choice(filling, tmp_path, name, content, first, then):
    (tmp_path / name).write_bytes(content)
    filling.give_file(tmp_path / name)
    filling.wait_for_text(first)
    assert not filling.all("#cells, #download, .trouble")
    filling.choose("#file-table", "auto")
    filling.wait_for_text(then)


def test_a_semicolon_file_finds_its_table_and_is_filled(filling):
    filling.drop_file(".drop", "mtcars.csv", "wt;hp;cyl\n2.62;;6\n;110;6\n")
    filling.find("#download")
    assert filling.find("#file-table").get_property("value") == "mtcars"
    assert filling.text("#filled-cells") == "2 cells"


def test_another_file_takes_the_place_of_the_one_under_way(filling, holes, tmp_path):
    write_large(tmp_path / "large.csv", holes)
    filling.give_file(tmp_path / "large.csv")
    filling.drop_file(".drop", "small.csv", "wt,hp,cyl\n2.62,,6\n")
    filling.wait_for("the second file", lambda: filling.texts("#filled-cells") == ["1 cell"])
    filling.click("#download")
    assert filling.wait_for_download("small_filled.csv").startswith(b"wt,hp,cyl")
    assert filling.texts("#filled-cells") == ["1 cell"]


def test_what_a_file_holds_is_shown_and_never_run(filling):
    filling.drop_file(
        ".drop", "<b>x.csv", 'origin,weight,"<img src=x onerror=alert(1)>"\n<script>alert(1)</script>,,\n'
    )
    filling.find("#download")
    assert not filling.all("main img, main script, main b b")
    assert not filling.complaints()
