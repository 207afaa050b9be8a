"""The view Try it, as a person meets it: real clicks and keys against the demo."""

import math
import re

import pytest
from selenium.webdriver.common.keys import Keys

from tests.browser import Browser
from tests.server import RunningServer

FIGURE = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
TERM = re.compile("[-+\N{MINUS SIGN}]? ?" + FIGURE.pattern)
# Answers from addresses that hold this text come a second later; ``came`` tells that one has been worked on.
SLOW = """const [text, ask] = [arguments[0], window.fetch];
window.fetch = async (path, options) => {
  if (String(path).includes(text)) {
    await new Promise((go) => setTimeout(go, 1000));
    setTimeout(() => (window.came = true), 500);
  }
  return ask(path, options);
}"""
FOCUSED = "return document.activeElement.id || document.activeElement.getAttribute('aria-label') || ''"


@pytest.fixture
def trying(browser, demo_server):
    """The view, open at the demo's first table."""
    browser.open(demo_server.url)
    return browser


def shown_value(browser: Browser) -> str:
    """The answer without what stands beside it."""
    value: str = browser.run("return document.querySelector('#value')?.firstChild.textContent ?? ''")
    return value


def wait_for_value(browser: Browser, value: float | str) -> None:
    """As the service gave it; numbers have about four digits."""
    expected = value if isinstance(value, str) else pytest.approx(value, rel=6e-4)
    read = str if isinstance(value, str) else read_number
    browser.wait_for(f"the answer {value}", lambda: read(shown_value(browser)) == expected)


def ask(server: RunningServer, target: str, row: dict[str, object], table: str = "auto") -> dict[str, object]:
    """The service's own answer."""
    asked = {"target": target, "rows": [row], "table": table, "interval": 0.9, "explain": True}
    answer = server.client.post("/predict", json=asked)
    assert answer.status_code == 200, answer.text
    (told,) = answer.json()["predictions"]
    return dict(told)


def read_number(text: str) -> float:
    plain = text.replace(",", "").replace("\N{MINUS SIGN}", "-").replace(" ", "")
    return float(plain) if re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", plain) else math.nan


def read_sum(text: str) -> tuple[list[float], float]:
    """What is added, and what that makes, of a sum like 3.5 + 1.2 = 4.7, in the unit of mpg."""
    terms, _, score = text.partition(" = ")
    return list(map(read_number, TERM.findall(terms))), read_number(TERM.findall(score)[0])


def rounding_of(shown: float) -> float:
    """Half a unit of the fourth digit."""
    return 0.5 * 10 ** (math.floor(math.log10(abs(shown))) - 3) if shown else 0.0


def known_fields(browser: Browser) -> dict[str, str]:
    """What every visible field holds, if it holds anything."""
    script = """return Object.fromEntries([...document.querySelectorAll('.field:not([hidden])')].map(
        f => [f.dataset.column, f.querySelector('input:not([type=range]), select')]).filter(([, i]) => i.value !== '')
        .map(([name, i]) => [name, i.tagName === 'SELECT' ? i.selectedOptions[0].text : i.value]))"""
    known: dict[str, str] = browser.run(script)
    return known


def field(name: str) -> str:
    return f'[id="cell-{name}"]'


def slider(name: str) -> str:
    return f'[aria-label="{name}, slider"]'


# The form


@pytest.mark.parametrize("table", ["mtcars", "epa2012"])
def test_every_column_gets_the_field_that_suits_it(trying, demo_server, table):
    trying.choose("#table", table)
    columns = demo_server.client.get("/columns", params={"table": table}).json()["columns"]
    trying.wait_for(f"the fields of {table}", lambda: trying.all(field(columns[1]["column"])))
    fields = {element.get_attribute("data-column"): element for element in trying.all(".field")}
    assert list(fields) == [column["column"] for column in columns]
    for column in columns:
        script = "return [...arguments[0].querySelectorAll('input, select')].map(e => e.type)"
        kinds = trying.run(script, fields[column["column"]])
        if column["kind"] == "datetime":
            assert kinds == ["date"]
        elif column["values"]:
            assert kinds == ["select-one"]
            options = trying.texts(f"{field(column['column'])} option")
            assert options[0] == "unknown"
            assert len(options) == len(column["values"]) + 1
        else:
            assert kinds == ["number", "range"]
            ends = [read_number(text) for text in trying.texts(f'[data-column="{column["column"]}"] .ends span')]
            assert ends == pytest.approx([column["knots"][0], column["knots"][-1]], rel=1e-3)


