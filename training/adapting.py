"""Adapt a fitted network to where it will be used, from rows without the target (``--unlabelled``).

Between the labelled rows and those the model will meet, the columns may relate to each other in other ways. If columns
are measured with noise, p(target | columns) then changes too: a column that others confirm can be believed more.
How much, follows from two assumptions: the target depends on the true values as before, and every column, the
target too, is measured with noise of the same share of its variance, the largest that the labelled rows allow
(the smallest eigenvalue of their correlations). Half of that share is taken: nothing in the data can tell how
much of what is unexplained is noise of the columns, and how much the target's own.

The reckoning is linear, in normal scores, and only its *change* is used: how much more probable each value of the
target becomes for a row. The network's own answers, changed so, are what it then learns for the unlabelled rows.
Axis letters: L data sets, M members, N rows, S columns, J number columns, K values of the target, B rows in a batch.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtr
from torch import Tensor

from model.errors import FamilyError
from model.layout import hats
from model.network import MoeNetwork
from training.fit import Fitted
from training.hearing import answer_with
from training.normal_scores import score_edges, score_rows, score_table
from training.objective import hide_cells, member_losses, wanted_losses
from training.stepping import Stepper
from training.tables import Dataset, FitTable

Floats = NDArray[np.float64]

NOISE_SHARE = 0.5
LEARNING_RATE = 5e-3
STEPS_PER_ROW = 0.25
FEWEST_STEPS, MOST_STEPS = 200, 600
# No direction of the true values is taken to be quite without variance, and no answer to be quite impossible.
LEAST_VARIANCE = 0.02
LEAST_CHANCE = 1e-4


def adapt_network(
    fitted: Fitted, datasets: Sequence[Dataset], unlabelled: Sequence[FitTable], *, seed: int = 0
) -> Fitted:
    """Continue a fit on the unlabelled rows of each data set (one table each, of the same form)."""
    network, dataset = fitted.network, datasets[0]
    if dataset.target is None:
        raise FamilyError("unlabelled rows can only be used for a target: name one, with --target or in family.toml")
    target = dataset.schema.index[dataset.target]
    if not isinstance(network, MoeNetwork) or not bool(network.layout.is_number[target]):
        raise FamilyError(f"unlabelled rows are of use for number and ordinal targets; {dataset.target!r} is neither")
    columns = torch.from_numpy(unlabelled[0].columns)
    rows = torch.from_numpy(np.stack([table.positions for table in unlabelled]))  # (L, N, S)
    wanted = np.stack(
        [
            _shift(answer, data, table, target)
            for answer, data, table in zip(
                ask_members(fitted, columns, rows, target), datasets, unlabelled, strict=True
            )
        ]
    )
    network.voices.fill_(1.0)  # what the louder members said is what all of them now learn
    _learn(network, fitted, (columns, rows, torch.from_numpy(wanted).float()), target, seed)
    fitted.keep_lean()
    return fitted


@torch.no_grad()
def ask_members(fitted: Fitted, columns: Tensor, rows: Tensor, target: int) -> list[Floats]:
    """What the members of each data set say together of the target for its rows (L, N, S), each (N, K)."""
    n_each = fitted.settings.shape.n_members // len(rows)
    cells = rows.repeat_interleave(n_each, 0)
    parts = [cells[:, i : i + 500] for i in range(0, cells.shape[1], 500)]
    asked = torch.tensor([target])
    answers = [answer_with(fitted.network, fitted.expert, columns, part, asked) for part in parts]
    logits = torch.cat([answer.logits[:, 0] for answer in answers], dim=-1)
    logits = logits.view(len(rows), n_each, *logits.shape[1:]).mean(1)  # (L, K, N)
    return [p.T.double().numpy() for p in logits.softmax(1)]


def _shift(answer: Floats, dataset: Dataset, table: FitTable, target: int) -> Floats:
    """The network's answers (N, K), changed as the linear reckoning changes from the one law to the other."""
    columns = [int(c) for c in table.columns if c != target and dataset.schema.features[int(c)].is_number]
    labelled = score_rows(dataset, [*columns, target], must_know=target)
    there = score_table(dataset.schema, table, columns)
    if len(columns) == 0 or len(labelled) < 20 or len(there) < 20:
        return answer
    before, after = reckon(labelled, there, noise_share=NOISE_SHARE)
    k = dataset.schema.features[target].n_values
    edges = score_edges(dataset.schema.features[target])
    change = _chances(there, after, edges) / _chances(there, before, edges)  # (N, k)
    shifted = np.zeros_like(answer)
    shifted[:, :k] = answer[:, :k] * change
    total: Floats = shifted.sum(1, keepdims=True)
    return np.asarray(shifted / total, dtype=np.float64)


