"""How long one new row takes."""

import statistics
import time
from collections.abc import Callable

import pandas as pd

# Gives what answers rows that it has read before.
Ready = Callable[[pd.DataFrame], Callable[[], object]]
N_SINGLE, N_BEFORE = 20, 5
# Slow ones get so long, and fewer rows; the rows before them as long again.
MOST_SECONDS = 5.0


def time_row(ready: Ready, rows: pd.DataFrame) -> float:
    """Milliseconds to answer one new row: the median over some rows, each answered for the first time, by a process
    that has answered a few others before, as one that serves has.
    """
    for i in range(N_SINGLE, min(N_SINGLE + N_BEFORE, len(rows))):
        if _time(ready, rows, i) > MOST_SECONDS / N_BEFORE:
            break
    taken: list[float] = []
    while len(taken) < min(N_SINGLE, len(rows)) and sum(taken) < MOST_SECONDS:
        taken.append(_time(ready, rows, len(taken)))
    return 1e3 * statistics.median(taken)


def _time(ready: Ready, rows: pd.DataFrame, i: int) -> float:
    answer = ready(rows.iloc[i : i + 1].reset_index(drop=True))
    started = time.perf_counter()
    answer()
    return time.perf_counter() - started
