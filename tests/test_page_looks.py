"""What holds for every view, at work: quiet, within the window, readable, and named for those who do not see it."""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.browser import Browser

VIEWS = ("try", "fill", "audit", "features/auto/mtcars", "models")
LOOKS = (Path(__file__).parent / "looks.js").read_text(encoding="utf-8")


@dataclass(frozen=True)
class View:
    """A view at work, and what the browser had to say until then."""

    browser: Browser
    complaints: list[str]
    requested: list[str]


def find_faults(browser: Browser, kind: str) -> list[Any]:
    """By one of the functions of looks.js."""
    found: list[Any] = browser.run(f"{LOOKS} return {kind}()")
    return found


def put_to_work(browser: Browser, name: str, cars: Path) -> None:
    """As a person would leave it: with a row, a file, or two tables in it."""
    if name == "try":
        browser.click("#example")
        browser.wait_for("reasons", lambda: len(browser.all(".falls .bar")) > 5)
    elif name == "fill":
        browser.give_file(cars / "gtcars.csv")
        browser.find("#download")
    elif name == "audit":
        browser.give_file(cars / "gtcars.csv")
        browser.find("#suspects")
    elif name == "models":
        browser.find("#metrics tbody tr")
    else:
        browser.find("#evidence h3")
        browser.find("#heat .cell")


@pytest.fixture(scope="module", params=VIEWS)
def view(request, browser_process, demo_server, cars):
    browser_process.look()
    browser_process.open(demo_server.url, request.param)
    put_to_work(browser_process, request.param, cars)
    return View(browser_process, browser_process.complaints(), browser_process.requested())


def test_nothing_is_on_the_console_and_the_policy_is_kept(view):
    assert not view.complaints


def test_nothing_is_asked_of_another_host(view, demo_server):
    foreign = [url for url in view.requested if not url.startswith((demo_server.url, "data:", "blob:", "about:"))]
    assert view.requested
    assert not foreign


@pytest.mark.parametrize("width", [1280, 768, 360])
def test_the_page_is_never_wider_than_the_window(view, width):
    view.browser.look(width)
    widths = view.browser.run("return [document.documentElement.scrollWidth, innerWidth]")
    assert widths[0] <= widths[1] == width, find_faults(view.browser, "wide")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(view, scheme):
    view.browser.look(scheme=scheme)
    assert find_faults(view.browser, "pale") == []


def test_every_control_and_picture_has_a_name(view):
    assert view.browser.nameless() == []


def test_headings_are_in_order_under_a_single_first(view):
    levels = find_faults(view.browser, "headings")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(below - above <= 1 for above, below in pairwise(levels)), levels


def test_the_view_is_named_in_the_title_and_in_the_navigation(view):
    current = view.browser.texts("nav a[aria-current=page]")
    assert [f"{name} · Tabglot" for name in current] == [view.browser.driver.title]


def test_no_id_is_given_twice(view):
    ids = view.browser.run("return [...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("name", ["try", "features/auto/mtcars"])
def test_on_a_phone_the_letters_of_pictures_keep_their_size_and_are_not_cut_off(browser, demo_server, cars, name):
    browser.look(360, 740)
    browser.open(demo_server.url, name)
    put_to_work(browser, name, cars)
    assert find_faults(browser, "tiny") == []
    assert find_faults(browser, "cut") == []


def test_letters_of_pictures_are_not_cut_off_for_any_kind_of_answer(browser, demo_server):
    browser.open(demo_server.url)
    browser.click("#example")
    for target in ("mpg", "origin", "price_2016", "release_date", "class_epa"):
        browser.choose("#target", target)
        browser.wait_for(target, lambda target=target: browser.text(".answer h2") == target)
        assert find_faults(browser, "cut") == [], target


def test_an_address_that_leads_nowhere_leads_to_the_first_view(browser, demo_server):
    browser.open(demo_server.url, "nowhere")
    assert browser.text("main h1") == "What would it be?"


def test_the_views_are_walked_by_their_links_and_by_the_back_button(browser, demo_server):
    browser.open(demo_server.url)
    for name, title in (("fill", "Fill a file"), ("audit", "Which cells look wrong?"), ("models", "Models")):
        browser.go(name)
        browser.wait_for(title, lambda title=title: browser.text("main h1") == title)
    browser.driver.back()
    browser.wait_for("the view before", lambda: browser.text("main h1") == "Which cells look wrong?")