def reckon(labelled: Floats, there: Floats, *, noise_share: float) -> tuple[tuple[Floats, float], tuple[Floats, float]]:
    """The linear regression of the target (last column of ``labelled``) here and there: slopes and variance left."""
    both = np.cov(labelled.T, bias=True)
    seen, with_target, variance = both[:-1, :-1], both[:-1, -1], both[-1, -1]
    n = len(seen)
    spread = np.sqrt(np.maximum(np.diag(both), 1e-9))
    least = float(np.linalg.eigvalsh(both / np.outer(spread, spread))[0])
    noise = np.diag(noise_share * max(least, 0.0) * np.diag(seen))
    true = _lift(seen - noise)
    effects = np.linalg.solve(true, with_target)
    seen_there = np.cov(there.T, bias=True).reshape(n, n)
    true_there = _lift(seen_there - noise)
    left = max(float(variance - effects @ true @ effects), LEAST_VARIANCE)
    return (
        _regress(seen + 1e-6 * np.eye(n), with_target, float(variance)),
        _regress(true_there + noise, true_there @ effects, float(effects @ true_there @ effects) + left),
    )


def _regress(seen: Floats, with_target: Floats, variance: float) -> tuple[Floats, float]:
    slopes = np.asarray(np.linalg.solve(seen, with_target), dtype=np.float64)
    return slopes, max(variance - float(with_target @ slopes), LEAST_VARIANCE / 2)


def _lift(covariance: Floats) -> Floats:
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray((vectors * np.maximum(values, LEAST_VARIANCE)) @ vectors.T, dtype=np.float64)


def _chances(rows: Floats, line: tuple[Floats, float], edges: Floats) -> Floats:
    slopes, variance = line
    below = ndtr((edges - (rows @ slopes)[:, None]) / np.sqrt(variance))
    chances: Floats = np.diff(below, axis=1) + LEAST_CHANCE
    return chances


def _learn(network: MoeNetwork, fitted: Fitted, there: tuple[Tensor, Tensor, Tensor], target: int, seed: int) -> None:
    """Learn the wanted answers (L, N, K) for the rows (L, N, S), and their other columns as ever."""
    columns, rows, wanted = there
    settings = fitted.settings
    n_sets, n_rows, _ = rows.shape
    m = network.shape.n_members
    owner = torch.arange(n_sets).repeat_interleave(m // n_sets).unsqueeze(1)
    asked = torch.cat([columns[columns != target], torch.tensor([target])])
    weights = torch.ones(len(asked))
    weights[-1] = settings.target_weight
    keep = columns != target
    generator = torch.Generator().manual_seed(seed)
    n_steps = int(np.clip(STEPS_PER_ROW * n_rows, FEWEST_STEPS, MOST_STEPS))
    stepper = Stepper(network, replace(settings, learning_rate=LEARNING_RATE), n_steps)
    n_values = network.layout.word.shape[1]
    network.train()
    for _ in range(n_steps):
        drawn = torch.randint(n_rows, (m, settings.batch_rows), generator=generator)
        truth = rows[owner, drawn][..., keep]  # (M, B, S)
        seen = hide_cells(truth, settings.hide_share, settings.hide_most, generator)
        soft = wanted[owner, drawn].permute(0, 2, 1).unsqueeze(1)  # (M, 1, K, B)
        want = torch.cat([hats(truth.transpose(1, 2), n_values), soft], dim=1)
        answer = answer_with(network, fitted.expert, columns[keep], seen, asked)
        losses = wanted_losses(answer, want, network.layout, asked, settings)
        known = torch.cat([truth, torch.zeros_like(truth[..., :1])], dim=-1)
        loss = member_losses(losses, known, weights).sum()
        stepper.forget_gradients()
        loss.backward()  # type: ignore[no-untyped-call]
        stepper.step()
    network.eval()
