"""Real parts: the demo's real tables, real fits, real files, a real browser; fitted and started once per run."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
import torch

from model import codec
from model.runtime import Predictor
from model.schema import Feature, Schema
from tests.browser import INSTALL, Browser, is_there
from tests.server import ROOT, RunningServer, running
from training.demo import write_demo

# One thread in this process: commands that are started side by side need the other cores.
torch.set_num_threads(1)
# The suite runs in two processes: what they start would fight for the cores with threads of its own.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def make_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """A folder that takes long to make, made once for all processes that run tests side by side."""
    shared = factory.getbasetemp().parent if "PYTEST_XDIST_WORKER" in os.environ else factory.getbasetemp()
    made = shared / f"{name}.made"
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            make(shared / name)
            made.touch()
    return shared / name


@pytest.fixture(scope="session")
def cars(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the demo's eight tables and family.toml."""
    return write_demo(tmp_path_factory.mktemp("cars")).parent


@pytest.fixture(scope="session")
def small_family(cars: Path) -> Path:
    """Three of the demo's tables: shared features, other names, other units."""
    path = cars / "small.toml"
    path.write_text(
        """
name = "small"
[tables.auto]
path = "auto.csv"
ignore = ["rownames", "name"]
[tables.mtcars]
path = "mtcars.csv"
ignore = ["rownames"]
rename = { cyl = "cylinders", disp = "displacement", hp = "horsepower", wt = "weight" }
units = { weight = { scale = 1000 } }
[tables.epa2021]
path = "epa2021.csv"
ignore = ["rownames", "carline", "division", "mfr_code"]
missing = { car_truck = ["??"] }
rename = { city_mpg = "mpg", no_cylinders = "cylinders", engine_displacement = "displacement" }
units = { displacement = { scale = 61.0237 } }
[kinds]
origin = "categorical"
cylinders = "ordinal"
"""
    )
    return path


@pytest.fixture(scope="session")
def small_bundle(small_family: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A quickly fitted bundle over three tables, through the command line."""

    def fit(out: Path) -> None:
        answer = run_training("fit", str(small_family), "--out", str(out), "--epochs", "8")
        assert answer.returncode == 0, answer.stderr

    return make_once(tmp_path_factory, "small", fit)


@pytest.fixture(scope="session")
def predictor(small_bundle: Path) -> Predictor:
    return Predictor.load(small_bundle)


def run_training(*args: str, **options: object) -> subprocess.CompletedProcess[str]:
    """python -m training, as a user runs it."""
    answer: subprocess.CompletedProcess[str] = subprocess.run(
        [sys.executable, "-m", "training", *args], capture_output=True, text=True, check=False, **options
    )  # type: ignore[call-overload]
    return answer


@pytest.fixture
def write_csv(tmp_path: Path) -> Callable[[str, str], Path]:
    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def make_schema(n_numbers: int, n_words: int = 0, seed: int = 0) -> Schema:
    """Number features over random values and category features that share some words."""
    rng = np.random.default_rng(seed)
    features = []
    for j in range(n_numbers):
        bins = codec.fit_bins(rng.gamma(2.0, size=400))
        features.append(Feature(f"n{j}", "numeric", bins, shares=(1 / len(bins.values),) * len(bins.values)))
    for j in range(n_words):
        words = tuple(f"w{i}" for i in range(j, j + 3 + j % 3))
        features.append(Feature(f"c{j}", "categorical", categories=words, shares=(1 / len(words),) * len(words)))
    return Schema(tuple(features))


def make_positions(schema: Schema, n_rows: int, missing: float = 0.2, seed: int = 0) -> np.ndarray:
    """Random cells, (B, F): between knots for numbers, at words for categories."""
    rng = np.random.default_rng(seed)
    columns = []
    for feature in schema.features:
        if feature.is_number:
            columns.append(rng.uniform(0, feature.n_values - 1, n_rows))
        else:
            columns.append(rng.integers(0, feature.n_values, n_rows).astype(float))
    positions = np.stack(columns, axis=1).astype(np.float32)
    positions[rng.random(positions.shape) < missing] = np.nan
    return positions


@pytest.fixture(scope="session")
def server(small_bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A service with the small bundle, for tests that change nothing (or clean up after themselves)."""
    with running(tmp_path_factory.mktemp("service"), "--bundle", str(small_bundle)) as server:
        yield server


@pytest.fixture(scope="session")
def client(server: RunningServer) -> httpx.Client:
    return server.client


@pytest.fixture(scope="session")
def other_bundle(small_family: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same family, fitted with another seed: other answers under the same name."""

    def fit(out: Path) -> None:
        answer = run_training("fit", str(small_family), "--out", str(out), "--epochs", "3", "--seed", "7")
        assert answer.returncode == 0, answer.stderr

    return make_once(tmp_path_factory, "other", fit)


@pytest.fixture(scope="session")
def demo_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which var/bundles/cars is the demo, as after `make run`."""

    def fit(home: Path) -> None:
        home.mkdir()
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        answer = run_training("demo", "--out", "var/bundles/cars", "--quiet", cwd=home, env=environment)
        assert answer.returncode == 0, answer.stderr

    return make_once(tmp_path_factory, "home", fit)


@pytest.fixture(scope="session")
def demo_server(demo_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A service with the demo, for tests that change nothing (but may register tables)."""
    bundle = demo_home / "var" / "bundles" / "cars"
    with running(tmp_path_factory.mktemp("demo"), "--bundle", str(bundle)) as server:
        yield server


@pytest.fixture(scope="session")
def browser_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Without Chromium what needs it is skipped, but not where all tests must have run."""
    if not is_there() and os.environ.get("CI") != "true":
        pytest.skip(f"no Chromium; to have it: {INSTALL}")
    assert is_there(), f"CI must have Chromium: {INSTALL}"
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.close()


@pytest.fixture
def browser(browser_process: Browser) -> Browser:
    """A window as a person has it: wide and light."""
    browser_process.look()
    return browser_process
