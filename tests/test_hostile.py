"""What a careless or hostile caller may send: a clear answer, never a 500, and nobody else waits long."""

import gzip
import io
import json
import signal
import tarfile
import threading
import time

import httpx
import pytest

from model.audit import audit
from tests.server import RunningServer, running

pytestmark = pytest.mark.alone

BIG = 2**70


def post(client, path, body, **headers):
    content = body if isinstance(body, str | bytes) else json.dumps(body)
    return client.post(path, content=content, headers={"content-type": "application/json", **headers})


def nested(depth):
    return "[" * depth + "]" * depth


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/impute", {"rows": [{"weight": BIG, "horsepower": None}]}),
        ("/impute", {"rows": [{"mine": BIG, "weight": 3000, "mpg": None}], "unknown": "ignore"}),
        ("/audit", {"rows": [{"weight": BIG, "mpg": 20}]}),
        ("/predict", {"target": "mpg", "rows": [{"weight": BIG}]}),
        ("/encodings/matches", {"left": "auto", "rows": [{"a": 10**400}, {"a": "x"}]}),
        ("/encodings/matches", {"left": "auto", "rows": [{"a": 10**400}]}),
        ("/encodings/matches", {"left": "auto", "rows": [{"a": "x" * 100_000}] + [{"a": "y"}] * 5000}),
    ],
)
def test_huge_cells_get_an_answer(client, path, body):
    answer = post(client, path, body)
    assert answer.status_code in (200, 422), answer.text[:300]
    if path == "/impute":
        assert answer.json()["rows"][0][next(iter(body["rows"][0]))] == BIG


@pytest.mark.parametrize("depth", [10, 240, 300, 900, 976, 990, 5000])
def test_nested_cells_get_an_answer(client, depth):
    for body in (
        f'{{"rows": [{{"weight": 3000, "mine": {nested(depth)}, "mpg": null}}], "unknown": "ignore"}}',
        f'{{"rows": [{{"weight": {nested(depth)}, "mpg": null}}]}}',
    ):
        assert post(client, "/impute", body).status_code in (200, 400, 422)


@pytest.mark.parametrize("accept", ["text/csv", "application/vnd.apache.parquet"])
@pytest.mark.parametrize("cell", [[1], {}, {"a": 1}, BIG])
def test_cells_that_no_file_can_hold_are_refused(client, accept, cell):
    body = {"rows": [{"mine": cell, "weight": 3000, "mpg": None}], "unknown": "ignore"}
    answer = post(client, "/impute", body, accept=accept)
    assert answer.status_code in (200, 422), answer.text
    draws = post(client, "/impute", {"rows": [{"mpg": None}], "draws": 2}, accept=accept)
    assert "JSON only" in draws.json()["detail"]


def test_rows_that_each_bring_a_name_of_their_own_do_not_make_a_square(client):
    rows = [{f"name {i}": 1} for i in range(20_000)]
    begun = time.monotonic()
    answer = post(client, "/predict", {"target": "mpg", "rows": rows})
    assert answer.status_code == 422
    assert len(answer.json()["errors"]) == 100
    ignored = post(client, "/predict", {"target": "mpg", "rows": rows, "unknown": "ignore", "distribution": False})
    assert len(ignored.json()["predictions"]) == 20_000
    assert time.monotonic() - begun < 20


def test_single_rows_do_not_wait_for_what_is_wide_or_unknown(server):
    wide = {"target": "mpg", "rows": [{f"name {i}": 1 for i in range(3000)}]}
    schema = {"columns": {f"c{i}": {"feature": f"feature {i}"} for i in range(2000)}}
    csv = ",".join(f"name {i}" for i in range(3000)) + "\n" + ",".join("1" for _ in range(3000)) + "\n"
    slowest = 0.0
    with httpx.Client(base_url=server.url) as other, httpx.Client(base_url=server.url) as single:
        asks = [
            lambda: post(other, "/predict", wide),
            lambda: other.put("/schemas/wide", json=schema),
            lambda: other.post("/impute?unknown=ignore", content=csv, headers={"content-type": "text/csv"}),
        ]
        for ask in asks:
            thread = threading.Thread(target=ask)
            thread.start()
            while thread.is_alive():
                begun = time.monotonic()
                assert post(single, "/predict", {"target": "mpg", "rows": [{"weight": 3000}]}).status_code == 200
                slowest = max(slowest, time.monotonic() - begun)
    print(f"slowest single row beside wide ones: {slowest * 1000:.0f} ms")


@pytest.mark.parametrize(
    "media_type", ["application/json", "Application/JSON", "application/x+json", "text/plain", None]
)
def test_no_media_type_lifts_the_limit_of_json(client, media_type):
    headers = {"content-type": media_type} if media_type else {}
    answer = client.post("/impute", content=b" " * (17 << 20), headers=headers)
    assert answer.status_code == 413
    assert client.post("/impute", content=b"x", headers={"content-encoding": "gzip"}).status_code == 415


