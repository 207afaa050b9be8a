"""Asking for the missing cells of rows, and for nothing else."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from model.answers import Outputs, Prediction, one_question
from model.requests import Cells
from model.schema import Link

if TYPE_CHECKING:
    from model.runtime import Predictor


def ask_holes(
    predictor: "Predictor",
    cells: Cells,
    holes: Mapping[str, NDArray[np.bool_]],
    links: Mapping[str, Link],
    *,
    explain: bool,
    pause: Callable[[], None] | None,
) -> Iterator[tuple[str, NDArray[np.int64], Outputs]]:
    """Rows with the same holes together if they are all alike, else column by column: each column that has holes,
    the rows that have them, and what the network says of them, which holds one question.
    """
    asked = {name: predictor.schema.index[links[name].feature] for name in holes}
    masks = np.stack(list(holes.values()), axis=1) if holes else np.empty((0, 0), dtype=bool)
    if len(masks) and (masks == masks[0]).all():
        outputs = predictor.ask(cells, list(asked.values()), explain=explain, pause=pause)
        every = np.arange(len(masks))
        yield from ((name, every, one_question(outputs, q)) for q, name in enumerate(asked))
        return
    for name, mask in holes.items():
        where = np.flatnonzero(mask)
        yield name, where, predictor.ask(cells.rows(where), [asked[name]], explain=explain, pause=pause)


def fill_row(
    predictor: "Predictor", cells: Cells, wanted: Mapping[str, Link], interval: float | None, brief: bool
) -> dict[str, Prediction]:
    """All holes of a single row, asked for in one and read one by one."""
    asked = [predictor.schema.index[link.feature] for link in wanted.values()]
    if not asked:
        return {}
    is_brief = brief and interval is None
    readouts = [predictor.readout_of(link) for link in wanted.values()]
    outputs = predictor.ask(cells, asked, means_only=is_brief and None not in readouts)
    told = zip(outputs["logits"][0].tolist(), outputs["point"][0].tolist(), strict=True)
    filled = {}
    for question, (name, readout, (logits, point)) in enumerate(zip(wanted, readouts, told, strict=True)):
        if readout is None:
            filled[name] = predictor.read(one_question(outputs, question), wanted[name], cells, interval)
        elif is_brief:
            filled[name] = readout.answer_briefly(logits, point)
        else:
            n_observed = cells.count_in_row(asked[question])
            filled[name] = readout.answer(readout.read(logits, point, interval, n_observed))
    return filled
