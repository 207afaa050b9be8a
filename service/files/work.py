"""Fill the holes of a whole file, add predictions to it, or read it: in pieces, with bounded memory."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.errors import TableError
from model.requests import Columns
from service.files.arrow_sink import ArrowSink
from service.files.ask import FileAsk, FileReport, Format, Plan, plan_impute, plan_predict, plan_read
from service.files.cells import Column
from service.files.course import Course, Sizes, open_source
from service.files.csv_sink import CsvSink
from service.files.csv_source import CsvSource
from service.files.fills import Added, Answers
from service.files.notes import MISFIT

SIZES = Sizes()
INTERVAL = 0.9

# Told after each piece: the share of the file that is done, and a few words.
Progress = Callable[[float, str], None]
# Called between pieces, for others to have a turn.
Pause = Callable[[], None]
Answerer = Callable[[dict[str, Column], int], Answers]


@dataclass(frozen=True, slots=True)
class FilePiece:
    """Some rows of a file as the Predictor takes them; ``done`` is the share of the file read by then, and
    ``warnings`` is what is to be said of the whole file, ``remarks`` of the cells read so far.
    """

    first_row: int
    n_rows: int
    columns: Columns
    done: float
    warnings: tuple[str, ...]
    remarks: tuple[str, ...]


def impute_file(
    source: Path,
    read_as: Format,
    sink: Path,
    write_as: Format,
    ask: FileAsk,
    *,
    progress: Progress | None = None,
    pause: Pause | None = None,
    sizes: Sizes = SIZES,
) -> FileReport:
    """Fill every missing cell of the wanted columns; all other cells stay as they are, to the letter."""
    with closing(open_source(source, read_as, sizes)) as opened:
        plan = plan_impute(ask, opened.names)
        added: Added = {name: plan.features[name] for name in plan.appended}
        course = Course(opened, plan, ask.most_rows)

        def answer(columns: dict[str, Column], n_rows: int) -> Answers:
            if n_rows == 0:
                return Answers(columns, added=dict.fromkeys(added, ()))
            # Without a column there would be no rows: one with nothing in it says as much.
            cells = _cells_of(columns) or {name: [None] * n_rows for name in plan.wanted[:1]}
            told = ask.predictor.impute(
                cells, table=ask.table, links=plan.links, which=plan.wanted, unknown="ignore", brief=True
            )
            filled = {n: (rows, told.filled[n].values) for n, rows in told.rows.items() if n not in added}
            return Answers(columns, filled, {name: told.filled[name].values for name in added})

        with closing(_open_sink(course, sink, write_as, added)) as out:
            _run(course, out, answer, progress, pause)
        return course.report()


def predict_file(
    source: Path,
    read_as: Format,
    sink: Path,
    write_as: Format,
    ask: FileAsk,
    *,
    target: str,
    progress: Progress | None = None,
    pause: Pause | None = None,
    sizes: Sizes = SIZES,
) -> FileReport:
    """Add what the target is expected to be: TARGET_predicted with TARGET_low and TARGET_high, or
    with TARGET_probability for levels and categories.
    """
    with closing(open_source(source, read_as, sizes)) as opened:
        plan = plan_predict(ask, opened.names, target, convert=read_as == "csv" and write_as != "csv")
        added = _predicted_columns(plan, target, opened.names)
        course = Course(opened, plan, ask.most_rows)
        interval = (ask.interval or INTERVAL) if f"{target}_low" in added else None

        def answer(columns: dict[str, Column], n_rows: int) -> Answers:
            if n_rows == 0:
                return Answers(columns, added=dict.fromkeys(added, ()))
            cells = {name: c for name, c in _cells_of(columns).items() if name != target} or {target: [None] * n_rows}
            told = ask.predictor.predict(
                cells, target, table=ask.table, links=plan.links, interval=interval, unknown="ignore"
            )
            ends = [told.probability] if told.interval is None else zip(*told.interval, strict=True)
            return Answers(columns, added=dict(zip(added, [told.values, *ends], strict=True)))

        with closing(_open_sink(course, sink, write_as, added)) as out:
            _run(course, out, answer, progress, pause)
        return course.report()


def read_columns(source: Path, read_as: Format, ask: FileAsk, *, sizes: Sizes = SIZES) -> Iterator[FilePiece]:
    """The known columns of a file, piece by piece; faults name rows of the whole file."""
    with closing(open_source(source, read_as, sizes)) as opened:
        plan = plan_read(ask, opened.names)
        course = Course(opened, plan, ask.most_rows)
        for piece, columns in course.read():
            cells, remarks = _cells_of(columns), course.notes.say()
            yield FilePiece(piece.first_row, piece.n_rows, cells, piece.done, plan.warnings, remarks)


def _cells_of(columns: dict[str, Column]) -> dict[str, Sequence[Any] | NDArray[Any]]:
    return {name: column.cells for name, column in columns.items()}


def _predicted_columns(plan: Plan, target: str, names: tuple[str, ...]) -> Added:
    feature = plan.features[target]
    added: dict[str, Any] = {f"{target}_predicted": feature}
    if feature.is_continuous:
        added |= {f"{target}_low": feature, f"{target}_high": feature}
    else:
        added |= {f"{target}_probability": None}
    taken = [name for name in added if name in names]
    if taken:
        raise TableError(f"the file has a column {taken[0]!r} already; rename or remove it: predictions go there")
    return added


def _run(
    course: Course, sink: CsvSink | ArrowSink, answer: Answerer, progress: Progress | None, pause: Pause | None
) -> None:
    """Read, ask, write, piece by piece."""
    for piece, columns in course.read():
        answers = replace(answer(columns, piece.n_rows), spellings=course.spellings)
        misfits = sink.write(piece, answers)  # type: ignore[arg-type]
        _count(course, answers, misfits, piece.first_row)
        if progress is not None:
            progress(piece.done, f"{course.rows:,} rows")
        if pause is not None:
            pause()


def _open_sink(course: Course, sink: Path, write_as: Format, added: Added) -> CsvSink | ArrowSink:
    if isinstance(course.source, CsvSource) and write_as == "csv":
        return CsvSink(sink, course.source, course.plan, added)
    return ArrowSink(sink, write_as, course.source, course.plan, added)


def _count(course: Course, answers: Answers, misfits: dict[str, NDArray[np.int64]], first_row: int) -> None:
    for name, (rows, _) in answers.filled.items():
        wrong = misfits.get(name, rows[:0])
        course.notes.add(name, MISFIT, wrong + first_row)
        course.count(name, len(rows) - len(wrong))
    for name, values in answers.added.items():
        course.count(name, len(values))