def test_the_table_picked_last_is_shown_even_if_another_comes_later(trying):
    trying.run(SLOW, "table=mtcars")
    trying.choose("#table", "mtcars")
    trying.choose("#table", "gtcars")
    trying.wait_for("the slow answer", lambda: trying.run("return window.came"))
    assert trying.find("#table").get_property("value") == "gtcars"
    assert trying.all(field("trq"))


def test_the_column_that_is_asked_for_is_not_asked_back(trying):
    assert not trying.find('[data-column="mpg"]').is_displayed()
    trying.choose("#target", "weight")
    assert trying.find('[data-column="mpg"]').is_displayed()
    assert not trying.find('[data-column="weight"]').is_displayed()


def test_an_example_row_comes_at_a_click_and_is_answered_at_once(trying, demo_server):
    trying.click("#example")
    row = trying.wait_for("a row", lambda: known_fields(trying))
    assert len(row) == 7
    cells = {name: float(text) for name, text in row.items()}
    wait_for_value(trying, ask(demo_server, "mpg", cells)["value"])
    trying.click("#example")
    trying.wait_for("another row", lambda: known_fields(trying) != row)


# The answer


def test_with_nothing_known_the_answer_is_what_is_expected_of_any_row(trying, demo_server):
    wait_for_value(trying, ask(demo_server, "mpg", {})["value"])
    assert "Nothing is known of the row" in trying.text(".answer")


def test_what_is_typed_and_chosen_is_answered_as_the_service_answers_it(trying, demo_server):
    trying.find(field("weight")).send_keys("3504")
    trying.choose(field("cylinders"), "8")
    told = ask(demo_server, "mpg", {"weight": 3504, "cylinders": 8})
    wait_for_value(trying, told["value"])
    low, high = (read_number(text) for text in FIGURE.findall(trying.text("#value small").partition("between")[2]))
    assert (low, high) == pytest.approx(told["interval"], rel=1e-3)


def test_a_numbers_distribution_is_drawn_with_its_interval_and_value(trying):
    trying.click("#example")
    trying.wait_for("a row", lambda: known_fields(trying))
    drawing = trying.find(".dist")
    assert re.match(r"Distribution of mpg: [\d.]+ expected, 90\s% between", drawing.accessible_name)
    heights = trying.run(
        "return [...document.querySelectorAll('.dist .mass')].map(b => b.getBoundingClientRect().height)"
    )
    assert max(heights) > 50
    box, band, mark = (
        trying.run("return document.querySelector(arguments[0]).getBoundingClientRect().toJSON()", css)
        for css in (".dist", ".dist .band", ".dist .mark")
    )
    assert box["left"] <= band["left"] < mark["left"] < band["right"] <= box["right"]


def test_words_and_levels_are_shown_with_their_shares(trying, demo_server):
    for target, kind in (("origin", "words"), ("cylinders", "levels")):
        trying.choose("#target", target)
        trying.wait_for(kind, lambda target=target: trying.text(".answer h2") == target and trying.all(".shares"))
        shares = [float(text.partition(" ")[0]) for text in trying.texts(".shares dd:last-of-type, .shares dd + dd")]
        assert sum(shares) == pytest.approx(100, abs=1)


@pytest.mark.parametrize("target", ["price_2016", "transmission", "release_date"])
def test_a_column_that_the_table_never_had_can_be_asked_for(trying, demo_server, target):
    trying.find(field("weight")).send_keys("3504")
    trying.choose("#target", target)
    wait_for_value(trying, ask(demo_server, target, {"weight": 3504})["value"])
    assert trying.text(".answer h2") == target
    assert trying.all(".dist, .shares")


