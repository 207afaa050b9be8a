"""impute, predict and audit over files, from the command line: no server is needed."""

import argparse
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from model.audit import audit
from model.bundle import read_bundle
from model.errors import AskError, TableError
from model.explain import Experts
from model.progress import Progress
from model.requests import check_interval
from model.runtime import Predictor
from service.files.ask import FileAsk, Format
from service.live import NO_MODEL, State, open_model
from service.registry import Registry
from service.settings import Settings

ENDINGS: dict[str, Format] = {
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
}
AUDIT_COLUMNS = ("row", "column", "value", "surprise", "expected", "low", "high", "reasons")
# How many columns are named as reasons for a suspicion.
MOST_REASONS = 3


def run(command: str, args: argparse.Namespace, settings: Settings) -> int:
    """Do one of the three; says what it made and where."""
    if getattr(args, "seed", None) is not None and args.draws is None:
        raise AskError("--seed is the seed of draws: give --draws M too, or leave it out")
    if args.engine != "local":
        raise AskError(f"--engine {args.engine} is not there yet; leave it out to compute here")
    read_as, write_as = _format_of(args.source), _format_of(args.sink)
    if not args.source.is_file():
        raise TableError(f"{args.source}: there is no such file")
    if args.sink.exists() and not args.force:
        raise TableError(f"{args.sink} exists already; choose another, or replace it with --force")
    ask = _make_ask(args, settings)
    progress = Progress(quiet=args.quiet)
    progress.start(f"{command}: {args.source} with {ask.predictor.bundle.name}")
    with _aside(args.sink) as aside:
        if command == "audit":
            said = _audit(args, read_as, aside, ask, progress)
        else:
            work = _predict if command == "predict" else _impute
            said = work(args, (read_as, write_as), aside, ask, progress)
    progress.close()
    if not args.quiet:
        print(f"{said} in {args.sink}")
    return 0


def _format_of(path: Path) -> Format:
    if path.suffix.lower() not in ENDINGS:
        raise TableError(f"{path}: its ending must be one of {', '.join(ENDINGS)}")
    return ENDINGS[path.suffix.lower()]


def _make_ask(args: argparse.Namespace, settings: Settings) -> FileAsk:
    columns = getattr(args, "columns", None)
    interval = getattr(args, "interval", None)
    check_interval(interval)
    predictor, links = _open(args, settings)
    return FileAsk(
        predictor, links, args.table, tuple(name.strip() for name in columns.split(",")) if columns else None,
        args.unknown, interval, to_ignore="--unknown ignore",
    )  # fmt: skip


def _open(args: argparse.Namespace, settings: Settings) -> tuple[Predictor, Any]:
    """The model, and what names mean to it: a bundle's own tables, or the registry's too."""
    if args.bundle is not None:
        predictor = Predictor(read_bundle(args.bundle))
        return predictor, predictor.links(args.table)
    with Registry.open(settings.registry) as registry:
        snapshot = registry.snapshot()
        ref = args.model or snapshot.active
        if ref is None:
            raise AskError(f"{NO_MODEL}, or give --bundle DIR")
        served = open_model(registry, settings.store, ref)
    state = State(snapshot.revision, served, snapshot.registered, {})
    return served.predictor, state.links(served, args.table)


@contextmanager
def _aside(sink: Path) -> Iterator[Path]:
    """Write aside, then rename: OUT is there whole or not at all."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{sink.name}.", dir=sink.parent)
    except OSError as error:
        raise TableError(f"{sink} cannot be written: {error.strerror}") from error
    os.close(handle)
    aside = Path(name)
    try:
        yield aside
        with aside.open("rb") as file:
            os.fsync(file.fileno())
        aside.chmod(0o644)
        aside.replace(sink)
    finally:
        aside.unlink(missing_ok=True)


def _predict(
    args: argparse.Namespace, formats: tuple[Format, Format], aside: Path, ask: FileAsk, progress: Progress
) -> str:
    from service.files.work import predict_file

    read_as, write_as = formats
    report = predict_file(args.source, read_as, aside, write_as, ask, target=args.target, progress=progress.update)
    _warn(report.warnings, progress)
    return f"{report.rows:,} rows with {args.target}_predicted"


def _impute(
    args: argparse.Namespace, formats: tuple[Format, Format], aside: Path, ask: FileAsk, progress: Progress
) -> str:
    from service.files.work import draw_file, impute_file

    way, copies = impute_file, ""
    if args.draws is not None:
        way = partial(draw_file, n_draws=args.draws, seed=args.seed or 0)
        copies = f", each drawn {args.draws:,} time{'s' * (args.draws != 1)},"
    read_as, write_as = formats
    report = way(args.source, read_as, aside, write_as, ask, progress=progress.update)
    _warn(report.warnings, progress)
    columns = ", ".join(f"{name} {count:,}" for name, count in report.columns.items() if count)
    return f"{report.rows:,} rows, {report.filled:,} cells filled{f' ({columns})' if columns else ''}{copies}"


def _warn(warnings: Sequence[str], progress: Progress) -> None:
    for warning in warnings:
        progress.say(f"warning: {warning}")


def _audit(args: argparse.Namespace, read_as: Format, aside: Path, ask: FileAsk, progress: Progress) -> str:
    """One line per suspicious cell, the most surprising first."""
    from service.files.work import read_columns

    suspects: list[tuple[float, list[Any]]] = []
    warnings: tuple[str, ...] = ()
    n_rows = 0
    for piece in read_columns(args.source, read_as, ask):
        found, _ = audit(
            ask.predictor, piece.columns, table=ask.table, links=ask.links, unknown="ignore",
            limit=piece.n_rows * max(1, len(piece.columns)), at_least=args.surprise,
        )  # fmt: skip
        for suspect in found:
            low, high = suspect.expected.interval[0] if suspect.expected.interval else ("", "")
            line = [
                suspect.row + piece.first_row, suspect.column, suspect.value, round(suspect.surprise, 3),
                suspect.expected.values[0], low, high, _reasons(suspect.expected.experts),
            ]  # fmt: skip
            suspects.append((suspect.surprise, line))
        n_rows, warnings = n_rows + piece.n_rows, (*piece.warnings, *piece.remarks)
        progress.update(piece.done, f"{n_rows:,} rows")
    _warn(warnings, progress)
    suspects.sort(key=lambda item: -item[0])
    _write_lines([line for _, line in suspects], aside, _format_of(args.sink))
    return f"{n_rows:,} row{'s' * (n_rows != 1)}, {len(suspects):,} suspicious cell{'s' * (len(suspects) != 1)}"


def _reasons(experts: Experts | None) -> str:
    """The columns that moved the expected value most, with what each added."""
    if experts is None:
        return ""
    parts = sorted(zip(experts.columns, experts.contributions[0].tolist(), strict=True), key=lambda p: -abs(p[1]))
    return "; ".join(f"{name} {part:+.4g}" for name, part in parts[:MOST_REASONS] if part)


def _write_lines(lines: list[list[Any]], aside: Path, write_as: Format) -> None:
    """A cell's value may be of any type: in a typed file it is text."""
    from service.files.rows import write_rows

    rows = [
        {
            name: cell if name in ("row", "surprise") else str(cell)
            for name, cell in zip(AUDIT_COLUMNS, line, strict=True)
        }
        for line in lines
    ]
    aside.write_bytes(write_rows(rows, write_as, AUDIT_COLUMNS))


def _text(cell: Any) -> str:
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)
