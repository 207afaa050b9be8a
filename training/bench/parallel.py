"""torchrun with two processes against one: the same held-out scores within the noise of the seed."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from training.bench.scale import write_table
from training.figures import Record


def run(quick: bool) -> list[Record]:
    """Fit the same table with 1 and 2 processes, several seeds, and print the held-out scores."""
    seeds = range(1 if quick else 4)
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.parquet"
        write_table(table, 2_000 if quick else 6_000)
        scores = {n: np.array([_score(table, n, seed, Path(folder)) for seed in seeds]) for n in (1, 2)}
    print(f"{'processes':>10} {'mean NRMSE':>11} {'stderr':>8} {'mean accuracy':>14} {'stderr':>8}")
    records = []
    for n, values in scores.items():
        mean, error = values.mean(axis=0), values.std(axis=0) / max(1, len(values) - 1) ** 0.5
        print(f"{n:10d} {mean[0]:11.4f} {error[0]:8.4f} {mean[1]:14.4f} {error[1]:8.4f}")
        for i, metric in enumerate(("nrmse", "accuracy")):
            case = f"{n} processes"
            records.append(Record("parallel", case, "ours", metric, float(mean[i]), float(error[i]), len(values)))
    return records


def _score(table: Path, n_processes: int, seed: int, folder: Path) -> tuple[float, float]:
    """Mean held-out RMSE relative to the trivial guess, and mean accuracy."""
    out = folder / f"bundle-{n_processes}-{seed}"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(n_processes)]
    command = ["-m", "training", "fit", str(table), "--out", str(out), "--seed", str(seed), "--threads", "1", "--quiet"]
    subprocess.run([*launcher, *command], check=True, capture_output=True)
    metrics = json.loads((out / "bundle.json").read_text())["metrics"]
    numbers = [m["value"] / m["trivial"] for m in metrics if m["metric"] == "rmse"]
    words = [m["value"] for m in metrics if m["metric"] == "accuracy"]
    return float(np.mean(numbers)), float(np.mean(words))
