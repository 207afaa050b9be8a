"""Under load: models are switched, and processes stopped, without a request that fails or mixes versions."""

import contextlib
import http.client
import json
import signal
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import httpx
import pytest

from tests.server import RunningServer, running

pytestmark = pytest.mark.alone

N_CLIENTS = 8
SECONDS = 5.0
BODY = json.dumps({"target": "mpg", "rows": [{"cylinders": 8, "weight": 3504}]}).encode()
HEADERS = {"content-type": "application/json"}


def connect(server: RunningServer) -> http.client.HTTPConnection:
    address = urlsplit(server.url)
    return http.client.HTTPConnection(str(address.hostname), address.port, timeout=30)


@contextlib.contextmanager
def all_at_once(work, n: int = N_CLIENTS) -> Iterator[None]:
    """So many threads at the work; afterwards all are done."""
    threads = [threading.Thread(target=work) for _ in range(n)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()


# Hot swap


def test_models_are_switched_under_load_without_an_error_and_without_mixing(small_bundle, other_bundle, tmp_path):
    with running(tmp_path, "--bundle", str(small_bundle), str(other_bundle)) as server:
        exact = {ref: value_of(server, ref) for ref in ("small@1", "small@2")}
        assert abs(exact["small@1"] - exact["small@2"]) > 0.01
        done = threading.Event()
        answers: list[tuple[int, str, float]] = []
        faults: list[str] = []

        def ask_on() -> None:
            with contextlib.closing(connect(server)) as connection:
                while not done.is_set():
                    try:
                        answers.append(ask(connection))
                    except (OSError, http.client.HTTPException, ValueError) as error:
                        faults.append(repr(error))
                        return

        with all_at_once(ask_on):
            n_switches = switch_back_and_forth(server)
            done.set()
    assert faults == []
    assert {status for status, _, _ in answers} == {200}
    # A row among others differs from the row alone in the seventh digit.
    assert [answer for answer in answers if answer[2] != pytest.approx(exact[answer[1]], rel=1e-5)] == []
    counts = {ref: sum(told == ref for _, told, _ in answers) for ref in exact}
    print(f"{len(answers)} answers over {n_switches} switches: {counts}")
    assert min(counts.values()) > 10
    assert n_switches > 5


def value_of(server: RunningServer, ref: str) -> float:
    answer = server.client.post("/predict", json={**json.loads(BODY), "model": ref}).json()
    return float(answer["predictions"][0]["value"])


def ask(connection: http.client.HTTPConnection) -> tuple[int, str, float]:
    connection.request("POST", "/predict", BODY, HEADERS)
    answer = connection.getresponse()
    told = json.loads(answer.read())
    return answer.status, told["model"], told["predictions"][0]["value"]


def switch_back_and_forth(server: RunningServer) -> int:
    n_switches = 0
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        ref = f"small@{2 - n_switches % 2}"
        answer = server.client.put("/models/active", json={"model": ref})
        assert (answer.status_code, answer.json()["model"]) == (200, ref)
        n_switches += 1
        time.sleep(0.3)
    return n_switches


# SIGTERM


@dataclass
class Tally:
    """What became of requests: ``lost`` are those that were wholly sent and got no whole answer."""

    answered: int = 0
    refused: int = 0
    lost: list[str] = field(default_factory=list)
    statuses: set[int] = field(default_factory=set)


def ask_until_closed(server: RunningServer, tally: Tally) -> None:
    """One connection, request after request, until the server says it will close it."""
    with contextlib.closing(connect(server)) as connection:
        is_open = True
        while is_open:
            try:
                connection.request("POST", "/predict", BODY, HEADERS)
                answer = connection.getresponse()
                json.loads(answer.read())
            except (OSError, http.client.HTTPException, ValueError) as error:
                tally.lost.append(repr(error))
                return
            tally.answered += 1
            tally.statuses.add(answer.status)
            is_open = answer.getheader("connection") != "close"


def ask_anew_until_refused(server: RunningServer, tally: Tally) -> None:
    """A connection for every request, until none can be had."""
    while True:
        connection = connect(server)
        try:
            connection.connect()
        except OSError:
            tally.refused += 1
            return
        with contextlib.closing(connection):
            try:
                connection.request("POST", "/predict", BODY, {**HEADERS, "connection": "close"})
                answer = connection.getresponse()
                json.loads(answer.read())
            except (OSError, http.client.HTTPException, ValueError) as error:
                tally.lost.append(repr(error))
                return
        tally.answered += 1
        tally.statuses.add(answer.status)


@pytest.mark.parametrize("workers", [1, 2])
def test_no_request_is_lost_when_the_service_is_told_to_stop(small_bundle, tmp_path, workers):
    with running(tmp_path, "--bundle", str(small_bundle), "--workers", str(workers)) as server:
        kept, anew = Tally(), Tally()
        with (
            all_at_once(lambda: ask_until_closed(server, kept)),
            all_at_once(lambda: ask_anew_until_refused(server, anew), 4),
        ):
            time.sleep(1.0)
            server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(30) == 0
    print(f"{kept.answered} answers on 8 connections, {anew.answered} on a connection each")
    assert kept.lost == []
    assert kept.statuses == anew.statuses == {200}
    assert min(kept.answered, anew.answered) > 100
    # Who waits at the door is let in before it is closed; but between the last look and the closing lie
    # microseconds in which the system may still add one.
    assert len(anew.lost) <= 1, anew.lost
    assert anew.refused >= 3


def test_a_long_request_under_way_is_finished_and_an_idle_connection_gets_one_more_answer(small_bundle, tmp_path):
    rows = [{"cylinders": 4 + i % 5, "weight": 2000 + i % 2500} for i in range(30_000)]
    body = json.dumps({"target": "mpg", "rows": rows})
    with running(tmp_path, "--bundle", str(small_bundle)) as server:
        answers: list[httpx.Response] = []

        def ask_many() -> None:
            answers.append(httpx.post(server.url + "/predict", content=body, headers=HEADERS, timeout=60))

        idle = connect(server)
        ask(idle)
        with contextlib.closing(idle), all_at_once(ask_many, 1):
            time.sleep(0.4)
            assert answers == []
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.4)
            assert ask(idle)[0] == 200
            address = urlsplit(server.url)
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((address.hostname, address.port))
        assert server.process.wait(30) == 0
    assert (answers[0].status_code, len(answers[0].json()["predictions"])) == (200, 30_000)
