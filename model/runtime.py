"""Predictor: a loaded bundle that predicts, imputes, explains and encodes. No torch, no pandas.

Everything is columns: a request is a mapping from column name to a list of cells, one per row.
Axis letters: B rows, S columns, Q questions, K values.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from model.answers import FIXED, Imputation, Outputs, Prediction, n_choices, read_answer
from model.bundle import Bundle, read_bundle
from model.cells import Reading, read_cells
from model.errors import AskError, CellError, CellProblem
from model.explain import Experts, Heard, explain_number, explain_value
from model.holes import ask_holes, fill_row
from model.onnx_names import ANSWERS, CONTRACT
from model.requests import Cells, Columns, check_interval, check_lengths, nearest, tell_strangers, warn_of
from model.schema import Feature, Link
from model.session import count_heads, open_network
from model.single import Readout, make_reader, make_readout, read_row
from model.straying import Ends, plain_ends

# Rows are answered in pieces of about this many gates: memory then grows with the answers alone.
MOST_GATES = 400_000
# So many ways to read single answers are kept; links of tables that are registered anew are new ones.
MOST_READOUTS = 20_000
# Where the holes of a single row are.
FIRST = np.zeros(1, dtype=np.int64)
FIRST.flags.writeable = False
# Called between pieces of long work, for others to have a turn (or to end it by raising).
Pause = Callable[[], None]


class Predictor:
    """A verified bundle, ready to answer."""

    def __init__(self, bundle: Bundle, *, threads: int = 1) -> None:
        self.bundle = bundle
        self.schema = bundle.schema
        self._network = open_network(bundle, threads)
        self._n_heads = count_heads(bundle)
        self._readers = {feature.name: make_reader(feature) for feature in self.schema.features}
        self._own_links = {feature.name: Link(feature.name, feature.name) for feature in self.schema.features}
        self._readouts: dict[int, tuple[Link, Readout | None]] = {}
        self._links = {table.name: {link.column: link for link in table.links} for table in self.schema.tables}

    @classmethod
    def load(cls, path: Path | str, *, threads: int = 1) -> "Predictor":
        """Read, verify and open a bundle directory."""
        return cls(read_bundle(Path(path)), threads=threads)

    def links(self, table: str | None) -> Mapping[str, Link]:
        """What names mean: the columns of a table, or, without one, the features themselves."""
        if table is None:
            return self._own_links
        if table not in self._links:
            raise AskError(f"there is no table {table!r}{nearest(table, self._links)}")
        return self._links[table]

    def encode(
        self,
        columns: Columns,
        links: Mapping[str, Link],
        unknown: Literal["refuse", "ignore"] = "refuse",
        table: str | None = None,
    ) -> Cells:
        """Cells to positions; faults in any column are raised together. Columns of ``table`` that were
        left out when it was fitted are ignored, with a warning.
        """
        n_rows = check_lengths(columns)
        plain = read_row(columns, links, self._readers) if n_rows == 1 else None
        if plain is not None:
            row = np.asarray([plain], dtype=np.float32)
            return Cells(tuple(columns), self._indices([links[name] for name in columns]), row, ~np.isnan(row))
        left_out = self.schema.by_table[table].left_out if table in self.schema.by_table else {}
        known = [name for name in columns if name in links]
        told = tell_strangers([name for name in columns if name not in links and name not in left_out], links)
        problems = [CellProblem(None, name, message) for name, message in told] if unknown == "refuse" else []
        readings: list[Reading] = []
        for name in known:
            try:
                readings.append(read_cells(self.feature_of(links[name]), columns[name], links[name]))
            except CellError as error:
                problems.extend(error.problems)
        if problems:
            raise CellError(problems)
        passed = [name for name in columns if name in left_out and name not in links]
        ignored = [(name, f"left out when the table was fitted ({left_out[name]})") for name in passed]
        warnings = [f"column {name!r} ignored: {message}" for name, message in (*told, *ignored)]
        for name, reading in zip(known, readings, strict=True):
            warnings += warn_of(links[name], self.feature_of(links[name]), reading)
        return Cells.read(known, self._indices([links[name] for name in known]), n_rows, readings, warnings)

    def ask(
        self, cells: Cells, asked: Sequence[int], *, explain: bool = False, means_only: bool = False,
        pause: Pause | None = None,
    ) -> Outputs:  # fmt: skip
        """Run the network: one question per asked feature, for every row, in pieces; ``pause`` between them.
        ``means_only``: nobody will look at the logits of numbers, and they may be wrong.
        """
        if explain and not self.bundle.is_additive:
            preset = self.bundle.manifest["preset"]
            raise AskError(f"model {self.bundle.name!r} (preset {preset!r}) has no exact contributions to explain")
        features, positions = cells.features, cells.positions
        if len(features) == 0:  # nothing observed: one missing cell says the same and has a shape
            features, positions = np.asarray(asked[:1], np.int64), np.full((len(positions), 1), np.nan, np.float32)
        if len(positions) == 0:  # no rows: the answer for one, less that one
            some = self.ask(Cells.of(features, np.full((1, len(features)), np.nan, np.float32)), asked, explain=explain)
            return {name: output if name in FIXED else output[:0] for name, output in some.items()}
        names = list(CONTRACT[True] if explain else ANSWERS)
        step = max(1, MOST_GATES // max(1, len(asked) * len(features) * self._n_heads))
        feed: dict[str, NDArray[Any]] = {"columns": features, "asked": np.asarray(asked, dtype=np.int64)}
        pieces = []
        for i in range(0, len(positions), step):
            feed["positions"] = positions[i : i + step]
            pieces.append(self._network.run(names, feed, means_only=means_only))
            if pause is not None:
                pause()
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
        check_interval(interval)
        link, cells = self.prepare(columns, target, table=table, links=links, unknown=unknown)
        return replace(self.answer(cells, link, interval=interval, explain=explain), warnings=cells.warnings)

    def prepare(
        self,
        columns: Columns,
        target: str,
        *,
        table: str | None = None,
        links: Mapping[str, Link] | None = None,
        unknown: Literal["refuse", "ignore"] = "refuse",
    ) -> tuple[Link, Cells]:
        """What is asked for, and the request read: all of ``predict`` that looks at every row."""
        links = self.links(table) if links is None else links
        link = self.resolve(target, links)
        n_rows = check_lengths(columns)
        cells = self.encode({name: c for name, c in columns.items() if name != target}, links, unknown, table)
        if not cells.names:
            cells = replace(cells, positions=np.empty((n_rows, 0), np.float32))
        return link, cells

    def answer(self, cells: Cells, link: Link, *, interval: float | None = None, explain: bool = False) -> Prediction:
        """Predict the column ``link`` from rows that were read before."""
        outputs = self.ask(cells, [self.schema.index[link.feature]], explain=explain)
        return self.read(outputs, link, cells, interval, explain)

    def read_single(
        self, row: Mapping[str, Sequence[Any]], link: Link, links: Mapping[str, Link]
    ) -> tuple[Readout, tuple[int, ...], list[float]] | None:
        """One row of plain cells (without the target): how its answer is read, which features its columns are,
        and where its cells sit; None: take the general way.
        """
        plain = read_row(row, links, self._readers)
        readout = self.readout_of(link)
        if not plain or readout is None:
            return None
        index = self.schema.index
        return readout, tuple(index[links[name].feature] for name in row), plain

    def readout_of(self, link: Link) -> Readout | None:
        """How single answers about a column are read, if they are."""
        known = self._readouts.get(id(link))  # by identity: to hash a link takes longer than to read an answer
        if known is None:
            if len(self._readouts) >= MOST_READOUTS:
                self._readouts.clear()
            at = self.schema.index[link.feature]
            known = (link, make_readout(self.feature_of(link), link, at, self.bundle.calibration))
            self._readouts[id(link)] = known  # the link is kept with it, so its identity stays its own
        return known[1]

    def ask_singles(
        self, columns: tuple[int, ...], rows: Sequence[Sequence[float]], asked: NDArray[np.int64]
    ) -> tuple[list[list[float]], list[float]]:
        """Run the network for rows of the same columns and one question: logits and expected value of each."""
        feed: dict[str, NDArray[Any]] = {
            "columns": np.asarray(columns, dtype=np.int64),
            "positions": np.asarray(rows, dtype=np.float32),
            "asked": asked,
        }
        logits, point = self._network.run(ANSWERS, feed)
        return logits[:, 0].tolist(), point[:, 0].tolist()

    def impute(
        self,
        columns: Columns,
        *,
        table: str | None = None,
        links: Mapping[str, Link] | None = None,
        which: Sequence[str] | None = None,
        interval: float | None = None,
        explain: bool = False,
        unknown: Literal["refuse", "ignore"] = "refuse",
        pause: Pause | None = None,
        brief: bool = False,
    ) -> Imputation:
        """Answer every missing cell of the wanted columns (default: all of the table's, or of the rows'). ``brief``:
        medians and distributions will not be looked at, and need not be there.
        """
        check_interval(interval)
        links, cells, holes = self.find_holes(columns, table=table, links=links, which=which, unknown=unknown)
        if len(cells.positions) == 1 and not explain:
            row = fill_row(self, cells, {name: links[name] for name in holes}, interval, brief)
            return Imputation(dict.fromkeys(holes, FIRST), row, cells.warnings)
        rows: dict[str, NDArray[np.int64]] = {}
        filled: dict[str, Prediction] = {}
        for name, where, outputs in ask_holes(self, cells, holes, links, explain=explain, pause=pause):
            rows[name] = where
            those = cells if len(where) == len(cells.positions) else cells.rows(where)
            filled[name] = self.read(outputs, links[name], those, interval, explain)
        return Imputation(rows, filled, cells.warnings)

    def find_holes(
        self,
        columns: Columns,
        *,
        table: str | None,
        links: Mapping[str, Link] | None,
        which: Sequence[str] | None,
        unknown: Literal["refuse", "ignore"],
    ) -> tuple[Mapping[str, Link], Cells, dict[str, NDArray[np.bool_]]]:
        """What names mean, the request read, and for each wanted column the rows that lack it (B,);
        columns without a hole are left out.
        """
        named = links is not None or table is not None
        links = self.links(table) if links is None else links
        wanted = list(which) if which is not None else list(links) if named else [c for c in columns if c in links]
        if which is not None:
            links = {**links, **{name: self.resolve(name, links) for name in wanted}}
        cells = self.encode(columns, links, unknown, table)
        return links, cells, cells.find_holes(wanted)

    def resolve(self, name: str, links: Mapping[str, Link]) -> Link:
        """What is asked for: a column of the table, or a feature that the table does not have."""
        if name in links:
            return links[name]
        if name in self.schema.index:
            return self._own_links[name]
        raise CellError([CellProblem(None, name, f"there is no such column{nearest(name, links)}")])

    def _indices(self, links: Sequence[Link]) -> NDArray[np.int64]:
        return np.asarray([self.schema.index[link.feature] for link in links], dtype=np.int64)

    def feature_of(self, link: Link) -> Feature:
        """The feature that a column is."""
        return self.schema.features[self.schema.index[link.feature]]

    def read(
        self, outputs: Outputs, link: Link, cells: Cells, interval: float | None = None, explain: bool = False
    ) -> Prediction:
        """The answer to the only question of ``outputs``, asked of ``cells``."""
        readout = self.readout_of(link) if len(cells.positions) == 1 and not explain else None
        if readout is not None:
            n_observed = cells.count_in_row(self.schema.index[link.feature])
            logits, point = outputs["logits"][0, 0].tolist(), float(outputs["point"][0, 0])
            return readout.answer(readout.read(logits, point, interval, n_observed))
        answer = read_answer(self.feature_of(link), link, outputs, 0, self._ends(cells, link, interval))
        return replace(answer, experts=self._explain(outputs, link, cells)) if explain else answer

    def _ends(self, cells: Cells, link: Link, interval: float | None) -> Ends:
        """Where median and interval of each row lie."""
        asked, calibration = self.schema.index[link.feature], self.bundle.calibration
        if calibration is None or not self.feature_of(link).is_number:
            return plain_ends(len(cells.positions), interval)
        return calibration.ends(asked, cells.count_observed(asked), interval)

    def calibrate_levels(self, cells: Cells, asked: int, levels: NDArray[np.float64]) -> NDArray[np.float64]:
        """Levels of each row's distribution (B,), as held-out rows say they are."""
        calibration = self.bundle.calibration
        return levels if calibration is None else calibration.levels(asked, cells.count_observed(asked), levels)

    def _explain(self, outputs: Outputs, link: Link, cells: Cells) -> Experts:
        feature = self.feature_of(link)
        heard = Heard(cells.names, ~np.isnan(cells.positions[:, : len(cells.names)]))
        if feature.is_continuous:
            return explain_number(outputs, 0, feature, link, heard)
        return explain_value(outputs, 0, outputs["logits"][:, 0, : n_choices(feature)].argmax(axis=-1), heard)
