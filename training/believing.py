"""How far each column is believed in what it says of a word, once all else is learnt.

In a fit every column gets a say in every question, also where it knows nothing of it: with few rows it finds something
all the same. What columns say of a word adds up exactly, so each one's say can be weighed by rows that were left out:

    logits_m = log shares + belief_mm * rest_m + sum over the columns j of belief_mj * contribution_mj

where the rest is what follows from which cells are there, whatever they hold. Calibration's one factor for a word is
what all of its beliefs start from. Axis letters: n cells, F features, H of them heard beside a word, K values.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax

from model.calibration import Calibration
from model.codec import Positions
from model.linear import LinearExpert
from model.network import MoeNetwork
from training.left_out import MOST_HIDDEN, Rows, Teller, hide_more
from training.tables import Dataset, FitTable

Floats = NDArray[np.float64]
# How far beliefs stray from the word's common factor, before any row is seen.
SPREAD = 0.3
MOST_BELIEVED = 2.5
# So many rows of a table are asked at most, and words at once by how many numbers that takes.
MOST_ROWS, MOST_NUMBERS = 4_000, 5_000_000


def find_beliefs(teller: Teller, dataset: Dataset, calibration: Calibration, *, seed: int = 0) -> Floats | None:
    """How far features are believed (asked, heard), (F, F): 1 for all but words; None where there are none, and with a
    named target, whose fits are left as they are.
    """
    schema = dataset.schema
    words = [i for i, feature in enumerate(schema.features) if not feature.is_number]
    if dataset.target is not None or not words:
        return None
    beliefs = np.ones((len(schema.features),) * 2)
    beliefs[words] = calibration.temper[words, None]
    rng = np.random.default_rng(seed)
    lessons = [_Lesson.draw(table, rng) for table in dataset.tables if len(table.truth)]
    n_numbers = max([len(lesson.rows) * len(lesson.table.columns) for lesson in lessons], default=1) * schema.n_values
    n_at_once = max(1, MOST_NUMBERS // n_numbers)
    for some in (words[i : i + n_at_once] for i in range(0, len(words), n_at_once)):
        for word, pieces in _gather(teller, lessons, some, calibration.log_shares).items():
            heard, said, truth = _join(word, pieces)
            log_shares = calibration.log_shares[word, : said.shape[1]]
            beliefs[word, heard] = _weigh(said, truth, log_shares, float(calibration.temper[word]))
    return beliefs


def believe(
    network: MoeNetwork, expert: LinearExpert | None, calibration: Calibration, beliefs: Floats, dataset: Dataset
) -> tuple[LinearExpert | None, Calibration]:
    """Put beliefs into the network; the expert and the calibration with them. Of words nothing is left to calibrate."""
    assert not network.doubts.any(), "a doubt counts by gates as they are, in the network and not in its file"
    network.beliefs.copy_(torch.from_numpy(beliefs))
    if expert is not None:
        expert = LinearExpert(dataset.schema, expert.law, expert.lean, beliefs)
    is_number = [feature.is_number for feature in dataset.schema.features]
    return expert, replace(calibration, temper=np.where(is_number, calibration.temper, 1.0))


@dataclass(frozen=True, slots=True, eq=False)
class _Lesson:
    """Left-out rows of a table that are asked, (n,), and what is seen of all of them, (N, S), once for each share that
    is hidden.
    """

    table: FitTable
    rows: Rows
    seen: list[Positions]

    @classmethod
    def draw(cls, table: FitTable, rng: np.random.Generator) -> "_Lesson":
        rows = np.sort(rng.permutation(len(table.truth))[:MOST_ROWS])
        return cls(table, rows, [hide_more(table, most, rng) for most in MOST_HIDDEN])


class _Piece(NamedTuple):
    """Known cells of one word: the features heard (S,), what follows from which cells are there (n, K), what each
    feature adds (n, S, K), and which value the cells have, (n,).
    """

    heard: Rows
    rest: Floats
    parts: Floats
    truth: Rows


def _gather(
    teller: Teller, lessons: Sequence[_Lesson], words: Sequence[int], log_shares: Floats
) -> dict[int, list[_Piece]]:
    """What is said of the known cells of some words; those that are known nowhere are left out."""
    found: dict[int, list[_Piece]] = defaultdict(list)
    for lesson in lessons:
        table, rows = lesson.table, lesson.rows
        columns = [j for j, index in enumerate(table.columns.tolist()) if index in words]
        for seen in lesson.seen if columns else ():
            for j, (base, parts) in zip(columns, teller.explain(table, seen, columns, rows), strict=True):
                truth, word = table.truth[rows, j], int(table.columns[j])
                known = truth >= 0.0  # neither missing nor never seen in training
                if known.any():
                    rest = base[known] - log_shares[word, : base.shape[1]]
                    found[word].append(_Piece(table.columns, rest, parts[known], truth[known].astype(np.int64)))
    return found


def _join(word: int, pieces: Sequence[_Piece]) -> tuple[Rows, Floats, Rows]:
    """The features that are heard anywhere (H,), the word itself among them for the rest; what each adds, (n, K, H),
    and the values (n,).
    """
    heard = np.unique(np.concatenate([piece.heard for piece in pieces]))
    every = []
    for piece in pieces:
        said = np.zeros((*piece.rest.shape, len(heard)))
        said[:, :, np.searchsorted(heard, piece.heard)] = piece.parts.transpose(0, 2, 1)
        said[:, :, np.searchsorted(heard, word)] = piece.rest
        every.append(said)
    return heard, np.concatenate(every), np.concatenate([piece.truth for piece in pieces])


def _weigh(said: Floats, truth: Rows, log_shares: Floats, common: float) -> Floats:
    """The beliefs (H,) under which cells are most probable, drawn to the common one as ``SPREAD`` has it."""
    n, k, h = said.shape
    cells = np.arange(n)
    share = 1.0 / len(MOST_HIDDEN)  # a cell is asked so often, and is one cell all the same

    def off(beliefs: Floats) -> tuple[float, Floats]:
        log_mass = log_softmax(log_shares + said @ beliefs, axis=1)
        gap = -np.exp(log_mass)
        gap[cells, truth] += 1.0
        strayed = (beliefs - common) / SPREAD
        slope = strayed / SPREAD - share * (gap.reshape(-1) @ said.reshape(n * k, h))
        return float(0.5 * strayed @ strayed - share * log_mass[cells, truth].sum()), slope

    found = minimize(off, np.full(h, common), jac=True, method="L-BFGS-B", bounds=[(0.0, MOST_BELIEVED)] * h)
    return np.asarray(found.x, dtype=np.float64)
