"""Pictures of the page for docs/screens, its weight, and how long a person waits for an answer: make screenshots."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from selenium.webdriver.common.keys import Keys

from service.routes.page import FOLDER, HOME
from tests.browser import Browser
from tests.server import ROOT, RunningServer, running
from tests.test_page_audit import write_planted
from tests.test_page_fill import write_holes
from training.demo import write_demo

SCREENS = ROOT / "docs" / "screens"
BUNDLE = ROOT / "var" / "bundles" / "cars"
N_LOADS = 9
N_MOVES = 30
# When the first answer was there, in ms since the navigation began; and how long after each change the next one was.
STOPWATCH = """
window.waits = [];
let changed = null;
addEventListener("input", ({ timeStamp }) => (changed ??= timeStamp), true);
new MutationObserver(() => {
  if (!document.querySelector("#value")) return;
  window.first ??= performance.now();
  if (changed !== null) window.waits.push(performance.now() - changed);
  changed = null;
}).observe(document, { childList: true, subtree: true });
"""


@contextmanager
def set_up() -> Iterator[tuple[RunningServer, Browser, Path]]:
    """The demo, an older version of it, a browser, and a folder with files to drop."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        fit_demo(folder / "older", "--epochs", "3")
        if not BUNDLE.exists():
            fit_demo(BUNDLE)
        cars = write_demo(folder / "cars").parent
        write_holes(folder / "cars.csv", cars)
        write_planted(folder / "suspect.csv", cars)
        with running(folder / "service", "--bundle", str(folder / "older"), str(BUNDLE), "--name", "cars") as server:
            server.client.put("/models/active", json={"model": "cars@2"}).raise_for_status()
            browser = Browser(folder / "browser")
            try:
                yield server, browser, folder
            finally:
                browser.close()


def fit_demo(out: Path, *options: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(
        [sys.executable, "-m", "training", "demo", "--out", str(out), "--quiet", *options], env=environment, check=True
    )


# Pictures


def try_it(browser: Browser, folder: Path) -> None:
    browser.click("#example")
    browser.wait_for("reasons", lambda: len(browser.all(".falls .bar")) > 5)


def fill(browser: Browser, folder: Path) -> None:
    browser.give_file(folder / "cars.csv")
    browser.find("#download")


def audit(browser: Browser, folder: Path) -> None:
    browser.give_file(folder / "suspect.csv")
    browser.find("#suspects li")


def point_out(browser: Browser, folder: Path) -> None:
    browser.point_at(browser.find('.point[data-feature="displacement"]'))
    browser.find(".near-lines line")


def match(browser: Browser, folder: Path) -> None:
    browser.find("#evidence h3")


def stand_still(browser: Browser, folder: Path) -> None:
    browser.find("#metrics tbody tr")


# Name, view, what is done there, width, height, scheme.
PICTURES: tuple[tuple[str, str, Callable[[Browser, Path], None], int, int, str], ...] = (
    ("try", "try", try_it, 1280, 880, "light"),
    ("fill", "fill", fill, 1280, 800, "light"),
    ("audit", "audit", audit, 1280, 660, "light"),
    ("features", "features", point_out, 1280, 840, "light"),
    ("matches", "features/mpg/epa2012", match, 1280, 880, "light"),
    ("models", "models", stand_still, 1280, 800, "light"),
    ("dark", "features", point_out, 1280, 840, "dark"),
    ("narrow", "try", try_it, 360, 1100, "light"),
)


def take_pictures(server: RunningServer, browser: Browser, folder: Path) -> None:
    SCREENS.mkdir(parents=True, exist_ok=True)
    for name, view, act, width, height, scheme in PICTURES:
        browser.look(width, height, scheme)
        browser.open(server.url, view)
        act(browser, folder)
        path = SCREENS / f"{name}.png"
        browser.driver.save_screenshot(str(path))
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1000:.0f} kB")
    browser.look()


# Figures


def print_weight(server: RunningServer, browser: Browser) -> None:
    """Every file as it is and as it is sent; and what the first view needs of it."""
    browser.open(server.url)
    needed = {HOME} | {url.rpartition("/page/")[2] for url in browser.requested()}
    print("\n| | files | sent (gzip), kB | unpacked, kB |\n|---|---|---|---|")
    sizes = {path.name: weigh(server, path.name) for path in sorted(FOLDER.iterdir())}
    for kind in (".html", ".css", ".js", ".svg"):
        print_line(kind.removeprefix("."), [size for name, size in sizes.items() if name.endswith(kind)])
    print_line("all", list(sizes.values()))
    print_line("of these for the first answer", [size for name, size in sizes.items() if name in needed])


def weigh(server: RunningServer, name: str) -> tuple[int, int]:
    path = "/" if name == HOME else f"/page/{name}"
    with server.client.stream("GET", path, headers={"accept-encoding": "gzip"}) as answer:
        sent = sum(map(len, answer.iter_raw()))
    return sent, (FOLDER / name).stat().st_size


def print_line(name: str, sizes: list[tuple[int, int]]) -> None:
    sent, unpacked = (sum(column) / 1000 for column in zip(*sizes, strict=True))
    print(f"| {name} | {len(sizes)} | {sent:.1f} | {unpacked:.1f} |")


def print_waits(server: RunningServer, browser: Browser) -> None:
    """From the navigation to the first answer, nothing cached; and from the move of a slider to the next."""
    browser.tell("Page.addScriptToEvaluateOnNewDocument", source=STOPWATCH)
    firsts = []
    for _ in range(N_LOADS):
        browser.tell("Network.clearBrowserCache")
        browser.open(server.url)
        firsts.append(browser.wait_for("the first answer", lambda: browser.run("return window.first ?? null")))
    slider = browser.find('[aria-label="weight, slider"]')
    browser.click("#example")
    for n_answers in range(1, N_MOVES + 1):
        slider.send_keys(Keys.ARROW_RIGHT)
        wait_for_answers(browser, n_answers)
    waits = browser.run("return window.waits")
    print("\n| | median, ms | from | to |\n|---|---|---|---|")
    for name, times in (
        (f"first answer, {N_LOADS} cold loads", firsts),
        (f"slider to answer, {len(waits)} moves", waits),
    ):
        print(f"| {name} | {median(times):.0f} | {min(times):.0f} | {max(times):.0f} |")


def wait_for_answers(browser: Browser, n: int) -> None:
    browser.wait_for(f"answer {n}", lambda: browser.run("return window.waits.length >= arguments[0]", n))


if __name__ == "__main__":
    with set_up() as (server, browser, folder):
        take_pictures(server, browser, folder)
        print_weight(server, browser)
        print_waits(server, browser)
