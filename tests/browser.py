"""A real browser for the page's tests: Chromium without a window, driven by real keys and clicks.

`python -m tests.browser` installs it where that can be done without asking anybody, else says how.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from selenium import webdriver
from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.select import Select

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
DRIVERS = ("chromedriver",)
PACKAGES = ("chromium", "chromium-driver", "fonts-dejavu-core")
INSTALL = f"apt-get install {' '.join(PACKAGES)}"
# Nothing is fetched, synchronised or reported; a container has neither a sandbox for root nor much /dev/shm.
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage", "--hide-scrollbars",
)  # fmt: skip
# Roles that mean nothing without a name.
NAMED = {
    "button", "checkbox", "combobox", "Date", "DateTime", "image", "img", "link", "listbox", "meter", "progressbar",
    "progressIndicator", "radio", "region", "searchbox", "slider", "spinbutton", "tab", "textbox",
}  # fmt: skip
PATIENCE = 30.0
# A file from elsewhere, dragged over an element and let go.
DROP = """
const [element, name, text] = arguments;
const carried = new DataTransfer();
carried.items.add(new File([text], name));
for (const kind of ["dragenter", "dragover", "drop"])
  element.dispatchEvent(new DragEvent(kind, { dataTransfer: carried, bubbles: true, cancelable: true }));
