"""The view Audit: cells that do not fit the rest of their row, the least fitting first, and who says so."""

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from selenium.webdriver.common.keys import Keys


def write_planted(path: Path, cars: Path) -> None:
    """Real cars; the heavy eight-cylinder of row 10 is said to weigh next to nothing."""
    header, *rows = (cars / "auto.csv").read_text().splitlines()[:121]
    cells = rows[9].split(",")
    names = header.split(",")
    assert cells[names.index("cylinders")] == "8"
    cells[names.index("weight")] = "1613"
    path.write_text("\n".join([header, *rows[:9], ",".join(cells), *rows[10:]]) + "\n")


@pytest.fixture(scope="module")
def planted(cars, tmp_path_factory):
    path = tmp_path_factory.mktemp("audit") / "planted.csv"
    write_planted(path, cars)
    return path


@pytest.fixture
def auditing(browser, demo_server):
    browser.open(demo_server.url, "audit")
    return browser


def test_a_planted_error_comes_first_with_its_reasons(auditing, demo_server, planted):
    auditing.give_file(planted)
    auditing.find("#suspects li")
    asked = {"content": planted.read_bytes(), "params": {"table": "auto", "unknown": "ignore"}}
    worst = demo_server.client.post("/audit", **asked, headers={"content-type": "text/csv"}).json()["cells"][0]
    assert (worst["row"], worst["column"]) == (9, "weight")
    assert auditing.text("#suspects li:first-child h2") == "Row 10, weight"
    assert auditing.text("#suspects li:first-child .was") == "1613"
    expected = float(auditing.text("#suspects li:first-child .rather").replace(",", ""))
    assert expected == pytest.approx(worst["expected"], rel=1e-3)
    reasons = auditing.texts("#suspects li:first-child tbody th")
    assert [text.partition(" = ")[0] for text in reasons[:5]] == [one["column"] for one in worst["experts"][:5]]
    assert all(text.partition(" = ")[2] for text in reasons[:5])


def test_the_whole_row_is_shown_with_the_cell_marked(auditing, planted):
    auditing.give_file(planted)
    auditing.click("#suspects li:first-child summary")
    assert auditing.text("#suspects li:first-child td.odd") == "1613"


def test_how_rare_a_cell_must_be_is_set_by_a_slider(auditing, planted):
    auditing.give_file(planted)
    auditing.find("#suspects li")
    before = len(auditing.all("#suspects li"))
    auditing.find("#least").send_keys(Keys.HOME)
    auditing.wait_for("more cells", lambda: len(auditing.all("#suspects li")) > before)
    auditing.find("#least").send_keys(Keys.END)
    auditing.wait_for("fewer cells", lambda: len(auditing.all("#suspects li")) <= before)
    assert "1 in" in auditing.text("#audit-words, output")


def test_a_parquet_file_is_audited_as_well(auditing, planted, tmp_path):
    path = tmp_path / "planted.parquet"
    pa.parquet.write_table(pa.csv.read_csv(planted), path)
    auditing.give_file(path)
    auditing.find("#file-table")
    auditing.choose("#file-table", "auto")
    auditing.wait_for("the planted error", lambda: auditing.texts("#suspects h2")[:1] == ["Row 10, weight"])


def test_a_file_can_be_dropped_on_the_page(auditing, planted):
    auditing.drop_file(".drop", "dropped.csv", planted.read_text())
    auditing.wait_for("the planted error", lambda: auditing.texts("#suspects h2")[:1] == ["Row 10, weight"])


def test_a_file_that_cannot_be_audited_is_refused_in_words(auditing, tmp_path):
    for content, words in (
        (b"weight,cylinders\n3504,8\nheavy,8\n", "row 2, column weight"),
        (b"weight,cylinders\n", "no rows"),
        (b"a,b\n1,2\n", "No table has columns of these names"),
        (b"weight,mpg\n,\n", "There is no cell to look at"),
        (b"weight,cylinders\n3504,8,9\n", "line 2 of the CSV file"),
    ):
        (tmp_path / "file.csv").write_bytes(content)
        auditing.give_file(tmp_path / "file.csv")
        auditing.wait_for_text(words)