@pytest.mark.parametrize(
    ("table", "target"), [("auto", "mpg"), ("mpg", "class"), ("mtcars", "cyl"), ("epa2012", "hwy_mpg")]
)
def test_the_reasons_add_up(trying, table, target):
    trying.choose("#table", table)
    trying.wait_for(table, lambda: trying.all(f'optgroup[label="columns of {table}"]'))
    trying.choose("#target", target)
    trying.click("#example")
    trying.wait_for("reasons", lambda: trying.text(".answer h2") == target and len(trying.all(".falls .bar")) > 5)
    terms, score = read_sum(trying.text(".sum"))
    assert sum(terms) == pytest.approx(score, abs=sum(map(rounding_of, [*terms, score])))
    figures = [read_number(text) for text in trying.texts(".falls g > text:last-of-type")]
    assert figures == [*terms, score]
    assert len(trying.all(".falls .up, .falls .down")) == len(terms) - 1 > 3


# Changing it


def test_arrow_keys_on_a_slider_change_the_number_and_the_answer(trying, demo_server):
    trying.find(field("weight")).send_keys("3000")
    wait_for_value(trying, ask(demo_server, "mpg", {"weight": 3000})["value"])
    trying.find(slider("weight")).send_keys(Keys.ARROW_RIGHT * 60)
    weight = float(known_fields(trying)["weight"])
    assert weight > 3100
    wait_for_value(trying, ask(demo_server, "mpg", {"weight": weight})["value"])


def test_a_slider_can_be_dragged(trying, demo_server):
    trying.drag(trying.find(slider("horsepower")), right=60)
    power = float(known_fields(trying)["horsepower"])
    wait_for_value(trying, ask(demo_server, "mpg", {"horsepower": power})["value"])


def test_nonsense_in_a_number_breaks_nothing(trying, demo_server):
    trying.choose(field("cylinders"), "8")
    for power, text in enumerate(["1e400", "abc", "-", "1e", "--5", "1e308", "-1e308", "0.1.2"], start=100):
        trying.put(trying.find(field("weight")), text)
        trying.put(trying.find(field("horsepower")), str(power))
        kept = known_fields(trying).get("weight")
        row = {"cylinders": 8, "horsepower": power} | ({"weight": float(kept)} if kept else {})
        wait_for_value(trying, ask(demo_server, "mpg", row)["value"])
        assert not trying.all(".trouble"), text
        assert not re.search(r"NaN|Infinity|undefined|null|\[object", trying.text()), text
    assert not trying.complaints()


def test_a_number_out_of_range_is_answered_with_a_warning(trying):
    trying.find(field("weight")).send_keys("99999")
    trying.wait_for_text("outside", ".warnings")
    assert "row 0" not in trying.text(".warnings")


def test_one_cell_or_all_of_them_are_made_unknown_again(trying, demo_server):
    trying.find(field("weight")).send_keys("3504")
    trying.choose(field("cylinders"), "8")
    trying.click('[aria-label="weight: make it unknown"]')
    assert known_fields(trying) == {"cylinders": "8"}
    wait_for_value(trying, ask(demo_server, "mpg", {"cylinders": 8})["value"])
    trying.click("#clear")
    assert known_fields(trying) == {}
    wait_for_value(trying, ask(demo_server, "mpg", {})["value"])


def test_all_can_be_done_with_the_keyboard_alone(trying, demo_server):
    def tab_to(name: str) -> None:
        for _ in range(40):
            trying.press(Keys.TAB)
            if trying.run(FOCUSED) == name:
                return
        raise AssertionError(f"Tab never came to {name}")

    trying.press(Keys.TAB)
    assert trying.run("return document.activeElement.textContent") == "To the content"
    tab_to("table")
    tab_to("target")
    tab_to("cell-cylinders")
    trying.press("8")
    tab_to("cell-weight")
    trying.press("3000")
    tab_to("weight, slider")
    trying.press(Keys.ARROW_LEFT)
    known = known_fields(trying)
    assert known["cylinders"] == "8"
    assert 2900 < float(known["weight"]) < 3000
    wait_for_value(trying, ask(demo_server, "mpg", {"cylinders": 8, "weight": float(known["weight"])})["value"])
    focused = trying.run("return getComputedStyle(document.activeElement).outlineStyle")
    assert focused != "none"
