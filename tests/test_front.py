"""What every request passes through, where a real server would need luck to get there."""

import asyncio
import json

import pytest

from service.front import Drain, Front
from service.settings import Settings

SCOPE = {"type": "http", "method": "GET", "path": "/slow", "headers": [], "query_string": b""}


async def give_up_on(app, drain):
    """Start a request, cancel it as a server does that has waited long enough; what was sent."""
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    front = Front(app, settings=Settings(), drain=drain, fast={}, files={})
    task = asyncio.create_task(front(dict(SCOPE), receive, send))
    await asyncio.sleep(0.01)
    task.cancel()
    await task
    return sent


async def never_answer(_scope, _receive, _send):
    await asyncio.Event().wait()


async def answer_by_half(_scope, _receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await asyncio.Event().wait()


def test_work_that_outlasts_a_stopping_server_is_answered_with_503():
    start, body = asyncio.run(give_up_on(never_answer, Drain(begun=True)))
    headers = dict(start["headers"])
    assert start["status"] == 503
    assert headers[b"content-type"] == b"application/problem+json"
    assert headers[b"retry-after"] == b"1"
    assert json.loads(body["body"])["detail"] == "the process is shutting down"


@pytest.mark.parametrize(("app", "drain"), [(never_answer, Drain()), (answer_by_half, Drain(begun=True))])
def test_otherwise_a_cancelled_request_stays_cancelled(app, drain):
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(give_up_on(app, drain))
