"""Predictor: a loaded bundle that predicts, imputes, explains and encodes. No torch, no pandas.

Everything is columns: a request is a mapping from column name to a list of cells, one per row.
Axis letters: B rows, S columns, Q questions, K values.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from model import codec
from model.answers import Imputation, Outputs, Prediction, n_choices, read_answer
from model.bundle import Bundle, read_bundle
from model.cells import Reading, read_cells, show_value
from model.errors import AskError, BundleError, CellError, CellProblem, list_some
from model.explain import Experts, explain_number, explain_value
from model.onnx_names import ANSWERS, CONTRACT, INPUTS
from model.schema import Feature, Link

Columns = Mapping[str, Sequence[Any] | NDArray[Any]]

# Rows are answered in pieces of about this many gates: memory then grows with the answers alone.
MOST_GATES = 4_000_000
# Outputs that are the same for every row.
FIXED = frozenset({"base", "point_base"})


@dataclass(frozen=True, slots=True)
class Cells:
    """A request, read: which features its columns are (S,), where its cells sit and whether there was
    one, (B, S) each. A cell that was given but has no position is a category never seen.
    """

    names: tuple[str, ...]
    features: NDArray[np.int64]
    positions: codec.Positions
    given: NDArray[np.bool_]
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, features: NDArray[np.int64], positions: codec.Positions) -> "Cells":
        """Cells that are positions already."""
        return cls((), features, positions, ~np.isnan(positions))

    def rows(self, rows: NDArray[np.int64]) -> "Cells":
        return replace(self, positions=self.positions[rows], given=self.given[rows])


class Predictor:
    """A verified bundle, ready to answer."""

    def __init__(self, bundle: Bundle, *, threads: int = 1) -> None:
        self.bundle = bundle
        self.schema = bundle.schema
        self._session = _open_session(bundle, threads)
        self._brief = onnxruntime.RunOptions()
        self._brief.only_execute_path_to_fetches = True
        self._n_heads = _count_heads(bundle)

    @classmethod
    def load(cls, path: Path, *, threads: int = 1) -> "Predictor":
        """Read, verify and open a bundle directory."""
        return cls(read_bundle(path), threads=threads)

    def links(self, table: str | None) -> dict[str, Link]:
        """What names mean: the columns of a table, or, without one, the features themselves."""
        if table is None:
            return {name: Link(name, name) for name in self.schema.index}
        known = self.schema.by_table
        if table not in known:
            raise AskError(f"there is no table {table!r}{_nearest(table, known)}")
        return {link.column: link for link in known[table].links}

    def encode(
        self, columns: Columns, links: Mapping[str, Link], unknown: Literal["refuse", "ignore"] = "refuse"
    ) -> Cells:
        """Cells to positions; faults in any column are raised together."""
        n_rows = _check_lengths(columns)
        names: list[str] = []
        readings: list[Reading] = []
        warnings: list[str] = []
        problems: list[CellProblem] = []
        for name, cells in columns.items():
            link = links.get(name)
            if link is None:
                message = f"there is no such column{_nearest(name, links)}"
                if unknown == "refuse":
                    problems.append(CellProblem(None, name, message))
                warnings.append(f"column {name!r} ignored: {message}")
                continue
            try:
                reading = read_cells(self._feature(link), cells, link)
            except CellError as error:
                problems.extend(error.problems)
                continue
            names.append(name)
            readings.append(reading)
            warnings.extend(_warn(link, self._feature(link), reading))
        if problems:
            raise CellError(problems)
        features = np.asarray([self.schema.index[links[name].feature] for name in names], dtype=np.int64)
        positions, given = np.empty((n_rows, len(names)), np.float32), np.empty((n_rows, len(names)), dtype=bool)
        for j, reading in enumerate(readings):
            positions[:, j], given[:, j] = reading.positions, reading.given
        return Cells(tuple(names), features, positions, given, tuple(warnings))

    def ask(self, cells: Cells, asked: Sequence[int], *, explain: bool = False) -> Outputs:
        """Run the network: one question per asked feature, for every row, in pieces."""
        features, positions = cells.features, cells.positions
        if len(features) == 0:  # nothing observed: one missing cell says the same and has a shape
            features, positions = np.asarray(asked[:1], np.int64), np.full((len(positions), 1), np.nan, np.float32)
        if len(positions) == 0:  # no rows: the answer for one, less that one
            some = self.ask(Cells.of(features, np.full((1, len(features)), np.nan, np.float32)), asked, explain=explain)
            return {name: output if name in FIXED else output[:0] for name, output in some.items()}
        names = list(CONTRACT[True] if explain else ANSWERS)
        step = max(1, MOST_GATES // max(1, len(asked) * len(features) * self._n_heads))
        feed = {"columns": features, "asked": np.asarray(asked, dtype=np.int64)}
        pieces = [
            self._session.run(names, {**feed, "positions": positions[i : i + step]}, self._brief)
            for i in range(0, len(positions), step)
        ]
        return {
            name: pieces[0][j] if name in FIXED or len(pieces) == 1 else np.concatenate([p[j] for p in pieces])
            for j, name in enumerate(names)
        }

    def predict(
        self,
        columns: Columns,
        target: str,
        *,
        table: str | None = None,
        links: Mapping[str, Link] | None = None,
        interval: float | None = None,
        explain: bool = False,
        unknown: Literal["refuse", "ignore"] = "refuse",
    ) -> Prediction:
        """Predict one column from whatever the rows hold of the others; its own cells are not looked at."""
        links = self.links(table) if links is None else links
        _check_interval(interval)
        _check_named(target, links)
        if explain and not self.bundle.is_additive:
            preset = self.bundle.manifest["preset"]
            raise AskError(f"model {self.bundle.name!r} (preset {preset!r}) has no exact contributions to explain")
        n_rows = _check_lengths(columns)
        cells = self.encode({name: c for name, c in columns.items() if name != target}, links, unknown)
        if not cells.names:
            cells = replace(cells, positions=np.empty((n_rows, 0), np.float32))
        link = links[target]
        outputs = self.ask(cells, [self.schema.index[link.feature]], explain=explain)
        answer = read_answer(self._feature(link), link, outputs, 0, interval)
        experts = self._explain(outputs, link, cells.names) if explain else None
        return replace(answer, experts=experts, warnings=cells.warnings)

    def impute(
        self,
        columns: Columns,
        *,
        table: str | None = None,
        links: Mapping[str, Link] | None = None,
        which: Sequence[str] | None = None,
        interval: float | None = None,
        unknown: Literal["refuse", "ignore"] = "refuse",
    ) -> Imputation:
        """Answer every missing cell of the wanted columns (default: all of the table's, or of the rows')."""
        named = links is not None or table is not None
        links = self.links(table) if links is None else links
        _check_interval(interval)
        wanted = list(which) if which is not None else list(links) if named else [c for c in columns if c in links]
        for name in wanted:
            _check_named(name, links)
        cells = self.encode(columns, links, unknown)
        holes = self._holes(cells, wanted)
        rows: dict[str, NDArray[np.int64]] = {}
        filled: dict[str, Prediction] = {}
        for name, (where, outputs) in self._ask_holes(cells, holes, links).items():
            rows[name] = where
            filled[name] = read_answer(self._feature(links[name]), links[name], outputs, 0, interval)
        return Imputation(rows, filled, cells.warnings)

    def _holes(self, cells: Cells, wanted: Sequence[str]) -> dict[str, NDArray[np.bool_]]:
        """Which rows lack each wanted column; columns without a hole are left out."""
        place = {name: j for j, name in enumerate(cells.names)}
        everywhere = np.ones(len(cells.given), dtype=bool)
        holes = {name: ~cells.given[:, place[name]] if name in place else everywhere for name in wanted}
        return {name: rows for name, rows in holes.items() if rows.any()}

    def _ask_holes(
        self, cells: Cells, holes: Mapping[str, NDArray[np.bool_]], links: Mapping[str, Link]
    ) -> dict[str, tuple[NDArray[np.int64], Outputs]]:
        """Ask for the holes and nothing else: rows with the same holes together if they are all alike,
        else column by column. Each answer holds one question.
        """
        asked = {name: self.schema.index[links[name].feature] for name in holes}
        masks = np.stack(list(holes.values()), axis=1) if holes else np.empty((0, 0), dtype=bool)
        if len(masks) and (masks == masks[0]).all():
            outputs = self.ask(cells, list(asked.values()))
            every = np.arange(len(masks))
            return {n: (every, {k: v[:, q : q + 1] for k, v in outputs.items()}) for q, n in enumerate(asked)}
        where = {name: np.flatnonzero(mask) for name, mask in holes.items()}
        return {name: (where[name], self.ask(cells.rows(where[name]), [asked[name]])) for name in holes}

    def _feature(self, link: Link) -> Feature:
        return self.schema.features[self.schema.index[link.feature]]

    def _explain(self, outputs: Outputs, link: Link, columns: tuple[str, ...]) -> Experts:
        feature = self._feature(link)
        if feature.kind in ("numeric", "datetime"):
            experts = explain_number(outputs, 0, feature, link.scale, link.offset)
        else:
            experts = explain_value(outputs, 0, outputs["logits"][:, 0, : n_choices(feature)].argmax(axis=-1))
        n = len(columns)  # none where nothing is observed
        return replace(
            experts, columns=columns, weights=experts.weights[:, :n], contributions=experts.contributions[:, :n]
        )


def _check_lengths(columns: Columns) -> int:
    """All columns must have one cell per row; returns the number of rows."""
    lengths: dict[str, int] = {}
    for name, cells in columns.items():
        if isinstance(cells, str) or not hasattr(cells, "__len__") or getattr(cells, "ndim", 1) != 1:
            raise CellError([CellProblem(None, name, "expected a list of cells, one per row")])
        lengths[name] = len(cells)
    if len(set(lengths.values())) > 1:
        shown = list_some([f"{name!r} has {n}" for name, n in lengths.items()], ", ")
        raise AskError(f"all columns must have one cell per row, but {shown}")
    return next(iter(lengths.values()), 0)


def _check_interval(interval: float | None) -> None:
    if interval is not None and not (isinstance(interval, int | float) and 0.0 < interval < 1.0):
        raise AskError(f"interval must be a number between 0 and 1, such as 0.9, not {interval!r}")


def _check_named(name: str, links: Mapping[str, Link]) -> None:
    if name not in links:
        raise CellError([CellProblem(None, name, f"there is no such column{_nearest(name, links)}")])


def _warn(link: Link, feature: Feature, reading: Reading) -> list[str]:
    warnings = []
    unseen = np.flatnonzero(reading.given & np.isnan(reading.positions))
    if len(unseen):
        warnings.append(f"column {link.column!r}: categories never seen, read as missing, in {_rows(unseen)}")
    beyond = np.flatnonzero(reading.beyond)
    if len(beyond):
        ends = (feature.knots.values[0], feature.knots.values[-1])
        low, high = sorted((end - link.offset) / link.scale for end in ends)
        shown = [show_value(feature, end) if feature.kind == "datetime" else f"{end:g}" for end in (low, high)]
        range_ = f"the fitted range {shown[0]} to {shown[1]}"
        warnings.append(f"column {link.column!r}: outside {range_}, clamped, in {_rows(beyond)}")
    return warnings


def _rows(rows: NDArray[np.int64]) -> str:
    return f"row{'s' if len(rows) > 1 else ''} {list_some([str(row) for row in rows], ', ')}"


def _nearest(name: str, known: Mapping[str, object]) -> str:
    near = get_close_matches(name, list(known), n=1, cutoff=0.5)
    low = {other.lower(): other for other in known}
    near = near or [low[match] for match in get_close_matches(name.lower(), list(low), n=1, cutoff=0.5)]
    return f"; did you mean {near[0]!r}?" if near else f"; known are {list_some([repr(n) for n in known], ', ')}"


def _count_heads(bundle: Bundle) -> int:
    try:
        return max(1, int(bundle.manifest["network"]["heads"]))
    except (KeyError, TypeError, ValueError) as error:
        raise BundleError(f"bundle {bundle.name!r}: bundle.json does not say how many heads there are") from error


def _open_session(bundle: Bundle, threads: int) -> onnxruntime.InferenceSession:
    """Open the network from bytes (no second file can be pulled in) and hold it to its bundle.json."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        session = onnxruntime.InferenceSession(bundle.network, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises types of its own that it does not export
        raise BundleError(f"bundle {bundle.name!r}: model.onnx cannot be opened: {error}") from error
    names = [value.name for value in session.get_inputs()]
    given = [value.name for value in session.get_outputs()]
    if names != list(INPUTS) or given != list(CONTRACT[bundle.is_additive]):
        raise BundleError(
            f"bundle {bundle.name!r}: model.onnx takes {names} and gives {given}: not what is served here"
        )
    width = session.get_outputs()[0].shape[-1]
    digest = session.get_modelmeta().custom_metadata_map.get("schema")
    if width != bundle.schema.n_values or digest != bundle.schema.digest():
        raise BundleError(f"bundle {bundle.name!r}: model.onnx was not made for the features of this bundle.json")
    return session
