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
from training.fit import Check, Fitted, Network, fit_network
from training.parallel import Team
from training.settings import FitSettings
from training.tables import Dataset, FitTable

N_KINDS = 4
# Two levels have no shape; with many it says much, and steady members lose more than they save.
FEWEST_LEVELS, MOST_LEVELS = 3, 5
N_DIRECTIONS = 2
# At each end one row in five is left out, if that is enough to tell kinds apart.
LEFT_OUT = 0.2
FEWEST_LEFT_OUT = 20
# How far a better cross entropy raises a voice: exp(sharpness * difference). So many rows left out at all ends together
# make it as sharp as it gets; fewer cannot tell kinds apart so well. No kind falls quite silent.
SHARPNESS, SHARP_ROWS = 15.0, 196
LEAST_VOICE = 0.05

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
    # Shares are of what is left of a fold: that they differ at its ends says nothing of a kind, so none is doubted.
    tried = replace(settings, shape=replace(shape, n_members=N_KINDS * sum(map(len, folds))), doubt=0.0)
    first, *others = (fold for of_one in folds for fold, _ in of_one)
    share = tried.shape.n_members / (tried.shape.n_members + shape.n_members)
    # The trial comes first: what is told of a fit at its end is then told of what is kept.
    trial = fit(first, tried, report=_part(report, 0.0, share), beside=others)
    voices = _weigh(trial.network, every, [[ends for _, ends in of_one] for of_one in folds])  # (L, kinds)
    fitted = fit(dataset, replace(settings, shape=shape), report=_part(report, share, 1.0), beside=beside)
    assert isinstance(fitted.network, MoeNetwork)
    n_turns = shape.n_members // voices.numel()
    fitted.network.voices[:, _target_of(dataset)] = voices.repeat(1, n_turns).flatten()
    return fitted


def _target_of(dataset: Dataset) -> int:
    assert dataset.target is not None
    return dataset.schema.index[dataset.target]


def _has_kinds(dataset: Dataset, settings: FitSettings, n_sets: int) -> bool:
    """Whether there are members of every kind, and a target for which weighing them was found to help."""
    n_each = settings.shape.n_members // n_sets
    if dataset.target is None or not settings.shape.half_additive or n_each < 2 * N_KINDS:
        return False
    target = dataset.schema.features[_target_of(dataset)]
    return target.kind == "ordinal" and FEWEST_LEVELS <= target.n_values <= MOST_LEVELS


def _part(report: Report, start: float, end: float) -> Report:
    """The course of one of two fits, as a part of the whole."""

    def tell(check: Check) -> None:
        done = start + (end - start) * check.step / check.n_steps
        report(replace(check, step=round(1000 * done), n_steps=1000))

    return tell


def _leave_out(dataset: Dataset, seed: int) -> list[tuple[Dataset, Ends]]:
    """The data set without the rows at one end of each direction of its tables, and which those are."""
    ends = {i: some for i, table in enumerate(dataset.tables) if (some := _find_ends(table, dataset, seed + i))}
    folds = [{i: some[fold] for i, some in ends.items()} for fold in range(2 * N_DIRECTIONS)] if ends else []
    return [(_without(dataset, fold), fold) for fold in folds]


def _find_ends(table: FitTable, dataset: Dataset, seed: int) -> list[NDArray[np.int64]]:
    """The rows at both ends of a table's main directions, of those that know the target; none in a table too small."""
    features = dataset.schema.features
    target = table.columns == _target_of(dataset)
    if not target.any():
        return []
    rows = np.flatnonzero(~table.held_out & ~np.isnan(table.positions[:, target]).any(1))
    n_ends = int(len(rows) * LEFT_OUT)
    is_number = np.asarray([features[c].is_number for c in table.columns])
    cells = table.positions[rows][:, is_number & ~target].astype(np.float64)
    cells = cells[:, (~np.isnan(cells)).sum(0) > 1]
    if n_ends < FEWEST_LEFT_OUT or cells.shape[1] < N_DIRECTIONS:
        return []
    scale = np.maximum(np.nanstd(cells, axis=0), 1e-6)
    standard = np.nan_to_num((cells - np.nanmean(cells, axis=0)) / scale)
    _, _, directions = np.linalg.svd(standard, full_matrices=False)
    # Which way a direction points is chance: here it is up, so that tables of one kind lose the same end.
    directions *= np.where(directions.sum(axis=1, keepdims=True) < 0.0, -1.0, 1.0)
    along = standard @ directions[:N_DIRECTIONS].T
    # Levels make ties; a trace of noise breaks them.
    along = along + 1e-3 * np.random.default_rng(seed).normal(size=along.shape)
    return [rows[some] for order in np.argsort(along, axis=0).T for some in (order[:n_ends], order[-n_ends:])]


def _without(dataset: Dataset, ends: Ends) -> Dataset:
    """The data set with these rows held out too, and what the others say of how often the target has each value.

    It is to be fitted and no more: its tables' ``truth`` is still that of the rows held out before.
    """
    tables = list(dataset.tables)
    for i, rows in ends.items():
        held_out = tables[i].held_out.copy()
        held_out[rows] = True
        tables[i] = replace(tables[i], held_out=held_out)
    target = _target_of(dataset)
    seen = [t.positions[~t.held_out][:, t.columns == target].ravel() for t in tables]
    features = list(dataset.schema.features)
    shares = codec.fit_shares(np.concatenate(seen), features[target].n_values)
    features[target] = replace(features[target], shares=shares)
    return replace(dataset, schema=replace(dataset.schema, features=tuple(features)), tables=tuple(tables))


@torch.no_grad()
def _weigh(network: Network, datasets: Sequence[Dataset], ends: Sequence[Sequence[Ends]]) -> Tensor:
    """The voice of each kind by its cross entropy on the target in the rows left out, (L, kinds); 1 on the mean.

    Data sets beside each other have left out the same numbers of rows.
    """
    device = network.layout.word.device
    target = torch.tensor([_target_of(datasets[0])], device=device)
    total, n_rows = torch.zeros(len(datasets), len(ends[0]), N_KINDS), 0
    for i in ends[0][0]:
        tables = [data.tables[i] for data in datasets]
        rows = [table.positions[fold[i]] for table, folds in zip(tables, ends, strict=True) for fold in folds]
        cells = torch.from_numpy(np.stack(rows)).repeat_interleave(N_KINDS, 0).to(device)  # (M, B, S)
        columns = torch.from_numpy(tables[0].columns).to(device)
        logits = network(columns, cells, target).logits[:, 0]  # (M, K, B)
        truth = hats(cells[..., columns == target].transpose(1, 2), logits.shape[1])[:, 0]
        total -= (truth * logits.log_softmax(1)).sum((1, 2)).cpu().view_as(total)
        n_rows += cells.shape[1] * len(ends[0])
    sharpness = SHARPNESS * min(1.0, n_rows / SHARP_ROWS)
    voices = N_KINDS * (-sharpness * total.sum(1) / n_rows).softmax(1).clamp(min=LEAST_VOICE / N_KINDS)
    return voices / voices.mean(1, keepdim=True)