"""
# Elements may be gone again before anybody looks: the page is told of every change as it is made.
KEEP_TEXTS = """
const [css] = arguments;
window.kept = [];
const look = () => window.kept.push(...[...document.querySelectorAll(css)].map(e => e.textContent));
new MutationObserver(look).observe(document.body, { subtree: true, childList: true, characterData: true });
"""

T = TypeVar("T")


class Browser:
    """One window; ``folder`` takes its profile and what is downloaded."""

    def __init__(self, folder: Path) -> None:
        program, driver = find_programs()
        self.downloads = folder / "downloads"
        self.downloads.mkdir(parents=True)
        options = webdriver.ChromeOptions()
        options.binary_location = str(program)
        for flag in (*FLAGS, f"--user-data-dir={folder / 'profile'}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(executable_path=str(driver)))
        self.tell("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(self.downloads))
        self.look()
        self._n_opened = 0

    def close(self) -> None:
        self.driver.quit()

    def tell(self, command: str, **parameters: Any) -> Any:
        """A command of the DevTools protocol."""
        return self.driver.execute_cdp_cmd(command, parameters)

    def look(self, width: int = 1280, height: int = 900, scheme: str = "light") -> None:
        """From now on through a window of this size, in a light or dark scheme."""
        self.tell("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        # Without motion, or a colour on its way to another would be measured.
        features = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
        self.tell("Emulation.setEmulatedMedia", features=[{"name": k, "value": v} for k, v in features.items()])

    # Going

    def open(self, url: str, view: str = "try") -> None:
        """Load the page anew at one of its views, and wait until it stands still. The console begins here."""
        self.complaints()
        self._n_opened += 1  # or another #view of the same page would be no new page
        self.driver.get(f"{url}/?{self._n_opened}#/{view}")
        self.wait_until_shown()

    def go(self, view: str) -> None:
        """To another view by its link."""
        self.find(f'nav a[href="#/{view}"]').click()
        self.wait_until_shown()

    def wait_until_shown(self) -> None:
        self.wait_for("a view", lambda: self.all("main .view") and not self.all("main .view[aria-busy]"))

    # Looking

    def find(self, css: str) -> WebElement:
        return self.wait_for(css, lambda: self.driver.find_element(By.CSS_SELECTOR, css))

    def all(self, css: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, css)

    def text(self, css: str = "main") -> str:
        return self.find(css).text

    def texts(self, css: str) -> list[str]:
        """The text of every such element, also of one that is scrolled out of sight."""
        script = (
            "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent.replaceAll('\\u00a0', ' '))"
        )
        found: list[str] = self.run(script, css)
        return found

    def keep_texts(self, css: str) -> Callable[[], list[str]]:
        """From now on, whatever such elements say, however shortly; the answer gives all of it."""
        self.run(KEEP_TEXTS, css)
        return lambda: [str(text).replace("\u00a0", " ") for text in self.run("return window.kept")]

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def wait_for(self, what: str, condition: Callable[[], T], seconds: float = PATIENCE) -> T:
        """What the condition gives as soon as that is true; says what was waited for, and what is seen instead."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                if found := condition():
                    return found
            except (NoSuchElementException, StaleElementReferenceException):
                pass
            if time.monotonic() > deadline:
                seen = self.driver.find_element(By.TAG_NAME, "body").text
                raise AssertionError(f"waited in vain for {what}; the page says:\n{seen}\n{self.complaints()}")
            time.sleep(0.03)

    def wait_for_text(self, text: str, css: str = "main") -> None:
        self.wait_for(f"{text!r} in {css}", lambda: text in self.text(css))

    # Doing

    def click(self, css: str) -> None:
        self.find(css).click()

    def press(self, *keys: str) -> None:
        """Keys to whatever has the focus."""
        ActionChains(self.driver).send_keys(*keys).perform()

    def point_at(self, element: WebElement) -> None:
        ActionChains(self.driver).move_to_element(element).perform()

    def drag(self, element: WebElement, right: int) -> None:
        """From its middle by so many pixels."""
        ActionChains(self.driver).move_to_element(element).click_and_hold().move_by_offset(right, 0).release().perform()

    def put(self, element: WebElement, text: str) -> None:
        """Type over what a field holds."""
        element.clear()
        element.send_keys(text)

    def choose(self, css: str, label: str) -> None:
        Select(self.find(css)).select_by_visible_text(label)

    def give_file(self, path: Path) -> None:
        """As from the dialog that the page's file field opens."""
        self.driver.find_element(By.CSS_SELECTOR, "input[type=file]").send_keys(str(path))

    def drop_file(self, css: str, name: str, text: str) -> None:
        self.run(DROP, self.find(css), name, text)

    def wait_for_download(self, name: str) -> bytes:
        path = self.downloads / name
        self.wait_for(f"the download {name}", path.exists)
        content = path.read_bytes()
        path.unlink()
        return content

    # What only the browser knows

    def complaints(self) -> list[str]:
        """Errors and warnings on the console, violations of the page's policy among them; since the last look."""
        entries = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        return [entry["message"] for entry in entries if entry["level"] in ("SEVERE", "WARNING")]

    def requested(self) -> list[str]:
        """All addresses asked for since the page was opened; what its policy forbids is among the complaints."""
        kinds = "[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]"
        found: list[str] = self.run(f"return {kinds}.map(({{ name }}) => name)")
        return found

    def nameless(self) -> list[str]:
        """Controls and pictures that a screen reader could not name: the browser's own tree is asked."""
        nodes = [node for node in self.tell("Accessibility.getFullAXTree")["nodes"] if not node["ignored"]]
        roles = [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in nodes]
        return [role for role, name in roles if role in NAMED and not name.strip()]


def find_programs() -> tuple[str | None, str | None]:
    """Chromium and its driver, where they are."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    return program, next(filter(None, map(shutil.which, DRIVERS)), None)


def is_there() -> bool:
    return all(find_programs())


def install() -> None:
    """By apt-get, if it is there and may be used; else say in one line what to do."""
    if not is_there() and shutil.which("apt-get") and (root := become_root()) is not None:
        print("installing Chromium for the page's tests", flush=True)
        apt = [*root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "-o", "Dpkg::Use-Pty=0"]
        for args in (["update"], ["install", "-y", "--no-install-recommends", *PACKAGES]):
            subprocess.run([*apt, *args], check=False, stdout=subprocess.DEVNULL)
    if not is_there():
        print(f"no Chromium: the page's tests will be skipped. To have them: {INSTALL}", file=sys.stderr)


def become_root() -> list[str] | None:
    """What to put before a command that only root may run; None if there is no way."""
    if os.geteuid() == 0:
        return []
    sudo = ["sudo", "-n"]
    is_able = shutil.which("sudo") and subprocess.run([*sudo, "true"], check=False, capture_output=True).returncode == 0
    return sudo if is_able else None


if __name__ == "__main__":
    install()
