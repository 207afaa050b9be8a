"""The service as a whole, started as users start it: throughput beside a route that does nothing, start-up,
switching and stopping under load, and single rows while files are worked on. Loopback only.
"""

import http.client
import io
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from training.bench.load_client import Job, Tally
from training.figures import Record

DEMO = Path("var/bundles/cars")
BODY = json.dumps({"target": "mpg", "rows": [{"cylinders": 8, "weight": 3504, "year": 1970}]})
CONNECTIONS = (1, 8)
FILE_TYPES = {
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
    "arrow": "application/vnd.apache.arrow.stream",
}


def run(quick: bool, bundle: Path | None = None) -> list[Record]:
    """Measure all of it and print a table for each."""
    load = os.getloadavg()
    print(f"load average before: {load[0]:.2f} {load[1]:.2f} {load[2]:.2f}; {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory(prefix="tabglot-bench-") as folder:
        home = Path(folder)
        bundles = _prepare(home, bundle)
        with _service(home, bundles=bundles) as (process, port):
            _pin(process.pid, 0)
            records = _throughput(home, port, rounds=1 if quick else 5)
            records += _bulk(port, 10_000 if quick else 100_000)
            records += _files(port, 20_000 if quick else 200_000)
            records += _hot_swap(port, 3.0 if quick else 30.0)
        records += _start_up(home, 2 if quick else 5)
        for workers in (1, 2):
            records += _stop(home, workers)
    return records


def _prepare(home: Path, bundle: Path | None) -> list[Path]:
    """The bundle to serve, and the demo fitted briefly with another seed: other answers, to switch to."""
    first = bundle or (DEMO if (DEMO / "bundle.json").is_file() else home / "cars")
    fit = [sys.executable, "-m", "training", "demo", "--quiet", "--out"]
    if not (first / "bundle.json").is_file():
        subprocess.run([*fit, str(first)], check=True)
    subprocess.run([*fit, str(home / "other"), "--epochs", "0.5", "--seed", "1"], check=True)
    return [first.absolute(), home / "other"]


@contextmanager
def _service(
    home: Path, *args: str, bundles: Sequence[Path] = (), **settings: str
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The service, its registry and store in ``home``; yields the process and its port."""
    usual = {key: value for key, value in os.environ.items() if not key.startswith("TABGLOT_")}
    place = {"TABGLOT_REGISTRY": f"sqlite:///{home / 'registry.db'}", "TABGLOT_STORE": str(home / "store")}
    port = _free_port()
    command = [sys.executable, "-m", "service", "--port", str(port), *args]
    if bundles:
        command += ["--bundle", *map(str, bundles)]
    with tempfile.TemporaryFile(dir=home) as log:
        process = subprocess.Popen(command, stderr=log, env=usual | place | settings)
        try:
            _wait_until_open(process, port)
            yield process, port
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait(60)


@contextmanager
def _constant_route() -> Iterator[int]:
    """The yardstick, pinned to the core that the service has."""
    port = _free_port()
    process = subprocess.Popen([sys.executable, "-m", "training.bench.constant_route", str(port)])
    try:
        _pin(process.pid, 0)
        _wait_until_open(process, port)
        yield port
    finally:
        process.terminate()
        process.wait(30)


def _free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        return int(free.getsockname()[1])


def _wait_until_open(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.002)
    raise RuntimeError("the server did not start")


def _pin(pid: int, core: int) -> None:
    """Servers on one core, clients on another, where there are two."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1:
        os.sched_setaffinity(pid, {cores[core]})


def _start_client(job: Job) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "training.bench.load_client", json.dumps(asdict(job))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    _pin(process.pid, 1)
    return process


def _finish(client: "subprocess.Popen[str]") -> Tally:
    out, _ = client.communicate(timeout=300)
    return Tally(**json.loads(out))


def _throughput(home: Path, port: int, rounds: int) -> list[Record]:
    """Ours, ours without a log line per request, and the constant, in turns with the same client."""
    records = []
    print(f"\n{'connections':>11} {'':>16} {'requests/s':>10} {'p50 ms':>7} {'p99 ms':>7} {'of constant':>11}")
    with _service(home, TABGLOT_LOG_LEVEL="warning") as (quiet, quiet_port), _constant_route() as constant_port:
        _pin(quiet.pid, 0)
        ports = {"ours": port, "ours_without_log": quiet_port, "constant": constant_port}
        for n in CONNECTIONS:
            for to in ports.values():
                _finish(_start_client(Job(to, BODY, n, 0.5)))  # warm
            taken: dict[str, list[Tally]] = {method: [] for method in ports}
            for _ in range(rounds):
                for method, to in ports.items():
                    taken[method].append(_finish(_start_client(Job(to, BODY, n, 2.0))))
            records += _compare(n, taken)
    return records


def _compare(n: int, taken: dict[str, list[Tally]]) -> list[Record]:
    """Medians over the rounds; ratios within each round, so that what else the machine does falls on both."""
    rates = {method: np.array([t.answered / t.elapsed for t in some]) for method, some in taken.items()}
    records = []
    for method, some in taken.items():
        if any(t.failed or t.lost for t in some):
            raise RuntimeError(f"{method}: requests failed")
        rate, ratio = float(np.median(rates[method])), float(np.median(rates[method] / rates["constant"]))
        low, high = float(np.median([t.p50 for t in some])), float(np.median([t.p99 for t in some]))
        print(f"{n:11d} {method:>16} {rate:10,.0f} {low:7.3f} {high:7.3f} {ratio:11.2f}")
        figures = {"requests_per_second": rate, "p50_milliseconds": low, "p99_milliseconds": high, "ratio": ratio}
        case = f"{n} connections"
        records += [
            Record("serving", case, method, metric, value, seeds=len(some)) for metric, value in figures.items()
        ]
    return records


def _make_table(n_rows: int) -> pa.Table:
    """Rows of the demo's table auto, a tenth of the cells missing."""
    rng = np.random.default_rng(0)
    ranges = {"cylinders": (3, 9), "weight": (1600, 5000), "year": (70, 83), "horsepower": (50, 220), "mpg": (10, 45)}
    missing = rng.random((len(ranges), n_rows)) < 0.1
    columns = {
        name: pa.array(rng.integers(low, high, n_rows), mask=missing[j])
        for j, (name, (low, high)) in enumerate(ranges.items())
    }
    return pa.table(columns)


def _write_as(table: pa.Table, kind: str) -> bytes:
    out = io.BytesIO()
    if kind == "csv":
        pa.csv.write_csv(table, out)
    elif kind == "parquet":
        pa.parquet.write_table(table, out)
    else:
        with pa.ipc.new_stream(out, table.schema) as writer:
            writer.write_table(table)
    return out.getvalue()


def _post(port: int, path: str, content: bytes | str, media_type: str, method: str = "POST") -> bytes:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=300)) as connection:
        connection.request(method, path, content, {"content-type": media_type})
        answer = connection.getresponse()
        body = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"{path}: {answer.status} {body[:500]!r}")
    return body


