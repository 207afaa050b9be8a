"""Training speed: all masks in one pass against one masked copy per column; same network, rows and run."""

import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from model import codec
from model.layout import Layout
from model.network import MoeNetwork, Shape
from model.schema import Feature, Schema
from training.bench.naive import naive_logits
from training.figures import Record
from training.settings import PRESETS

# (columns, rows a step): fewer rows where the naive copies would not fit in memory.
CASES = ((7, 64), (20, 32), (50, 8), (100, 4))
SHAPE = PRESETS["moe"].shape


def run(quick: bool) -> list[Record]:
    """Time training steps both ways and print their ratio."""
    torch.manual_seed(0)
    records = []
    print(f"{'columns':>8} {'rows':>5} {'one pass ms':>12} {'naive ms':>10} {'ratio':>7} {'max |difference|':>17}")
    for n_columns, n_rows in CASES[:2] if quick else CASES:
        network, columns, positions = make_case(n_columns, n_rows)
        with torch.no_grad():
            both = network(columns, positions, columns).logits, naive_logits(network, columns, positions)
        off = float((both[0] - both[1]).abs().max())

        def one_pass(network: MoeNetwork = network, c: Tensor = columns, p: Tensor = positions) -> Tensor:
            logits: Tensor = network(c, p, c).logits
            return logits

        def naive(network: MoeNetwork = network, c: Tensor = columns, p: Tensor = positions) -> Tensor:
            return naive_logits(network, c, p)

        fast, slow = time_steps(network, one_pass, naive)
        print(f"{n_columns:8d} {n_rows:5d} {fast * 1e3:12.2f} {slow * 1e3:10.1f} {slow / fast:6.1f}x {off:17.1e}")
        for method, seconds in (("one_pass", fast), ("naive", slow)):
            records.append(Record("speed", f"{n_columns} columns", method, "step_milliseconds", seconds * 1e3))
        records.append(Record("speed", f"{n_columns} columns", "one_pass", "speedup", slow / fast))
    return records


def make_case(n_columns: int, n_rows: int, shape: Shape = SHAPE) -> tuple[MoeNetwork, Tensor, Tensor]:
    """A network over numeric features, and random rows with a tenth of the cells missing."""
    rng = np.random.default_rng(0)
    bins = codec.fit_bins(rng.normal(size=1000))
    k = len(bins.values)
    schema = Schema(tuple(Feature(f"x{j}", "numeric", bins, shares=(1 / k,) * k) for j in range(n_columns)))
    positions = rng.uniform(0, k - 1, (shape.n_members, n_rows, n_columns)).astype(np.float32)
    positions[rng.random(positions.shape) < 0.1] = np.nan
    return MoeNetwork(Layout([schema], shape.n_members), shape), torch.arange(n_columns), torch.from_numpy(positions)


def time_steps(network: MoeNetwork, *ways: Callable[[], Tensor], seconds: float = 3.0) -> list[float]:
    """The median time of a training step (forward and backward) each way, taken in turns."""
    times: list[list[float]] = [[] for _ in ways]
    end = time.perf_counter() + seconds * len(ways)
    while time.perf_counter() < end or len(times[0]) < 4:
        for way, taken in zip(ways, times, strict=True):
            network.zero_grad()
            start = time.perf_counter()
            way().logsumexp(-1).sum().backward()  # type: ignore[no-untyped-call]
            taken.append(time.perf_counter() - start)
    return [float(np.median(taken[1:])) for taken in times]
