"""How far each column is believed in what it says of a word, once all else is learnt.

In a fit every column gets a say in every question, also where it knows nothing of it: with few rows it finds something
all the same. What columns say of a word adds up exactly, so each one's say can be weighed by rows that were left out:

    logits_m = log shares + belief_mm * rest_m + sum over the columns j of belief_mj * contribution_mj

where the rest is what follows from which cells are there, whatever they hold. Calibration's one factor for a word is
what all of its beliefs start from. Axis letters: n cells, F features, H of them heard beside a word, K values.
"""

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax

from model.calibration import Calibration
from model.linear import LinearExpert
from model.network import MoeNetwork
from training.left_out import MOST_HIDDEN, Teller, hide_more, known_rows
from training.tables import Dataset

Floats = NDArray[np.float64]
# How far beliefs stray from the word's common factor, before any row is seen.
SPREAD = 0.3
MOST_BELIEVED = 2.5
# Of a word so many cells are asked at most, and fewer where columns and values are many.
MOST_CELLS, MOST_NUMBERS = 2_000, 2_000_000


def find_beliefs(teller: Teller, dataset: Dataset, calibration: Calibration, *, seed: int = 0) -> Floats | None:
    """How far features are believed (asked, heard), (F, F): 1 for all but words; None where there are none, and with a
    named target, whose fits are left as they are.
    """
    words = [i for i, feature in enumerate(dataset.schema.features) if not feature.is_number]
    if dataset.target is not None or not words:
        return None
    beliefs = np.ones((len(dataset.schema.features),) * 2)
    for word in words:
        common = float(calibration.temper[word])
        beliefs[word] = common
        told = _gather(teller, dataset, word, calibration.log_shares[word], np.random.default_rng([seed, word]))
        if told is not None:
            heard, said, truth = told
            beliefs[word, heard] = _weigh(said, truth, calibration.log_shares[word, : said.shape[1]], common)
    return beliefs


def believe(
    network: MoeNetwork, expert: LinearExpert | None, calibration: Calibration, beliefs: Floats, dataset: Dataset
) -> tuple[LinearExpert | None, Calibration]:
    """Put beliefs into the network; the expert and the calibration with them. Of words nothing is left to calibrate."""
    network.beliefs.copy_(torch.from_numpy(beliefs))
    if expert is not None:
        expert = LinearExpert(dataset.schema, expert.law, expert.lean, beliefs)
    is_number = [feature.is_number for feature in dataset.schema.features]
    return expert, replace(calibration, temper=np.where(is_number, calibration.temper, 1.0))


def _gather(
    teller: Teller, dataset: Dataset, word: int, log_shares: Floats, rng: np.random.Generator
) -> tuple[list[int], Floats, NDArray[np.int64]] | None:
    """Which features are heard beside a word, itself among them for what none of them says, what each adds to its
    logits, (n, K, H), and which value it has, (n,).
    """
    tables = [table for table in dataset.tables if word in table.columns and len(table.truth)]
    heard = sorted({word, *(int(i) for table in tables for i in table.columns)})
    n_values = dataset.schema.features[word].n_values
    n_most = min(MOST_CELLS, MOST_NUMBERS // (len(heard) * n_values)) // max(1, len(tables))
    found, truths = [], []
    for table in tables:
        column = int(np.flatnonzero(table.columns == word)[0])
        known = known_rows(table, column)
        known = known[table.truth[known, column] >= 0.0]  # words never seen in training cannot be told
        rows = rng.permutation(known)[: max(1, n_most)]
        place = np.searchsorted(heard, table.columns)
        for most in MOST_HIDDEN if len(rows) else ():
            base, parts = teller.explain(table, hide_more(table, most, rng), column, rows)
            said = np.zeros((len(rows), n_values, len(heard)))
            said[:, :, place] = parts.transpose(0, 2, 1)
            said[:, :, heard.index(word)] = base - log_shares[:n_values]
            found.append(said)
            truths.append(table.truth[rows, column].astype(np.int64))
    return (heard, np.concatenate(found), np.concatenate(truths)) if found else None


def _weigh(said: Floats, truth: NDArray[np.int64], log_shares: Floats, common: float) -> Floats:
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
