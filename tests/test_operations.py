"""What an operator relies on: errors of one shape, ids, keys, logs, metrics, probes, workers, settings."""

import contextlib
import hashlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from service import shapes
from tests.server import ROOT, RunningServer, run_service, running, service_environment

pytestmark = pytest.mark.alone

ROW = {"cylinders": 8, "weight": 3504}
ASK = {"target": "mpg", "rows": [ROW]}
KEY, HASHED_KEY, ORIGIN = "first-key-77", "second-key-88", "https://page.example"


@pytest.fixture(scope="module")
def keyed(small_bundle, tmp_path_factory):
    """A service with two keys, one of them known by its hash only, that a page may call."""
    keys = f"{KEY}, sha256:{hashlib.sha256(HASHED_KEY.encode()).hexdigest()}"
    home = tmp_path_factory.mktemp("keyed")
    with running(home, "--bundle", str(small_bundle), TABGLOT_API_KEYS=keys, TABGLOT_CORS_ORIGINS=ORIGIN) as server:
        yield server
        server.client.close()  # a connection that is kept open would be waited for


@pytest.fixture(scope="module")
def workers(small_bundle, tmp_path_factory):
    """A service of two processes."""
    home = tmp_path_factory.mktemp("workers")
    with running(home, "--workers", "2", "--bundle", str(small_bundle)) as server:
        yield server
        server.client.close()  # a connection that is kept open would be waited for


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """A service without a model, open to the network and without keys."""
    server = RunningServer(tmp_path_factory.mktemp("empty"), "--host", "0.0.0.0")
    try:
        yield server
    finally:
        server.stop()


def connect(server: RunningServer) -> http.client.HTTPConnection:
    address = urlsplit(server.url)
    return http.client.HTTPConnection(str(address.hostname), address.port, timeout=60)


def ask_anew(server: RunningServer, path: str = "/predict", method: str = "POST") -> int:
    """One request on a connection of its own."""
    with contextlib.closing(connect(server)) as connection:
        connection.request(method, path, json.dumps(ASK), {"content-type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        return answer.status


def check_problem(answer: httpx.Response, status: int, path: str) -> shapes.ProblemDetails:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-request-id"]
    problem = msgspec.convert(answer.json(), shapes.ProblemDetails)
    assert (problem.status, problem.instance) == (status, path)
    assert problem.type.startswith("urn:tabglot:problem:")
    assert problem.title
    assert problem.detail
    assert answer.json()["request_id"] == answer.headers["x-request-id"]
    assert "Traceback" not in answer.text
    return problem


# Errors


@pytest.mark.parametrize(
    ("method", "path", "status", "options"),
    [
        ("GET", "/nowhere", 404, {}),
        ("GET", "/schemas/nowhere", 404, {}),
        ("GET", "/%00%ff/../x", 404, {}),
        ("GET", "/predict", 405, {}),
        ("DELETE", "/models", 405, {}),
        ("POST", "/predict", 400, {"content": b"{"}),
        ("POST", "/predict", 415, {"content": b"x", "headers": {"content-type": "text/plain"}}),
        ("POST", "/models", 415, {"content": b"x", "headers": {"content-type": "text/plain"}}),
        ("POST", "/impute", 406, {"json": {"rows": [ROW]}, "headers": {"accept": "image/png"}}),
        ("POST", "/predict", 422, {"json": {"target": "mpg", "rows": [{"weight": "heavy"}]}}),
        ("GET", "/encodings/similar?feature=weight&k=many", 422, {}),
        ("POST", "/predict", 413, {"content": bytes((16 << 20) + 1)}),
        ("POST", "/predict", 404, {"json": ASK | {"model": "nobody"}}),
    ],
)
def test_every_error_has_one_shape(client, method, path, status, options):
    answer = client.request(method, path, **options)
    check_problem(answer, status, answer.request.url.path)


def test_without_a_model_answers_are_503_and_say_what_to_do(empty):
    for method, path in (("POST", "/predict"), ("GET", "/encodings"), ("GET", "/models/active")):
        answer = empty.client.request(method, path, json=ASK)
        assert "publish" in check_problem(answer, 503, path).detail


def read_answer(connection: socket.socket) -> tuple[int, bytes]:
    """All that comes until the other side closes."""
    content = b""
    with contextlib.suppress(ConnectionError):
        while piece := connection.recv(65536):
            content += piece
    return int(content.split(b" ", 2)[1]), content


@pytest.mark.parametrize("path", ["/predict", "/audit", "/v2/models/small/infer"])
def test_a_body_without_a_length_is_counted_and_cut_off(server, path):
    """The bytes come in chunks and never end: the answer comes first, and the connection is closed."""
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), 30) as connection:
        head = (
            f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        connection.sendall(head.encode())
        chunk = b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
        sent = 0
        with contextlib.suppress(ConnectionError):
            for _ in range(64):
                connection.sendall(chunk)
                sent += 1
        status, content = read_answer(connection)
    assert status == 413
    assert b"application/problem+json" in content
    assert b"x-request-id" in content


def test_a_length_beyond_the_limit_is_refused_before_the_body_comes(server):
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), 30) as connection:
        connection.sendall(b"POST /predict HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999999\r\n\r\n")
        assert read_answer(connection)[0] == 413
    assert ask_anew(server) == 200


