"""Single rows that arrive at the same moment are asked together: one run of the network for all of them.

Requests of one turn of the event loop are read one after the other; the network runs when the last of them
has been. Waiting for the turn's end costs something itself: where rows come one at a time they are answered
at once, and only now and then it is tried whether others come along.
"""

import asyncio

from model.requests import count_observed
from model.runtime import Predictor
from model.single import Readout, RowAnswer

# Rows of one model, with the same columns and the same question.
Group = tuple[Predictor, tuple[int, ...], int]
Answer = tuple[list[float], float]
# After a row that waited in vain so many are answered at once.
AT_ONCE = 4


class Together:
    """Collects the rows of one turn."""

    def __init__(self) -> None:
        self._waiting: dict[Group, list[tuple[list[float], asyncio.Future[Answer]]]] = {}
        self._at_once = 0

    async def ask(
        self, predictor: Predictor, readout: Readout, columns: tuple[int, ...], row: list[float], interval: float | None
    ) -> RowAnswer:
        """The answer to one row."""
        n_observed = count_observed(columns, row, readout.index)
        if self._at_once:
            self._at_once -= 1
            logits, points = predictor.ask_singles(columns, [row], readout.asked)
            return readout.read(logits[0], points[0], interval, n_observed)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        group = (predictor, columns, id(readout.asked))
        if group not in self._waiting:
            self._waiting[group] = []
            loop.call_soon(self._run, group, readout)
        self._waiting[group].append((row, future))
        return readout.read(*await future, interval, n_observed)

    def _run(self, group: Group, readout: Readout) -> None:
        waiting = self._waiting.pop(group)
        if len(waiting) == 1:
            self._at_once = AT_ONCE
        predictor, columns, _ = group
        try:
            logits, points = predictor.ask_singles(columns, [row for row, _ in waiting], readout.asked)
        except Exception as error:  # goes to those who asked
            for _, future in waiting:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), answer in zip(waiting, zip(logits, points, strict=True), strict=True):
            if not future.done():  # whose caller went away is cancelled
                future.set_result(answer)
