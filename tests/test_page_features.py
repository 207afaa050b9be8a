"""The view Features: the map, a feature's neighbours, two tables side by side, and the heat map."""

from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys

from tests.browser import Browser

LEFT, RIGHT = "auto", "mtcars"


@pytest.fixture
def mapped(browser, demo_server):
    browser.open(demo_server.url, "features")
    return browser


@pytest.fixture
def compared(browser, demo_server):
    browser.open(demo_server.url, f"features/{LEFT}/{RIGHT}")
    browser.find("#matches .pair[data-left]")
    return browser


def nearest_of(server, feature: str) -> list[str]:
    answer = server.client.get("/encodings/similar", params={"feature": feature, "k": 5}).json()
    return [one["feature"] for one in answer["similar"]]


def find_matches(server, names: str, least: float) -> dict[str, Any]:
    asked = {"left": LEFT, "right": RIGHT, "names": names, "least": least}
    return dict(server.client.get("/encodings/matches", params=asked).json())


def told_neighbours(browser: Browser) -> list[str]:
    return browser.texts("#card .nearest button")


# The map


def test_every_feature_lies_on_the_map(mapped, demo_server):
    points = demo_server.client.get("/encodings/map").json()["points"]
    drawn = {mark.get_attribute("data-feature") for mark in mapped.all("#map .point")}
    assert drawn == {point["feature"] for point in points}
    inside = """const box = document.querySelector('#map').getBoundingClientRect();
    return [...document.querySelectorAll('#map .point')].every(p => { const b = p.getBoundingClientRect();
      return b.left >= box.left && b.right <= box.right && b.top >= box.top && b.bottom <= box.bottom; })"""
    assert mapped.run(inside)


def test_pointing_at_a_feature_tells_its_neighbours(mapped, demo_server):
    mapped.point_at(mapped.find('.point[data-feature="price_1978"]'))
    mapped.wait_for("its card", lambda: mapped.text("#card h3") == "price_1978")
    assert told_neighbours(mapped) == nearest_of(demo_server, "price_1978")
    assert len(mapped.all(".near-lines line")) == 5


def test_the_keyboard_walks_over_the_map(mapped, demo_server):
    for _ in range(40):
        mapped.press(Keys.TAB)
        if mapped.run("return document.activeElement.classList.contains('point')"):
            break
    begun = mapped.wait_for("a card", lambda: mapped.text("#card h3"))
    mapped.press(Keys.HOME)
    first = mapped.wait_for("the first name", lambda: mapped.text("#card h3") != begun and mapped.text("#card h3"))
    assert first == min(told["feature"] for told in demo_server.client.get("/encodings/map").json()["points"])
    assert told_neighbours(mapped) == nearest_of(demo_server, first)
    assert mapped.run("return document.activeElement.dataset.feature") == first
    mapped.press(Keys.ARROW_RIGHT)
    mapped.wait_for("another", lambda: mapped.text("#card h3") != first)


def test_features_are_found_by_searching_the_list(mapped):
    mapped.find("#search").send_keys("price numeric")
    mapped.wait_for("prices", lambda: len(mapped.all("#features tbody tr")) == 5)
    assert all("price" in name for name in mapped.texts("#features tbody th"))
    mapped.click('#features tr[data-feature="price_low"] button')
    mapped.wait_for("its card", lambda: mapped.text("#card h3") == "price_low")


# Two tables


def test_two_tables_are_chosen_by_clicks_and_then_stand_in_the_address(mapped):
    for table in (LEFT, RIGHT):
        mapped.click(f'#tables [data-table="{table}"]')
    mapped.find("#matches .pair[data-left]")
    assert mapped.driver.current_url.endswith(f"#/features/{LEFT}/{RIGHT}")
    pressed = [chip.get_attribute("data-table") for chip in mapped.all('#tables [aria-pressed="true"]')]
    assert sorted(pressed) == [LEFT, RIGHT]


def test_columns_that_mean_the_same_are_paired_with_how_sure_that_is(compared, demo_server):
    asked = {"left": LEFT, "right": RIGHT, "names": "true", "least": 0.5}
    told = demo_server.client.get("/encodings/matches", params=asked).json()
    pairs = [
        (b.get_attribute("data-left"), b.get_attribute("data-right")) for b in compared.all("#matches button.pair")
    ]
    assert pairs == [(one["left"], one["right"]) for one in told["matches"]]
    assert {("weight", "wt"), ("horsepower", "hp")} <= set(pairs)
    assert compared.texts("#matches .sure")[: len(pairs)] == [
        f"{100 * one['similarity']:.0f} %" for one in told["matches"]
    ]
    assert compared.texts("#unmatched-left .tag") == told["unmatched"]["left"]
    assert compared.texts("#unmatched-right .tag") == told["unmatched"]["right"]


def test_a_pair_that_had_to_be_found_out_shows_its_evidence(compared, demo_server):
    compared.find("#names").click()
    compared.find("#least").send_keys(Keys.HOME)
    compared.wait_for("likely pairs", lambda: compared.text("#compare output") == "0 %")
    compared.wait_for("an answer", lambda: not compared.all("#matches[aria-busy]"))
    asked = {"left": LEFT, "right": RIGHT, "names": "false", "least": 0}
    found = [
        m for m in demo_server.client.get("/encodings/matches", params=asked).json()["matches"] if m["similarity"] < 1
    ]
    pair = found[0]
    compared.click(f'#matches [data-left="{pair["left"]}"][data-right="{pair["right"]}"]')
    assert compared.text("#evidence h3") == f"{pair['left']} and {pair['right']}"
    shown = {bar.get_attribute("data-evidence") for bar in compared.all("#evidence .proof")}
    assert shown == {name for name, value in pair["evidence"].items() if isinstance(value, int | float)}


def test_a_shared_feature_needs_no_evidence(compared):
    compared.click('#matches [data-left="weight"][data-right="wt"]')
    assert "the same feature" in compared.text("#evidence")


# The heat map


def test_the_heat_map_has_a_cell_for_every_pair_and_tells_it(compared, demo_server):
    tables = {one["table"]: one["columns"] for one in demo_server.client.get("/schemas").json()["tables"]}
    cells = compared.all("#heat .cell")
    assert len(cells) == len(tables[LEFT]) * len(tables[RIGHT])
    compared.run("arguments[0].scrollIntoView({ block: 'center' })", cells[3])
    compared.point_at(cells[3])
    compared.wait_for_text(" and ", "#heat-reading")
    told = compared.text("#heat-reading")
    assert cells[3].accessible_name == told
    names = told.partition(":")[0].split(" and ")
    assert names[0] in tables[LEFT]
    assert names[1] in tables[RIGHT]


def test_the_keyboard_walks_over_the_heat_map(compared):
    compared.run("document.querySelector('#heat .cell[tabindex=\"0\"]').focus()")
    first = compared.text("#heat-reading")
    compared.press(Keys.ARROW_DOWN)
    compared.wait_for("the next", lambda: compared.text("#heat-reading") != first)
    compared.press(Keys.ARROW_UP)
    compared.wait_for("the first again", lambda: compared.text("#heat-reading") == first)
