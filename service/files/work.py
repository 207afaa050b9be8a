"""Fill the holes of a whole file, add predictions to it, or read it: in pieces, with bounded memory."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.draws import draw_copies
from model.requests import Columns
from service.files.arrow_sink import ArrowSink
from service.files.ask import FileAsk, FileReport, Format, Plan, plan_impute, plan_predict, plan_read
from service.files.beside import check_free, sure_columns, tell_sure
from service.files.cells import Column
from service.files.course import Course, Piece, Sizes, open_source
from service.files.csv_sink import CsvSink
from service.files.csv_source import CsvSource
from service.files.fills import COPY, Added, Answers
from service.files.notes import MISFIT, Notes

SIZES = Sizes()
INTERVAL = 0.9
# To look which columns have holes takes about this share of the time to fill them.
LOOKING = 0.1

# Told after each piece: the share of the file that is done, and a few words.
Progress = Callable[[float, str], None]
# Called between pieces, for others to have a turn.
Pause = Callable[[], None]
Answerer = Callable[[Piece, dict[str, Column]], Answers]


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
    """Fill every missing cell of the wanted columns; all other cells stay as they are, to the letter. With
    ``ask.interval`` each column that has a hole gets columns beside it that say how sure its answers are.
    """
    whole = _part(progress, LOOKING if ask.interval is not None else 0.0, 1.0)
    hollow = set() if ask.interval is None else _find_hollow(source, read_as, ask, _part(progress, 0.0, LOOKING), sizes)
    with closing(open_source(source, read_as, sizes)) as opened:
        plan = plan_impute(ask, opened.names)
        appended: Added = {name: plan.features[name] for name in plan.appended}
        sure = {name: sure_columns(plan, name) for name in plan.wanted if name in hollow}
        beside = {column: feature for columns in sure.values() for column, feature in columns.items()}
        check_free(beside, (*opened.names, *appended))
        course = Course(opened, plan, ask.most_rows)

        def answer(piece: Piece, columns: dict[str, Column]) -> Answers:
            if piece.n_rows == 0:
                return Answers(columns, added=dict.fromkeys(appended, ()))
            told = ask.predictor.impute(
                _some_cells(columns, plan, piece.n_rows), table=ask.table, links=plan.links, which=plan.wanted,
                interval=ask.interval, unknown="ignore", brief=True,
            )  # fmt: skip
            filled = {n: (rows, told.filled[n].values) for n, rows in told.rows.items() if n not in appended}
            ends = {
                column: (told.rows[name], cells)
                for name in sure
                if name in told.rows
                for column, cells in tell_sure(plan, name, told.filled[name])
            }
            return Answers(columns, filled, {name: told.filled[name].values for name in appended}, ends)

        with closing(_open_sink(course, sink, write_as, {**appended, **beside})) as out:
            _run(course, out, answer, whole, pause)
        return course.report()


def draw_file(
    source: Path,
    read_as: Format,
    sink: Path,
    write_as: Format,
    ask: FileAsk,
    *,
    n_draws: int,
    seed: int = 0,
    progress: Progress | None = None,
    pause: Pause | None = None,
    sizes: Sizes = SIZES,
) -> FileReport:
    """Complete the file ``n_draws`` times, for multiple imputation: one copy below the other, numbered in a first
    column. The file is read once for each copy, so that memory does not grow with their number. Each piece of rows of
    each copy has a seed of its own: the same file and seed give the same copies.
    """
    notes = Notes()
    with closing(open_source(source, read_as, sizes)) as first:
        plan = plan_impute(ask, first.names)
        appended: Added = {name: plan.features[name] for name in plan.appended}
        check_free((COPY,), (*first.names, *appended))
        with closing(_open_sink(Course(first, plan), sink, write_as, appended, numbered=True)) as out:
            for copy in range(1, n_draws + 1):
                with closing(open_source(source, read_as, sizes)) as opened:
                    course = Course(opened, plan, ask.most_rows)
                    answer = partial(_draw, ask, plan, (seed, copy))
                    told = _part(progress, (copy - 1) / n_draws, copy / n_draws, f"copy {copy} of {n_draws}: ")
                    _run(course, out, answer, told, pause)
                notes.absorb(course.notes)
        return replace(course.report(), warnings=plan.warnings + notes.say())


def _draw(ask: FileAsk, plan: Plan, seed: tuple[int, int], piece: Piece, columns: dict[str, Column]) -> Answers:
    """One copy of a piece."""
    copy = seed[1]
    if piece.n_rows == 0:
        return Answers(columns, added=dict.fromkeys(plan.appended, ()), copy=copy)
    drawn = draw_copies(
        ask.predictor, _some_cells(columns, plan, piece.n_rows), n_draws=1, seed=(*seed, piece.first_row),
        table=ask.table, links=plan.links, which=plan.wanted, unknown="ignore",
    )  # fmt: skip
    filled = {n: (rows, drawn.values[n][0]) for n, rows in drawn.rows.items() if n not in plan.appended}
    return Answers(columns, filled, {name: drawn.values[name][0] for name in plan.appended}, copy=copy)


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
        added: Added = {f"{target}_predicted": plan.features[target], **sure_columns(plan, target)}
        check_free(added, opened.names)
        course = Course(opened, plan, ask.most_rows)
        interval = (ask.interval or INTERVAL) if f"{target}_low" in added else None

        def answer(piece: Piece, columns: dict[str, Column]) -> Answers:
            if piece.n_rows == 0:
                return Answers(columns, added=dict.fromkeys(added, ()))
            cells = {name: c for name, c in _cells_of(columns).items() if name != target}
            cells = cells or {target: [None] * piece.n_rows}
            told = ask.predictor.predict(
                cells, target, table=ask.table, links=plan.links, interval=interval, unknown="ignore"
            )
            return Answers(columns, added={f"{target}_predicted": told.values, **dict(tell_sure(plan, target, told))})

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


def _some_cells(columns: dict[str, Column], plan: Plan, n_rows: int) -> Columns:
    """Without a column there would be no rows: one with nothing in it says as much."""
    return _cells_of(columns) or {name: [None] * n_rows for name in plan.wanted[:1]}


def _find_hollow(source: Path, read_as: Format, ask: FileAsk, progress: Progress | None, sizes: Sizes) -> set[str]:
    """Wanted columns that lack a cell somewhere: a header must be written before the holes are come upon."""
    with closing(open_source(source, read_as, sizes)) as opened:
        plan = plan_impute(ask, opened.names)
        course = Course(opened, plan, ask.most_rows)
        found = set(plan.appended)
        for piece, columns in course.read():
            holes = ask.predictor.find_holes(
                _cells_of(columns), table=ask.table, links=plan.links, which=plan.wanted, unknown="ignore"
            )[2]
            found |= holes.keys()
            if progress is not None:
                progress(piece.done, f"{course.rows:,} rows looked at")
            if found.issuperset(plan.wanted):
                break
    return found


def _part(progress: Progress | None, low: float, high: float, words: str = "") -> Progress | None:
    """Progress of a part of the work, as progress of all of it; ``words`` come before what is told."""
    if progress is None:
        return None
    return lambda done, text: progress(low + (high - low) * done, words + text)


def _run(
    course: Course, sink: CsvSink | ArrowSink, answer: Answerer, progress: Progress | None, pause: Pause | None
) -> None:
    """Read, ask, write, piece by piece."""
    for piece, columns in course.read():
        answers = replace(answer(piece, columns), spellings=course.spellings)
        misfits = sink.write(piece, answers)  # type: ignore[arg-type]
        _count(course, answers, misfits, piece.first_row)
        if progress is not None:
            progress(piece.done, f"{course.rows:,} rows")
        if pause is not None:
            pause()


def _open_sink(
    course: Course, sink: Path, write_as: Format, added: Added, *, numbered: bool = False
) -> CsvSink | ArrowSink:
    if isinstance(course.source, CsvSource) and write_as == "csv":
        return CsvSink(sink, course.source, course.plan, added, numbered=numbered)
    return ArrowSink(sink, write_as, course.source, course.plan, added, numbered=numbered)


def _count(course: Course, answers: Answers, misfits: dict[str, NDArray[np.int64]], first_row: int) -> None:
    for name, (rows, _) in answers.filled.items():
        wrong = misfits.get(name, rows[:0])
        course.notes.add(name, MISFIT, wrong + first_row)
        course.count(name, len(rows) - len(wrong))
    for name, values in answers.added.items():
        course.count(name, len(values))