def _bulk(port: int, n_rows: int) -> list[Record]:
    """Single rows on one connection: alone, and while long requests follow one another."""
    rows = _make_table(n_rows).to_pylist()
    ask = json.dumps({"target": "displacement", "rows": rows})
    csv = _write_as(_make_table(2 * n_rows), "csv")
    cases: dict[str, tuple[str, bytes | str, str] | None] = {
        "alone": None,
        f"beside JSON of {n_rows} rows": ("/predict", ask, "application/json"),
        f"beside CSV of {2 * n_rows} rows": ("/impute?table=auto&columns=mpg,horsepower", csv, "text/csv"),
    }
    print(f"\n{'single rows':>28} {'answers':>8} {'p50 ms':>7} {'p99 ms':>7} {'max ms':>7}")
    records = []
    for case, long in cases.items():
        client = _start_client(Job(port, BODY, 1, 4.0))
        deadline = time.monotonic() + 60
        while long is not None and client.poll() is None and time.monotonic() < deadline:
            _post(port, *long)
        tally = _finish(client)
        print(f"{case:>28} {tally.answered:8,d} {tally.p50:7.2f} {tally.p99:7.2f} {tally.most:7.1f}")
        figures = {"p50_milliseconds": tally.p50, "p99_milliseconds": tally.p99, "max_milliseconds": tally.most}
        records += [
            Record("serving", f"single rows {case}", "ours", metric, value) for metric, value in figures.items()
        ]
    return records


