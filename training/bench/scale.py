"""Large tables: time, rows per second and memory of a one-epoch fit, at growing numbers of rows."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from training.figures import Record

N_COLUMNS = 20
ROWS = (250_000, 500_000, 1_000_000)


def run(quick: bool) -> list[Record]:
    """Fit generated tables for one epoch and print what it takes."""
    records = []
    print(f"{'rows':>10} {'format':>8} {'read s':>7} {'fit s':>7} {'rows/s':>8} {'peak RSS MB':>12}")
    with tempfile.TemporaryDirectory() as folder:
        for n_rows in (20_000, 40_000) if quick else ROWS:
            formats = ("parquet", "csv") if n_rows == max(ROWS) or quick else ("parquet",)
            for suffix in formats:
                path = Path(folder) / f"big.{suffix}"
                write_table(path, n_rows)
                facts = _measure(path)
                rate = n_rows / facts["fit"]
                spent = f"{facts['read']:7.1f} {facts['fit']:7.1f}"
                print(f"{n_rows:10,} {suffix:>8} {spent} {rate:8,.0f} {facts['rss']:12,.0f}")
                case = f"{n_rows} x {N_COLUMNS} {suffix}"
                records.append(Record("scale", case, "ours", "fit_seconds", facts["fit"]))
                records.append(Record("scale", case, "ours", "read_seconds", facts["read"]))
                records.append(Record("scale", case, "ours", "rows_per_second", rate))
                records.append(Record("scale", case, "ours", "peak_rss_megabytes", facts["rss"]))
    return records


def write_table(path: Path, n_rows: int) -> None:
    """Fifteen related numbers and five categories, a twentieth of the cells missing; written in pieces."""
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(4, 15))
    writer = None
    for start in range(0, n_rows, 100_000):
        piece = _make_piece(rng, mixing, min(100_000, n_rows - start))
        if writer is None:
            make = pa.parquet.ParquetWriter if path.suffix == ".parquet" else pa.csv.CSVWriter
            writer = make(path, piece.schema)
        writer.write_table(piece)
    if writer is not None:
        writer.close()


def _make_piece(rng: np.random.Generator, mixing: np.ndarray, n_rows: int) -> pa.Table:
    hidden = rng.normal(size=(n_rows, 4))
    numbers = hidden @ mixing + 0.3 * rng.normal(size=(n_rows, 15))
    numbers[rng.random(numbers.shape) < 0.05] = np.nan
    columns = {f"n{j:02d}": pa.array(numbers[:, j], from_pandas=True) for j in range(15)}
    for j in range(5):
        level = np.clip(np.floor(4 + 2 * hidden[:, j % 4] + rng.normal(size=n_rows)), 0, 9).astype(int)
        columns[f"c{j}"] = pa.array(np.asarray([f"w{i}" for i in range(10)])[level])
    return pa.table(columns)


def _measure(path: Path) -> dict[str, float]:
    """Fit in a process of its own, so that its peak memory is its own."""
    answer = subprocess.run(
        [sys.executable, "-m", "training.bench.scale", str(path)], check=True, capture_output=True, text=True
    )
    facts: dict[str, float] = json.loads(answer.stdout.splitlines()[-1])
    return facts


def _fit_once(path: Path) -> dict[str, float]:
    import resource

    from training.family import family_of_paths
    from training.fit import fit_network
    from training.settings import choose_settings
    from training.tables import load_family

    start = time.monotonic()
    dataset = load_family(family_of_paths([path]))
    read = time.monotonic()
    settings = choose_settings("moe", dataset.n_rows, dataset.n_cells, epochs=1)
    fit_network(dataset, settings)
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"read": read - start, "fit": time.monotonic() - read, "rss": rss}


if __name__ == "__main__":
    print(json.dumps(_fit_once(Path(sys.argv[1]))))
