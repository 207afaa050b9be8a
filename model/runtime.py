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
from model.cells import read_cells, show_value
from model.errors import BundleError, CellError, CellProblem, list_some
from model.explain import Experts, explain_number, explain_value
from model.onnx_names import ANSWERS, CONTRACT, INPUTS
from model.schema import Feature, Link

Columns = Mapping[str, Sequence[Any] | NDArray[Any]]

# Rows are answered in pieces of about this many gates, so that memory does not grow with them.
MOST_GATES = 4_000_000


@dataclass(frozen=True, slots=True)
class Cells:
    """A request, read: which features its columns are (S,) and where its cells sit (B, S)."""

    names: tuple[str, ...]
    features: NDArray[np.int64]
    positions: codec.Positions
    warnings: tuple[str, ...] = ()


class Predictor:
    """A verified bundle, ready to answer."""

    def __init__(self, bundle: Bundle, *, threads: int = 1) -> None:
        self.bundle = bundle
        self.schema = bundle.schema
        self._session = _open_session(bundle, threads)
        self._brief = onnxruntime.RunOptions()
        self._brief.only_execute_path_to_fetches = True
        self._n_gates = int(bundle.manifest["network"]["heads"])

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
            raise CellError([CellProblem(None, table, f"there is no such table{_nearest(table, known)}")])
        return {link.column: link for link in known[table].links}

    def encode(
        self, columns: Columns, links: Mapping[str, Link], unknown: Literal["refuse", "ignore"] = "refuse"
    ) -> Cells:
        """Cells to positions; faults in any column are raised together."""
        names, features, positions, warnings = [], [], [], []
        problems: list[CellProblem] = []
        for name, cells in columns.items():
            link = links.get(name)
            if link is None:
                message = f"there is no such column{_nearest(name, links)}"
                if unknown == "refuse":
                    problems.append(CellProblem(None, name, message))
                warnings.append(f"column {name!r} ignored: {message}")
                continue
            index = self.schema.index[link.feature]
            try:
                reading = read_cells(self.schema.features[index], cells, link)
            except CellError as error:
                problems.extend(error.problems)
                continue
            names.append(name)
            features.append(index)
            positions.append(reading.positions)
            warnings.extend(_warn(name, self.schema.features[index], link, reading.unseen, reading.clamped))
        if problems:
            raise CellError(problems)
        n_rows = len(next(iter(columns.values()), ()))
        stacked = np.stack(positions, axis=1) if positions else np.empty((n_rows, 0), np.float32)
        return Cells(tuple(names), np.asarray(features, dtype=np.int64), stacked, tuple(warnings))

    def ask(self, cells: Cells, asked: Sequence[int], *, explain: bool = False) -> Outputs:
        """Run the network: one question per asked feature, for every row, in pieces."""
        features, positions = cells.features, cells.positions
        if len(features) == 0:  # nothing observed: one missing cell says the same and has a shape
            features, positions = np.asarray(asked[:1], np.int64), np.full((len(positions), 1), np.nan, np.float32)
        names = [output.name for output in self._session.get_outputs()] if explain else list(ANSWERS)
        per_row = max(1, len(asked) * len(features) * self._n_gates)
        step = max(1, MOST_GATES // per_row)
        feed = {"columns": features, "asked": np.asarray(asked, dtype=np.int64)}
        pieces = [
            self._session.run(names, {**feed, "positions": positions[i : i + step]}, self._brief)
            for i in range(0, max(1, len(positions)), step)
        ]
        fixed = {"base", "point_base"}  # the same for every row
        return {
            name: pieces[0][j] if name in fixed or len(pieces) == 1 else np.concatenate([p[j] for p in pieces])
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
        if target not in links:
            raise CellError([CellProblem(None, target, f"there is no such column{_nearest(target, links)}")])
        cells = self.encode({name: c for name, c in columns.items() if name != target}, links, unknown)
        if not cells.names and columns:
            cells = replace(cells, positions=np.empty((len(next(iter(columns.values()))), 0), np.float32))
        if explain:
            self._check_additive()
        outputs = self.ask(cells, [self.schema.index[links[target].feature]], explain=explain)
        answer = read_answer(self._feature(links[target]), links[target], outputs, 0, interval)
        if explain:
            experts = self._explain(outputs, 0, links[target])
            answer = replace(answer, experts=replace(experts, columns=cells.names))
        return replace(answer, warnings=cells.warnings)

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
        wanted = list(which) if which is not None else list(links) if named else [c for c in columns if c in links]
        for name in wanted:
            if name not in links:
                raise CellError([CellProblem(None, name, f"there is no such column{_nearest(name, links)}")])
        cells = self.encode(columns, links, unknown)
        empty = np.isnan(cells.positions)
        place = {name: j for j, name in enumerate(cells.names)}
        every = np.ones(len(cells.positions), dtype=bool)
        holes = {name: empty[:, place[name]] if name in place else every for name in wanted}
        holes = {name: rows for name, rows in holes.items() if rows.any()}
        if not holes:
            return Imputation({}, {}, cells.warnings)
        rows = np.flatnonzero(np.logical_or.reduce(list(holes.values())))
        asked = [self.schema.index[links[name].feature] for name in holes]
        outputs = self.ask(replace(cells, positions=cells.positions[rows]), asked)
        filled, where = {}, {}
        for q, (name, hole) in enumerate(holes.items()):
            mine = np.flatnonzero(hole[rows])
            part = {key: outputs[key][mine] for key in ANSWERS}
            link = links[name]
            filled[name], where[name] = read_answer(self._feature(link), link, part, q, interval), rows[mine]
        return Imputation(where, filled, cells.warnings)

    def _feature(self, link: Link) -> Feature:
        return self.schema.features[self.schema.index[link.feature]]

    def _check_additive(self) -> None:
        if not self.bundle.is_additive:
            preset = self.bundle.manifest["preset"]
            raise BundleError(f"model {self.bundle.name!r} (preset {preset!r}) has no exact contributions to explain")

    def _explain(self, outputs: Outputs, question: int, link: Link) -> Experts:
        feature = self._feature(link)
        if feature.kind in ("numeric", "datetime"):
            return explain_number(outputs, question, feature, link.scale, link.offset)
        chosen = outputs["logits"][:, question, : n_choices(feature)].argmax(axis=-1)
        return explain_value(outputs, question, chosen)


def _warn(name: str, feature: Feature, link: Link, unseen: NDArray[np.int64], clamped: NDArray[np.int64]) -> list[str]:
    warnings = []
    if len(unseen):
        warnings.append(f"column {name!r}: categories never seen, read as missing, in {_rows(unseen)}")
    if len(clamped):
        ends = (feature.knots.values[0], feature.knots.values[-1])
        low, high = sorted((end - link.offset) / link.scale for end in ends)
        if feature.kind == "datetime":
            shown = f"{show_value(feature, low)} to {show_value(feature, high)}"
        else:
            shown = f"{low:g} to {high:g}"
        warnings.append(f"column {name!r}: outside the fitted range {shown}, clamped, in {_rows(clamped)}")
    return warnings


def _rows(rows: NDArray[np.int64]) -> str:
    return f"row{'s' if len(rows) > 1 else ''} {list_some([str(row) for row in rows], ', ')}"


def _nearest(name: str, known: Mapping[str, object]) -> str:
    near = get_close_matches(name, list(known), n=1, cutoff=0.5)
    low = {other.lower(): other for other in known}
    near = near or [low[match] for match in get_close_matches(name.lower(), list(low), n=1, cutoff=0.5)]
    return f"; did you mean {near[0]!r}?" if near else f"; known are {list_some([repr(n) for n in known], ', ')}"


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