# Request ids


@pytest.mark.parametrize("given", ["abc-123", "a" * 128, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"])
def test_a_sane_request_id_comes_back(client, given):
    for path in ("/health/live", "/nowhere", "/docs", "/"):
        assert client.get(path, headers={"x-request-id": given}).headers["x-request-id"] == given


@pytest.mark.parametrize("given", ["", "a" * 129, "two words", '"><script>', "ü".encode(), b"\xff"])
def test_any_other_request_id_is_replaced(client, given):
    told = client.get("/health/live", headers={b"x-request-id": given}).headers["x-request-id"]
    assert told != given
    assert len(told) == 24


def test_every_answer_has_an_id_of_its_own(client):
    ids = {client.post("/predict", json=ASK).headers["x-request-id"] for _ in range(20)}
    assert len(ids) == 20


# Keys and origins


def with_key(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def test_without_a_valid_key_everything_but_health_is_401(keyed):
    with httpx.Client(base_url=keyed.url) as stranger:
        document = httpx.get(keyed.url + "/openapi.json", headers=with_key(KEY)).json()
        asked = [(m, p) for p, methods in document["paths"].items() for m in methods] + [("get", "/nowhere")]
        asked += [("get", "/docs"), ("get", "/openapi.json"), ("get", "/health/live/"), ("get", "/health/../models")]
        for method, path in asked:
            for headers in ({}, with_key("wrong"), {"authorization": f"Basic {KEY}"}, {"authorization": KEY}):
                answer = stranger.request(method, path, headers=headers)
                if path in ("/health/live", "/health/ready", "/v2/health/live", "/v2/health/ready"):
                    assert answer.status_code == 200
                    break
                check_problem(answer, 401, answer.request.url.path)
                assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("key", [KEY, HASHED_KEY])
def test_any_of_the_keys_opens(keyed, key):
    assert keyed.client.post("/predict", json=ASK, headers=with_key(key)).status_code == 200


def test_the_hash_of_a_key_is_no_key(keyed):
    digest = hashlib.sha256(HASHED_KEY.encode()).hexdigest()
    for key in (digest, f"sha256:{digest}"):
        assert keyed.client.get("/models", headers=with_key(key)).status_code == 401


def preflight(server: RunningServer, origin: str) -> httpx.Response:
    headers = {
        "origin": origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type",
    }
    return httpx.options(server.url + "/predict", headers=headers)


def test_other_origins_are_off_by_default(server):
    assert preflight(server, ORIGIN).status_code == 405
    answer = server.client.post("/predict", json=ASK, headers={"origin": ORIGIN})
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_an_allowed_origin_may_ask_first_without_a_key_and_can_read_refusals(keyed):
    answer = preflight(keyed, ORIGIN)
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, ORIGIN)
    assert "authorization" in answer.headers["access-control-allow-headers"]
    refused = httpx.post(keyed.url + "/predict", json=ASK, headers={"origin": ORIGIN})
    assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, ORIGIN)
    assert "access-control-allow-origin" not in preflight(keyed, "https://other.example").headers


def test_the_service_listens_on_loopback_unless_told_otherwise_and_warns_then(server, empty):
    assert urlsplit(server.url).hostname == "127.0.0.1"
    assert not [entry for entry in server.logs() if entry["level"] == "warning" and "network" in str(entry["event"])]
    assert [entry["host"] for entry in empty.logs() if "without a key" in str(entry["event"])] == ["0.0.0.0"]


# Logs


def test_logs_are_json_lines_without_cells_queries_or_keys(keyed):
    mark = "zebra"
    asked = [
        keyed.client.post("/predict", json={"target": "mpg", "rows": [{"weight": f"{mark}1"}]}),
        keyed.client.post("/predict", json={"target": "origin", "rows": [{"origin": f"{mark}2", "weight": 4711.25}]}),
        keyed.client.post("/predict", content=f'{{"rows": {mark}3'.encode()),
        keyed.client.post("/predict", json={f"{mark}4": 1}),
        keyed.client.post(
            "/impute?table=auto", content=f"weight,mpg\n{mark}5,\n", headers={"content-type": "text/csv"}
        ),
        keyed.client.get(f"/encodings/analogy?a=origin={mark}6&b=origin=1&c=origin=2"),
        keyed.client.get("/models", headers=with_key(f"{mark}7")),
        keyed.client.get("/models", headers={"x-request-id": f"{mark} 8"}),
        keyed.client.post("/audit", json={"rows": [{"weight": f"{mark}9"}]}),
    ]
    assert keyed.client.get("/health/live").status_code == 200  # what came before is written by now
    time.sleep(0.1)
    lines = (keyed.home / "log.txt").read_text().splitlines()
    entries = [json.loads(line) for line in lines]
    assert all({"time", "level", "event"} <= set(entry) for entry in entries)
    text = "\n".join(lines)
    for secret in (mark, "4711.25", KEY, HASHED_KEY, "analogy?"):
        assert secret not in text
    by_id = {entry.get("request_id"): entry for entry in entries}
    for answer in asked:
        entry = by_id[answer.headers["x-request-id"]]
        assert (entry["event"], entry["status"]) == ("request", answer.status_code)
        assert entry["path"] == answer.request.url.path
        assert entry["milliseconds"] > 0


def test_a_log_that_nobody_reads_any_more_stops_nothing(small_bundle, tmp_path):
    command = [sys.executable, "-m", "service", "--port", "0", "--bundle", str(small_bundle)]
    environment = service_environment(tmp_path)
    environment.pop("PYTHONUNBUFFERED", None)  # what Python keeps to write later fails again at exit
    with subprocess.Popen(command, stderr=subprocess.PIPE, cwd=tmp_path, env=environment) as process:
        assert process.stderr is not None
        first = json.loads(process.stderr.readline())
        process.stderr.readline()  # the model is active
        process.stderr.close()
        try:
            with httpx.Client(base_url=first["address"]) as client:
                answers = [client.post("/predict", json=ASK) for _ in range(3)]
            assert [answer.status_code for answer in answers] == [200, 200, 200]
            assert not [answer for answer in answers if answer.headers.get("connection") == "close"]
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_what_is_logged_to_nobody_does_not_change_how_the_service_ends(tmp_path):
    """Whatever is said last, at any level, with nobody there to read it."""
    say = "import logging, service.logs as l; l.set_up_logs('info'); input(); logging.getLogger('tabglot').warning('!')"
    command = [sys.executable, "-c", say]
    environment = service_environment(tmp_path)
    environment.pop("PYTHONUNBUFFERED", None)  # what Python keeps to write later fails again at exit
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stderr=pipe, cwd=tmp_path, env=environment) as process:
        assert process.stderr is not None
        process.stderr.close()
        process.communicate(b"\n")
        assert process.returncode == 0


