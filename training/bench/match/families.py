"""Families of tables from other sources, with the truth of which columns mean the same: nothing is cut or made up.

A folder holds a folder for each family, with its tables as CSV files and the truth in ``matches.csv``. No column is
told to be shared. Pairs of kind "same" or "unit-changed" are true; "related" and "binned" ones count neither for nor
against. Of larger tables ``MOST_ROWS`` rows are drawn; texts that are another in most rows are left out.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from model.errors import FamilyError
from training.bench.impute.tables import clean
from training.bench.match.peers import PEERS
from training.bench.match.scoring import OURS, Method, assign, rule_out
from training.bench.match.valentine_peers import COMA, SELECTING, SELECTING_BY_NAME

MOST_ROWS = 3_000
LEAST_TRUE = 3
TRUE_KINDS = ("same", "unit-changed")
HIDDEN, NAMES = "hidden", "names"
# Who takes part; without shared columns nothing can be known by them.
METHODS = {HIDDEN: (OURS, "ks", *SELECTING), NAMES: (OURS, COMA)}
METRICS = ("precision", "recall", "recall_at_truth")
# The one-to-one pairs of ``ks`` that are accepted; valentine has its own rule.
LEAST_ALIKE = 0.8
# Family, two of its tables, form, method.
Task = tuple[str, str, str, str, str]
Found = list[tuple[str, str, float]]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two tables; ``truth``: pairs of columns that mean the same; ``neither``: pairs that do not count."""

    left: pd.DataFrame
    right: pd.DataFrame
    truth: frozenset[tuple[str, str]]
    neither: frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Counts:
    """Of one pair of tables: accepted pairs and the right ones among them; true pairs, and those among as many best."""

    accepted: int
    right: int
    true: int
    first: int


def list_pairs(folder: Path) -> list[tuple[str, str, str]]:
    """Family and two tables, wherever enough columns are the same."""
    families = sorted(file.parent.name for file in folder.glob("*/matches.csv"))
    if not families:
        raise FamilyError(
            f"--data {folder}: no matches.csv in any folder there; expected FAMILY/matches.csv beside the tables"
            " FAMILY/*.csv: give the folder above the families"
        )
    listed = [(family, one, other) for family in families for one, other in _list_tables(folder / family)]
    return [key for key in listed if len(load_pair(folder, *key).truth) >= LEAST_TRUE]


def load_pair(folder: Path, family: str, one: str, other: str) -> Pair:
    """Two tables and their truth, both as far as their columns were kept."""
    left, right = (read_table(folder / family / f"{name}.csv") for name in (one, other))
    kinds = {
        pair: kind
        for pair, kind in _read_truth(folder / family, one, other).items()
        if pair[0] in left.columns and pair[1] in right.columns
    }
    truth = frozenset(pair for pair, kind in kinds.items() if kind in TRUE_KINDS)
    return Pair(left, right, truth, frozenset(kinds) - truth)


@cache
def read_table(file: Path) -> pd.DataFrame:
    """What is a number in every cell is one; an empty cell is missing, and no word is."""
    raw = pd.read_csv(file, dtype=str, keep_default_na=False, na_values=[""])
    raw = raw.sample(n=min(len(raw), MOST_ROWS), random_state=0).reset_index(drop=True)
    frame = clean(pd.DataFrame({c: _read_numbers(raw[c]) for c in raw.columns}))
    return frame[[c for c in frame.columns if frame[c].notna().any() and not _is_id(frame[c])]]


def work(folder: Path, task: Task) -> list[float]:
    """The counts of one method on two tables."""
    family, one, other, form, method = task
    pair = load_pair(folder, family, one, other)
    if form == HIDDEN:
        pair = hide_names(pair)
    accepted, ranked = _find(pair, form, method)
    return [float(count) for count in astuple(count_right(pair, accepted, ranked))]


def hide_names(pair: Pair) -> Pair:
    """The same with columns in another order and called l0, l1, ... and r0, r1, ..."""
    rng = np.random.default_rng(0)
    order = [rng.permutation(table.shape[1]) for table in (pair.left, pair.right)]
    left, right = (table.iloc[:, o] for table, o in zip((pair.left, pair.right), order, strict=True))
    one, other = ({str(c): f"{side}{i}" for i, c in enumerate(t.columns)} for side, t in (("l", left), ("r", right)))
    truth, neither = (frozenset((one[a], other[b]) for a, b in pairs) for pairs in (pair.truth, pair.neither))
    return Pair(left.rename(columns=one), right.rename(columns=other), truth, neither)


def count_right(pair: Pair, accepted: Found, ranked: Found) -> Counts:
    """``ranked``: one-to-one pairs, best first, of which as many as there are true ones are looked at."""
    counted = [(a, b) for a, b, _ in accepted if (a, b) not in pair.neither]
    best = [(a, b) for a, b, _ in ranked if (a, b) not in pair.neither][: len(pair.truth)]
    right, first = (sum(found in pair.truth for found in some) for some in (counted, best))
    return Counts(len(counted), right, len(pair.truth), first)


def summarize(counts: Sequence[Sequence[float]]) -> dict[str, float]:
    """Precision, recall and recall at truth over all pairs of tables of a family; no pair accepted, no precision."""
    accepted, right, true, first = np.sum(counts, axis=0)
    precision = right / accepted if accepted else float("nan")
    return dict(zip(METRICS, map(float, (precision, right / true, first / true)), strict=True))


def _find(pair: Pair, form: str, method: str) -> tuple[Found, Found]:
    """The pairs that a method accepts, and its one-to-one pairs, best first."""
    if method == OURS:
        from training.bench.match.ours import LEAST_SURE, rank_pairs

        found = rank_pairs(pair.left, pair.right, names=form == NAMES)
        return [one for one in found if one[2] >= LEAST_SURE], found
    scores = rule_out(_choose(form, method)(pair.left, pair.right, []), pair.left, pair.right)
    ranked = sorted((one for one in assign(scores) if one[2] > 0.0), key=lambda one: -one[2])
    told = scores.to_numpy()[scores.to_numpy() > 0.0]
    # The package's own rule: what is at least as similar as half of the pairs that it gives.
    least = LEAST_ALIKE if method in PEERS else float(np.median(told)) if told.size else 0.0
    return [one for one in ranked if one[2] >= least], ranked


def _choose(form: str, method: str) -> Method:
    if form == NAMES:
        return SELECTING_BY_NAME[method]
    return PEERS[method] if method in PEERS else SELECTING[method]


def _list_tables(family: Path) -> list[tuple[str, str]]:
    truth = pd.read_csv(family / "matches.csv", dtype=str)
    both = zip(truth["table_a"], truth["table_b"], strict=True)
    return sorted(Counter((min(a, b), max(a, b)) for a, b in both))


def _read_truth(family: Path, one: str, other: str) -> dict[tuple[str, str], str]:
    truth = pd.read_csv(family / "matches.csv", dtype=str, keep_default_na=False)
    kinds = {}
    for row in truth.itertuples():
        if (row.table_a, row.table_b) == (one, other):
            kinds[str(row.column_a), str(row.column_b)] = str(row.kind)
        elif (row.table_a, row.table_b) == (other, one):
            kinds[str(row.column_b), str(row.column_a)] = str(row.kind)
    return kinds


def _read_numbers(cells: pd.Series) -> pd.Series:
    numbers = pd.to_numeric(cells, errors="coerce")
    return cells if (numbers.isna() & cells.notna()).any() else numbers


def _is_id(cells: pd.Series) -> bool:
    return bool(cells.dtype == object and cells.nunique() > 0.5 * cells.notna().sum())