def _files(port: int, n_rows: int) -> list[Record]:
    """Rows per second of a whole file, there and back."""
    table = _make_table(n_rows)
    records = []
    print(f"\n{'impute a file':>14} {'rows':>9} {'seconds':>8} {'rows/s':>9}")
    for kind, media_type in FILE_TYPES.items():
        content = _write_as(table, kind)
        begun = time.perf_counter()
        _post(port, "/impute?table=auto&columns=mpg,horsepower", content, media_type)
        seconds = time.perf_counter() - begun
        print(f"{kind:>14} {n_rows:9,} {seconds:8.2f} {n_rows / seconds:9,.0f}")
        records.append(Record("serving", f"impute {kind} {n_rows}", "ours", "rows_per_second", n_rows / seconds))
    return records


def _hot_swap(port: int, seconds: float) -> list[Record]:
    """Eight clients while the active model is switched back and forth."""
    refs = [entry["model"] for entry in json.loads(_post(port, "/models", "", "application/json", "GET"))["models"]]
    expect = {}
    for ref in refs:
        answer = json.loads(_post(port, "/predict", json.dumps({**json.loads(BODY), "model": ref}), "application/json"))
        expect[ref] = answer["predictions"][0]["value"]
    client = _start_client(Job(port, BODY, 8, seconds, expect))
    n_switches = 0
    deadline = time.monotonic() + 2 * seconds + 30
    while client.poll() is None and time.monotonic() < deadline:
        ref = refs[n_switches % len(refs)]
        _post(port, "/models/active", json.dumps({"model": ref}), "application/json", "PUT")
        n_switches += 1
        time.sleep(0.3)
    tally = _finish(client)
    figures = {"answers": tally.answered, "errors": tally.failed + tally.lost, "mixed": tally.mixed}
    figures["switches"] = n_switches
    print(f"\nhot swap, 8 clients, {seconds:.0f} s: " + ", ".join(f"{v:,} {k}" for k, v in figures.items()))
    return [Record("serving", "hot swap", "ours", metric, float(value)) for metric, value in figures.items()]


def _start_up(home: Path, n: int) -> list[Record]:
    """Seconds from starting the process to the first answer; the model is published already."""
    times = []
    for _ in range(n):
        begun = time.perf_counter()
        with _service(home) as (_, port):
            _post(port, "/predict", BODY, "application/json")
            times.append(time.perf_counter() - begun)
    print(
        f"\nfirst answer: {np.median(times):.2f} s after the start (median of {n}; {min(times):.2f}-{max(times):.2f})"
    )
    return [Record("serving", "start", "ours", "first_answer_seconds", float(np.median(times)), seeds=n)]


def _stop(home: Path, workers: int) -> list[Record]:
    """SIGTERM while eight clients ask: what was sent must be answered."""
    with _service(home, "--workers", str(workers)) as (process, port):
        _post(port, "/predict", BODY, "application/json")
        client = _start_client(Job(port, BODY, 8, 30.0, until_closed=True))
        timer = threading.Timer(2.0, process.send_signal, [signal.SIGTERM])
        timer.start()
        tally = _finish(client)
        code = process.wait(60)
    figures = {"answers": tally.answered, "errors": tally.failed, "lost": tally.lost, "exit_code": code}
    print(f"stopped under load, workers {workers}: " + ", ".join(f"{v:,} {k}" for k, v in figures.items()))
    case = f"SIGTERM, workers {workers}"
    return [Record("serving", case, "ours", metric, float(value)) for metric, value in figures.items()]