# Metrics


def read_metrics(server: RunningServer) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """All samples, from whichever process takes a new connection."""
    answer = httpx.get(server.url + "/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    families = text_string_to_metric_families(answer.text)
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


def count_predicts(server: RunningServer) -> tuple[float, float]:
    """Answers to /predict as the counter and as the histogram have it."""
    samples = read_metrics(server)
    labels = {("method", "POST"), ("route", "/predict"), ("status", "200")}
    counted = samples.get(("tabglot_requests_total", frozenset(labels)), 0)
    return counted, samples.get(("tabglot_request_seconds_count", frozenset({("route", "/predict")})), 0)


def test_metrics_count_right_over_all_workers_whoever_is_asked(workers):
    before = count_predicts(workers)[0]
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(lambda _: ask_anew(workers), range(60))) == {200}
    for _ in range(6):
        assert count_predicts(workers) == (before + 60, before + 60)


def test_addresses_and_methods_nobody_declared_make_no_labels(workers):
    ask_anew(workers, "/nowhere", "GET")
    before = len(read_metrics(workers))
    for i in range(30):
        assert ask_anew(workers, f"/nowhere/{i}?x={i}", "GET") == 404
        assert workers.client.get(f"/models/no{i}").status_code == 404
        assert workers.client.get(f"/schemas/no{i}").status_code == 404
        workers.client.request("PROPFIND", "/predict")
    names = {value for _, labels in read_metrics(workers) for _, value in labels}
    assert not [name for name in names if "no1" in name or "nowhere" in name or name == "PROPFIND"]
    assert len(read_metrics(workers)) - before < 80


