"""Whom to follow beyond the training rows: members weighed by how they extrapolate.

In small tables members differ in what they can express (``Shape`` in model.network): gates that look at values or do
not, distributions whose shape values change or do not. Rows unlike those that were learnt from may be answered best by
any of the four kinds, and rows left out at random cannot tell by which. So the rows at either end of a table's two main
directions are left out in turn, members of every kind are fitted on the others, and each kind is then heard on the
named target by how well it answered for what it had not seen the like of.
Axis letters: L data sets, E ends left out (folds), M members, B rows, S columns, K values.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model import codec
from model.layout import hats
from model.network import MoeNetwork
from model.schema import Schema
from training.fit import Check, Fitted, Network, fit_network
from training.parallel import Team
from training.settings import FitSettings
from training.tables import Dataset, FitTable

N_KINDS = 4
# With many levels a distribution's shape says much, and steady members lose more than they save.
MOST_LEVELS = 5
N_DIRECTIONS = 2
# At each end one row in five is left out, if that is enough to tell kinds apart.
LEFT_OUT = 0.2
FEWEST_LEFT_OUT = 8
# How far a better cross entropy raises a voice: exp(SHARPNESS * difference).
SHARPNESS = 15.0

Ends = dict[int, NDArray[np.int64]]  # of a fold: table -> the rows that are left out of it
Report = Callable[[Check], None]


def fit_weighed(
    dataset: Dataset,
    settings: FitSettings,
    *,
    seed: int = 0,
    device: str = "cpu",
    team: Team | None = None,
    report: Report = lambda _: None,
    beside: Sequence[Dataset] = (),
) -> Fitted:
    """``fit_network``, and where a small table has a named target with few levels, its members weighed on it."""
    every = (dataset, *beside)
    folds = [_leave_out(data, seed) for data in every] if _has_kinds(dataset, settings, len(every)) else [[]]
    if not all(folds):
        return fit_network(dataset, settings, seed=seed, device=device, team=team, report=report, beside=beside)
    fit = partial(fit_network, seed=seed, device=device, team=team)
    shape = replace(settings.shape, half_steady=True)
    fitted = fit(dataset, replace(settings, shape=shape), report=_half(report, 0), beside=beside)
    tried = replace(settings, shape=replace(shape, n_members=N_KINDS * sum(map(len, folds))))
    first, *others = (fold for of_one in folds for fold, _ in of_one)
    trial = fit(first, tried, report=_half(report, 1), beside=others)
    losses = _losses(trial.network, every, [[ends for _, ends in of_one] for of_one in folds])
    _raise_voices(fitted.network, losses, dataset)
    return fitted


def _has_kinds(dataset: Dataset, settings: FitSettings, n_sets: int) -> bool:
    """Whether there are members of every kind, and a target for which weighing them was found to help."""
    n_each = settings.shape.n_members // n_sets
    if dataset.target is None or not settings.shape.half_additive or n_each < 2 * N_KINDS:
        return False
    target = dataset.schema.features[dataset.schema.index[dataset.target]]
    return target.kind == "ordinal" and target.n_values <= MOST_LEVELS


def _half(report: Report, done: int) -> Report:
    """Two fits, one course."""
    return lambda check: report(replace(check, step=check.step + done * check.n_steps, n_steps=2 * check.n_steps))


def _leave_out(dataset: Dataset, seed: int) -> list[tuple[Dataset, Ends]]:
    """The data set without the rows at one end of each direction of its tables, and which those are."""
    ends = {i: some for i, table in enumerate(dataset.tables) if (some := _find_ends(table, dataset, seed + i))}
    folds = [{i: some[fold] for i, some in ends.items()} for fold in range(2 * N_DIRECTIONS)] if ends else []
    return [(_without(dataset, fold), fold) for fold in folds]


def _find_ends(table: FitTable, dataset: Dataset, seed: int) -> list[NDArray[np.int64]]:
    """The rows at both ends of a table's main directions, of those that know the target; none in a table too small."""
    features = dataset.schema.features
    target = table.columns == dataset.schema.index[dataset.target or ""]
    if not target.any():
        return []
    rows = np.flatnonzero(~table.held_out & ~np.isnan(table.positions[:, target]).any(1))
    n_ends = int(len(rows) * LEFT_OUT)
    is_number = np.asarray([features[c].is_number for c in table.columns])
    cells = table.positions[rows][:, is_number & ~target]
    cells = cells[:, (~np.isnan(cells)).sum(0) > 1]
    if n_ends < FEWEST_LEFT_OUT or cells.shape[1] < N_DIRECTIONS:
        return []
    scale = np.maximum(np.nanstd(cells, axis=0), 1e-6)
    standard = np.nan_to_num((cells - np.nanmean(cells, axis=0)) / scale)
    _, _, directions = np.linalg.svd(standard, full_matrices=False)
    # Levels make ties; a trace of noise breaks them.
    along = standard @ directions[:N_DIRECTIONS].T
    along = along + 1e-3 * np.random.default_rng(seed).normal(size=along.shape)
    return [rows[some] for order in np.argsort(along, axis=0).T for some in (order[:n_ends], order[-n_ends:])]


def _without(dataset: Dataset, ends: Ends) -> Dataset:
    """The data set with these rows held out too, and what the others say of how often the target has each value."""
    tables = list(dataset.tables)
    for i, rows in ends.items():
        held_out = tables[i].held_out.copy()
        held_out[rows] = True
        tables[i] = replace(tables[i], held_out=held_out)
    target = dataset.schema.index[dataset.target or ""]
    seen = [t.positions[~t.held_out][:, t.columns == target].ravel() for t in tables]
    features = list(dataset.schema.features)
    shares = codec.fit_shares(np.concatenate(seen), features[target].n_values)
    features[target] = replace(features[target], shares=shares)
    return replace(dataset, schema=Schema(tuple(features), dataset.schema.tables), tables=tuple(tables))


@torch.no_grad()
def _losses(network: Network, datasets: Sequence[Dataset], ends: Sequence[Sequence[Ends]]) -> Tensor:
    """The cross entropy of each kind on the target in the rows left out, (L, kinds)."""
    device = network.layout.word.device
    target = torch.tensor([datasets[0].schema.index[datasets[0].target or ""]], device=device)
    total, n_rows = torch.zeros(len(datasets), len(ends[0]), N_KINDS), 0
    for i in ends[0][0]:
        tables = [data.tables[i] for data in datasets]
        rows = [table.positions[fold[i]] for table, folds in zip(tables, ends, strict=True) for fold in folds]
        cells = torch.from_numpy(np.stack(rows)).repeat_interleave(N_KINDS, 0).to(device)  # (M, B, S)
        columns = torch.from_numpy(tables[0].columns).to(device)
        logits = network(columns, cells, target).logits[:, 0]  # (M, K, B)
        truth = hats(cells[..., columns == target].transpose(1, 2), logits.shape[1])[:, 0]
        total -= (truth * logits.log_softmax(1)).sum((1, 2)).cpu().view_as(total)
        n_rows += cells.shape[1]
    return total.mean(1) / n_rows


@torch.no_grad()
def _raise_voices(network: Network, losses: Tensor, dataset: Dataset) -> None:
    """Let each kind be heard on the target by its loss; the voices of a data set's members are 1 on the mean."""
    assert isinstance(network, MoeNetwork)
    voices = N_KINDS * (-SHARPNESS * losses).softmax(1)  # (L, kinds)
    n_each = network.shape.n_members // len(losses)
    network.voices[:, dataset.schema.index[dataset.target or ""]] = voices.repeat(1, n_each // N_KINDS).flatten()
