"""The page where it is not open to everybody, or has nothing to show yet."""

import pytest
from selenium.webdriver.common.keys import Keys

from tests.server import RunningServer, running

KEY = "page-key-66"
VIEWS = ("try", "fill", "audit", "features", "models")


@pytest.fixture(scope="module")
def locked(demo_server, tmp_path_factory):
    """The demo, for those who have a key."""
    shared = {name: demo_server.environment[name] for name in ("TABGLOT_REGISTRY", "TABGLOT_STORE")}
    with running(tmp_path_factory.mktemp("locked"), TABGLOT_API_KEYS=KEY, **shared) as server:
        yield server


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """A service without a model."""
    server = RunningServer(tmp_path_factory.mktemp("empty"))
    yield server
    server.stop()


@pytest.fixture
def asked(browser, locked):
    """A stranger's browser: the page has asked for a key."""
    browser.driver.get(locked.url)
    browser.run("sessionStorage.clear()")
    browser.driver.get("about:blank")
    browser.driver.get(locked.url)
    browser.wait_for("the dialog", lambda: browser.all("dialog[open]"))
    return browser


def enter(browser, key: str) -> None:
    browser.wait_for("a field for the key", lambda: browser.run("return document.activeElement.id") == "key-text")
    browser.press(key, Keys.ENTER)


def test_the_page_asks_for_a_key_and_shows_nothing_before(asked):
    assert "A key is needed" in asked.text("dialog")
    assert asked.find("#key-text").get_attribute("type") == "password"
    assert "cars@1" not in asked.driver.find_element("tag name", "body").text


def test_a_wrong_key_is_refused_with_a_word_and_the_right_one_works(asked):
    enter(asked, "wrong")
    asked.wait_for_text("did not accept", "dialog")
    enter(asked, KEY)
    asked.wait_for("an answer", lambda: asked.all("#value"))
    asked.wait_for_text("Serving cars@1", ".serving")
    assert not asked.all("dialog[open]")


def test_a_key_is_kept_for_this_tab_and_never_in_the_address(asked):
    enter(asked, KEY)
    asked.wait_for("an answer", lambda: asked.all("#value"))
    asked.driver.refresh()
    asked.wait_for("an answer", lambda: asked.all("#value"))
    assert not asked.all("dialog[open]")
    assert asked.find("#key").is_displayed()
    assert KEY not in "".join(asked.requested())
    assert asked.run("return localStorage.length + document.cookie.length") == 0


@pytest.mark.parametrize("how", ["button", "escape"])
def test_who_gives_no_key_is_told_why_there_is_nothing_and_can_try_again(asked, how):
    if how == "button":
        asked.click('dialog button[value="cancel"]')
    else:
        asked.press(Keys.ESCAPE)
    asked.wait_for_text("A key is needed")
    asked.find("main button").click()
    enter(asked, KEY)
    asked.wait_for("an answer", lambda: asked.all("#value"))


@pytest.mark.parametrize("view", VIEWS)
def test_without_a_model_every_view_says_so_in_words(browser, empty, view):
    browser.open(empty.url, view)
    assert browser.text("main h1")
    assert "no model" in browser.text().lower()
    assert "publish" in browser.text().lower()
    assert "No model is active" in browser.text(".serving")
