"""What is said of rows by somebody who has not learnt from them: of rows held out for good by the whole model, of rows
left out in turn by the members, and the law, that did without them.

Axis letters: N rows left out, n some of them, S columns, K values.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from model.bundle import Bundle
from model.codec import Positions
from model.export import export_onnx
from model.law import NormalLaw
from model.linear import LinearExpert
from model.network import MoeNetwork
from model.requests import Cells
from model.runtime import Predictor
from training.fit import Fitted, Network
from training.folds import N_LAWS, count_groups, group_members, group_rows
from training.parallel import n_cores
from training.tables import FitTable

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
# Each row is asked as it is and with a share of its cells hidden, up to these.
MOST_HIDDEN = (0.0, 0.6, 0.9)


class Told(NamedTuple):
    """Of column ``column`` of a table, what was said of those left-out rows (n,) whose cell is known: ``logits``
    (n, K) and the expected value, ``point`` (n,).
    """

    column: int
    rows: Rows
    logits: Floats
    point: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Teller:
    """Those who tell: of rows in a group of folds the one that has not learnt from it; a single one, of all."""

    predictors: Sequence[Predictor]

    def tell(self, table: FitTable, seen: Positions) -> Iterator[Told]:
        """Every column that has known cells, from what is ``seen`` of the left-out rows (N, S) beside it."""
        for j in range(len(table.columns)):
            rows = known_rows(table, j)
            if len(rows):
                outputs = self._ask(table, seen, j, rows, ("logits", "point"))
                yield Told(j, rows, outputs["logits"], outputs["point"])

    def explain(self, table: FitTable, seen: Positions, column: int, rows: Rows) -> tuple[Floats, Floats]:
        """What is said of a word before any column is heard, (n, K), and what each column adds, (n, S, K)."""
        outputs = self._ask(table, seen, column, rows, ("base", "contributions"))
        return outputs["base"], outputs["contributions"]

    def _ask(
        self, table: FitTable, seen: Positions, column: int, rows: Rows, names: Sequence[str]
    ) -> dict[str, Floats]:
        index = int(table.columns[column])
        group = np.zeros_like(rows) if table.fold is None else group_rows(table.fold[rows], len(self.predictors))
        found: dict[str, Floats] = {}
        for number, predictor in enumerate(self.predictors):
            some = np.flatnonzero(group == number)
            if len(some) == 0:
                continue
            outputs = predictor.ask(Cells.of(table.columns, seen[rows[some]]), [index], explain="base" in names)
            n_values = predictor.schema.features[index].n_values
            for name in names:
                part = outputs[name][:, 0] if name == "point" else outputs[name][:, 0, ..., :n_values]
                found.setdefault(name, np.empty((len(rows), *part.shape[1:])))[some] = part
        return found


def known_rows(table: FitTable, column: int) -> Rows:
    """The left-out rows whose cell is known, (n,)."""
    return np.flatnonzero(~np.isnan(table.truth[:, column]))


def hide_more(table: FitTable, most: float, rng: np.random.Generator) -> Positions:
    """The left-out rows, (N, S), each with a share of its cells hidden."""
    rows = table.positions[table.left_out]
    hidden = rng.random(rows.shape) < most * rng.random((len(rows), 1))
    return np.where(hidden, np.float32(np.nan), rows)


def tell_in_turn(draft: Bundle, fitted: Fitted) -> Teller:
    """Of each row those members tell that have not learnt from its group. They are some of those that will answer:
    what is found so is, if anything, worse than what is served. ``draft``: the bundle of all members.
    """
    assert isinstance(fitted.network, MoeNetwork)
    n_members = fitted.network.shape.n_members
    own, n_groups = group_members(n_members), count_groups(n_members)
    networks = [fitted.network.pick(np.flatnonzero(own == group).tolist()) for group in range(n_groups)]
    # A law may have done without other rows too.
    laws = [None] * N_LAWS if fitted.council is None else [expert.law for expert in fitted.council.fold_experts]
    return Teller([_open(draft, network, laws[i * N_LAWS // n_groups]) for i, network in enumerate(networks)])


def _open(draft: Bundle, network: MoeNetwork, law: NormalLaw | None) -> Predictor:
    """The predictor of some of a draft's members."""
    expert = None if law is None else LinearExpert(draft.schema, law, network.mean_lean())
    content = export_onnx(network, draft.schema.digest())
    manifest = {**draft.manifest, "network": sizes_of(network)}
    return Predictor(replace(draft, manifest=manifest, network=content, expert=expert), threads=n_cores())


def sizes_of(network: Network) -> dict[str, Any]:
    """How large a network is, as the manifest has it."""
    shape = network.shape
    return {"heads": shape.n_heads * shape.n_members, "width": shape.d_model, "members": shape.n_members}