# Workers


def children(pid: int) -> set[int]:
    return {int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


def test_a_worker_that_is_killed_is_replaced_and_the_service_goes_on(workers):
    counted = count_predicts(workers)[0]
    old = children(workers.process.pid)
    assert len(old) == 2
    victim = min(old)
    os.kill(victim, signal.SIGKILL)
    deadline = time.monotonic() + 20
    while len(children(workers.process.pid) - {victim}) < 2:
        assert time.monotonic() < deadline, (workers.home / "log.txt").read_text()
        time.sleep(0.05)
    assert [ask_anew(workers) for _ in range(40)] == [200] * 40
    assert count_predicts(workers)[0] == counted + 40
    died = [entry for entry in workers.logs() if entry["event"] == "worker died"]
    assert [(entry["pid"], entry["code"]) for entry in died] == [(victim, -9)]


# Probes


def test_a_process_without_a_model_is_live_and_becomes_ready_when_another_publishes_one(empty, small_bundle):
    assert empty.client.get("/health/live").json() == {"status": "live"}
    for path in ("/health/ready", "/v2/health/ready"):
        assert empty.client.get(path).status_code == 503
    answer = run_service(empty.home, "publish", str(small_bundle))
    assert answer.returncode == 0, answer.stderr
    empty.wait_until_ready(2)
    assert empty.client.post("/predict", json=ASK).json()["model"] == "small@1"


def test_a_model_altered_in_the_store_makes_a_new_process_not_ready_until_it_is_mended(small_bundle, tmp_path):
    assert run_service(tmp_path, "publish", str(small_bundle)).returncode == 0
    network = tmp_path / "store" / "small@1" / "model.onnx"
    with network.open("r+b") as file:
        file.truncate(1000)
    server = RunningServer(tmp_path)
    try:
        answer = server.client.get("/health/ready")
        told = check_problem(answer, 503, "/health/ready").detail
        assert told.startswith("model small@1 cannot be served: small@1 in the store: altered: model.onnx")
        assert server.client.post("/predict", json=ASK).json()["detail"] == told
        assert server.client.get("/health/live").status_code == 200
        shutil.copy(small_bundle / "model.onnx", network)
        server.wait_until_ready(5)
        assert server.process.poll() is None
    finally:
        assert server.stop() == 0


# Starting


BAD_STARTS = {
    "a port that is no number": ([], {"TABGLOT_PORT": "abc"}, "TABGLOT_PORT must be a whole number, not 'abc'"),
    "a port that cannot be": (["--port", "70000"], {}, "port must be at most 65535"),
    "no workers": (["--workers", "0"], {}, "workers must be at least 1"),
    "a level nobody knows": ([], {"TABGLOT_LOG_LEVEL": "loud"}, "log_level must be one of"),
    "a registry nobody knows": (["--port", "0"], {"TABGLOT_REGISTRY": "nonsense://x"}, "'nonsense'"),
    "that with workers": (["--port", "0", "--workers", "2"], {"TABGLOT_REGISTRY": "nonsense://x"}, "'nonsense'"),
    "a registry out of reach": (
        ["--port", "0"], {"TABGLOT_REGISTRY": "postgresql://me:secret-99@127.0.0.1:1/none"}, "registry"),
    "a registry that is a folder": (["--port", "0", "--registry", "sqlite:///."], {}, "registry"),
    "a bundle that is none": (["--port", "0", "--bundle", "nothing"], {}, "no bundle here"),
    "a host that is none": (["--port", "0", "--host", "no.such.host.invalid"], {}, "cannot listen"),
}  # fmt: skip


@pytest.fixture(scope="module")
def bad_starts(tmp_path_factory):
    """All of them, two at a time, and one whose port is taken."""
    home = tmp_path_factory.mktemp("bad-starts")
    taken = socket.create_server(("127.0.0.1", 0))
    cases = BAD_STARTS | {"a port that is taken": (["--port", str(taken.getsockname()[1])], {}, "")}
    with taken, ThreadPoolExecutor(2) as pool:
        answers = pool.map(lambda case: run_service(home, *case[0], **case[1]), cases.values())
        return dict(zip(cases, answers, strict=True))


@pytest.mark.parametrize("name", [*BAD_STARTS, "a port that is taken"])
def test_what_cannot_start_says_so_in_one_sentence_with_exit_code_2(bad_starts, name):
    answer = bad_starts[name]
    reason = BAD_STARTS[name][2] if name in BAD_STARTS else "cannot listen on 127.0.0.1"
    said = [line for line in answer.stderr.splitlines() if not line.startswith("{")]
    assert (answer.returncode, len(said)) == (2, 1), answer.stderr
    assert said[0].startswith("error: ")
    assert reason in said[0]
    assert "Traceback" not in answer.stderr
    assert "secret-99" not in answer.stderr


def test_the_first_answer_comes_soon_after_the_start(server, tmp_path):
    shared = {name: server.environment[name] for name in ("TABGLOT_REGISTRY", "TABGLOT_STORE")}
    begun = time.monotonic()
    another = RunningServer(tmp_path, **shared)
    try:
        assert ask_anew(another) == 200
        print(f"first answer {time.monotonic() - begun:.2f} s after the start")
        assert time.monotonic() - begun < 20
    finally:
        assert another.stop() == 0


def test_the_application_imports_neither_torch_nor_pandas_nor_training_nor_pyarrow():
    program = (
        "import sys, service.app\n"
        "bad = {'torch', 'pandas', 'onnx', 'training', 'pyarrow'} & {m.partition('.')[0] for m in sys.modules}\n"
        "sys.exit(', '.join(sorted(bad)) or None)"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT)
    assert answer.returncode == 0, answer.stderr


# Bulk


def test_single_rows_are_answered_while_many_are_worked_on(server):
    rows = [{"cylinders": 4 + i % 5, "weight": 2000 + i % 2500, "year": 70 + i % 12} for i in range(50_000)]
    body = json.dumps({"target": "mpg", "rows": rows})
    answers: list[httpx.Response] = []

    def ask_many() -> None:
        answers.append(httpx.post(server.url + "/predict", content=body, timeout=120))

    bulk = threading.Thread(target=ask_many)
    singles: list[tuple[int, float]] = []
    bulk.start()
    while bulk.is_alive():
        begun = time.monotonic()
        singles.append((server.client.post("/predict", json=ASK).status_code, time.monotonic() - begun))
    bulk.join()
    assert (answers[0].status_code, len(answers[0].json()["predictions"])) == (200, 50_000)
    assert {status for status, _ in singles} == {200}
    times = sorted(seconds for _, seconds in singles)
    print(f"{len(singles)} single rows meanwhile, median {times[len(times) // 2] * 1e3:.1f} ms")
    assert len(singles) > 10
