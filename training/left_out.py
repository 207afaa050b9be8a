"""What is said of rows by somebody who has not learnt from them: of rows held out for good by the whole model, of rows
left out in turn by the members, and the law, that did without them.

Axis letters: N rows left out, n some of them, S columns, K values.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

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
from training.fit import Fitted
from training.folds import N_LAWS, count_groups, group_members, group_rows
from training.parallel import n_cores
from training.tables import FitTable

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
# Each row is asked as it is and with a share of its cells hidden, up to these.
MOST_HIDDEN = (0.0, 0.6, 0.9)
# So many numbers are asked for at once.
MOST_NUMBERS = 10_000_000


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
        n_values = self.predictors[0].schema.n_values
        n_at_once = max(1, MOST_NUMBERS // max(1, len(seen) * n_values))
        asked = [j for j in range(len(table.columns)) if len(known_rows(table, j))]
        for some in (asked[i : i + n_at_once] for i in range(0, len(asked), n_at_once)):
            outputs = self._ask(table, seen, some, np.arange(len(seen)))
            for question, j in enumerate(some):
                rows, k = known_rows(table, j), self._count_values(table, j)
                yield Told(j, rows, outputs["logits"][rows, question, :k], outputs["point"][rows, question])

    def explain(
        self, table: FitTable, seen: Positions, columns: Sequence[int], rows: Rows
    ) -> Iterator[tuple[Floats, Floats]]:
        """Of each word what is said before any column is heard, (n, K), and what each column adds, (n, S, K)."""
        outputs = self._ask(table, seen, columns, rows, explain=True)
        for question, j in enumerate(columns):
            k = self._count_values(table, j)
            yield outputs["base"][:, question, :k], outputs["contributions"][:, question, :, :k]

    def _ask(
        self, table: FitTable, seen: Positions, columns: Sequence[int], rows: Rows, *, explain: bool = False
    ) -> dict[str, Floats]:
        """All questions of a row at once: an expert then works out its pattern of cells once."""
        asked = table.columns[list(columns)].tolist()
        group = np.zeros_like(rows) if table.fold is None else group_rows(table.fold[rows], len(self.predictors))
        found: dict[str, Floats] = {}
        for number, predictor in enumerate(self.predictors):
            some = np.flatnonzero(group == number)
            outputs = predictor.ask(Cells.of(table.columns, seen[rows[some]]), asked, explain=explain)
            for name in ("base", "contributions") if explain else ("logits", "point"):
                found.setdefault(name, np.empty((len(rows), *outputs[name].shape[1:])))[some] = outputs[name]
        return found

    def _count_values(self, table: FitTable, column: int) -> int:
        n_values: int = self.predictors[0].schema.features[table.columns[column]].n_values
        return n_values


def known_rows(table: FitTable, column: int) -> Rows:
    """The left-out rows whose cell is known, (n,)."""
    return np.flatnonzero(~np.isnan(table.truth[:, column]))


def hide_more(table: FitTable, most: float, rng: np.random.Generator) -> Positions:
    """The left-out rows, (N, S), each with a share of its cells hidden."""
    rows = table.positions[table.tested]
    hidden = rng.random(rows.shape) < most * rng.random((len(rows), 1))
    return np.where(hidden, np.float32(np.nan), rows)


def tell_in_turn(draft: Bundle, fitted: Fitted) -> Teller:
    """Of each row those members tell that have not learnt from its group. They are some of those that will answer:
    what is found so is, if anything, worse than what is served. ``draft``: the bundle of all members.
    """
    assert isinstance(fitted.network, MoeNetwork)
    n_members = fitted.network.shape.n_members
    own, n_groups = group_members(n_members), count_groups(n_members)
    # A law may have done without other rows too.
    laws = [None] * N_LAWS if fitted.council is None else [expert.law for expert in fitted.council.fold_experts]
    return Teller(
        [
            _open(draft, fitted.network.pick(np.flatnonzero(own == group).tolist()), laws[group % N_LAWS])
            for group in range(n_groups)
        ]
    )


def _open(draft: Bundle, network: MoeNetwork, law: NormalLaw | None) -> Predictor:
    """The predictor of some of a draft's members."""
    expert = None if law is None else LinearExpert(draft.schema, law, network.mean_lean())
    content = export_onnx(network, draft.schema.digest())
    manifest = {**draft.manifest, "network": network.shape.sizes}
    return Predictor(replace(draft, manifest=manifest, network=content, expert=expert), threads=n_cores())