@pytest.mark.parametrize("limit", [0, -1, 1_000_000_000])
def test_an_audit_has_limits(client, limit):
    answer = post(client, "/audit", {"rows": [{"weight": 3000}], "limit": limit})
    assert answer.status_code == 422
    assert "limit" in answer.json()["detail"]


def test_rows_with_nothing_stay_as_they_are(client):
    assert post(client, "/impute", {"rows": [{}, {}]}).json()["rows"] == [{}, {}]


@pytest.mark.parametrize("column", [{"": {"feature": "weight"}}, {"w": {"feature": "weight", "scale": 1e-320}}])
def test_columns_and_units_that_cannot_be_are_refused(client, column):
    assert client.put("/schemas/odd", json={"columns": column}).status_code == 422


def test_the_ends_of_the_fitted_range_are_no_nonsense(predictor):
    for feature in ("weight", "mpg", "horsepower", "displacement"):
        knots = predictor.schema.features[predictor.schema.index[feature]].knots.values
        for end in (knots[0], knots[-1]):
            suspects, _ = audit(predictor, {feature: [end]})
            assert suspects[0].surprise < 8.0


def test_a_tar_whose_header_claims_to_be_huge_is_refused(client):
    info = tarfile.TarInfo("x")
    info.type = tarfile.XHDTYPE
    info.size = 200 << 20
    raw = info.tobuf() + b"\0" * (200 << 20)
    answer = client.post("/models", content=gzip.compress(raw, 1), headers={"content-type": "application/gzip"})
    assert answer.status_code == 422
    assert "no whole tar" in answer.json()["detail"]


def test_a_file_of_too_many_rows_is_refused(small_bundle, tmp_path):
    with running(tmp_path, "--bundle", str(small_bundle), TABGLOT_MAX_FILE_ROWS="100") as server:
        body = b"weight,mpg\n" + b"3000,\n" * 101
        answer = server.client.post("/impute", content=body, headers={"content-type": "text/csv"})
        assert answer.status_code == 422
        assert "more than 100 rows" in answer.json()["detail"]


def test_long_work_ends_in_time_with_an_answer(small_bundle, tmp_path):
    server = RunningServer(tmp_path, "--bundle", str(small_bundle), TABGLOT_DRAIN_SECONDS="2")
    server.wait_until_ready()
    body = b"weight,mpg,horsepower,year\n" + b"3000,,,\n" * 400_000
    told = []
    headers = {"content-type": "text/csv"}
    thread = threading.Thread(
        target=lambda: told.append(server.client.post("/impute?table=auto", content=body, headers=headers))
    )
    thread.start()
    time.sleep(2.0)
    begun = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(30) == 0
    seconds = time.monotonic() - begun
    thread.join()
    assert told[0].status_code == 503
    assert told[0].headers["content-type"] == "application/problem+json"
    assert seconds < 10
    server.stop()


def test_abandoned_work_is_not_finished(server):
    body = b"weight,mpg,horsepower,year\n" + b"3000,,,\n" * 300_000
    with pytest.raises(httpx.ReadTimeout), httpx.Client(base_url=server.url, timeout=1.5) as client:
        client.post("/impute?table=auto", content=body, headers={"content-type": "text/csv"})
    rows = [{"weight": 3000}] * 50
    assert post(server.client, "/predict", {"target": "mpg", "rows": rows}).status_code == 200
    deadline = time.monotonic() + 10
    while not (ends := [entry for entry in server.logs() if entry.get("path") == "/impute"]):
        assert time.monotonic() < deadline, "the abandoned work goes on"
        time.sleep(0.1)
    assert ends[-1]["status"] == 499  # it was given up, not answered


def test_workers_end_with_their_parent(small_bundle, tmp_path):
    server = RunningServer(tmp_path, "--bundle", str(small_bundle), "--workers", "2")
    server.wait_until_ready()
    server.client.close()
    server.process.kill()
    deadline = time.monotonic() + 20
    try:
        while True:  # as long as a worker lives, somebody answers
            httpx.get(f"{server.url}/health/live")
            assert time.monotonic() < deadline, "a worker outlives its parent"
            time.sleep(0.1)
    except httpx.TransportError:
        pass
    finally:
        server.stop()


def test_models_that_were_asked_for_are_not_kept_for_ever(small_bundle, tmp_path):
    with running(tmp_path, "--bundle", str(small_bundle), TABGLOT_MODELS_KEPT="1") as server:
        tar = io.BytesIO()
        with tarfile.open(fileobj=tar, mode="w") as archive:
            archive.add(small_bundle, ".")
        for name in ("a", "b", "c"):
            answer = server.client.post(f"/models?name={name}", content=tar.getvalue(),
                                        headers={"content-type": "application/x-tar"})  # fmt: skip
            assert answer.status_code == 201, answer.text
        (tmp_path / "store" / "a@1" / "bundle.json").unlink()
        gone = post(server.client, "/predict", {"target": "mpg", "rows": [{}], "model": "a@1"})
        assert gone.status_code == 422
        assert "there is no bundle.json" in gone.json()["detail"]
        kept = post(server.client, "/predict", {"target": "mpg", "rows": [{}], "model": "b@1"})
        assert kept.status_code == 200
