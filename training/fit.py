"""Fit one network on all tables: seed, split, one plain loop, each member's best weights."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from model.layout import Layout
from model.linear import LinearExpert
from model.network import MoeNetwork
from model.paper import PaperNetwork
from training.batches import Batch, Part, draw_batches, hear_ahead
from training.doubting import doubt_shares
from training.hearing import Audience, answer_after
from training.joint_normal import Council, fit_council
from training.keeping import Average, Keeper
from training.memory import kept_memory
from training.objective import cell_losses, hide_cells, member_losses, trivial_answer, weigh_columns
from training.parallel import Team
from training.settings import NETWORKS, FitSettings
from training.splitting import split_rows
from training.stepping import Stepper
from training.tables import Dataset, FitTable

Network = MoeNetwork | PaperNetwork


@dataclass(frozen=True, slots=True)
class Check:
    """The state of a fit at one of its checks; ``score`` is the validation loss, 1 = the trivial guess."""

    step: int
    n_steps: int
    loss: float
    score: float


@dataclass(slots=True)
class Fitted:
    """A fitted network and how it came about."""

    network: Network
    settings: FitSettings
    seed: int
    council: Council | None = None
    checks: list[Check] = field(default_factory=list)

    @property
    def expert(self) -> LinearExpert | None:
        """The law of all training rows: the one that is kept and served."""
        return None if self.council is None else self.council.expert

    def keep_lean(self) -> None:
        """Tell the expert how far the members have learnt to follow it."""
        if self.expert is not None and isinstance(self.network, MoeNetwork):
            self.expert.lean = self.network.mean_lean()


@kept_memory()
def fit_network(
    dataset: Dataset,
    settings: FitSettings,
    *,
    seed: int = 0,
    device: str = "cpu",
    team: Team | None = None,
    report: Callable[[Check], None] = lambda _: None,
    beside: Sequence[Dataset] = (),
) -> Fitted:
    """Fit ``settings.shape.n_members`` networks side by side and keep each one's best weights.

    Data sets of the same form (features, tables, numbers of rows) may be fitted ``beside`` the first in the
    same pass: the members are dealt out to them in equal runs, and none learns from another's rows.
    """
    team = team or Team()
    torch.manual_seed(seed)
    network = _start(dataset, settings, beside).to(device)
    council = fit_council(dataset, seed) if isinstance(network, MoeNetwork) and not beside else None
    parts = _prepare_all(network, (dataset, *beside), settings, seed, council)
    n_steps = settings.n_steps(sum(len(part.training[0]) for part in parts))
    stepper = Stepper(network, settings, n_steps)
    average = Average(network, settings.averaging)
    keeper = Keeper(network)
    fitted = Fitted(network, settings, seed, council)
    total, since = 0.0, 0
    for step, batch in enumerate(hear_ahead(draw_batches(parts, settings, n_steps, seed, team))):
        total, since = total + _learn(network, stepper, batch, settings, team), since + 1
        average.update(network, step)
        if _is_check(step, n_steps, settings.n_checks):
            scores = _validate(average.network, parts, settings)
            score = keeper.offer(average.network, scores, is_last=step == n_steps - 1)
            fitted.checks.append(Check(step + 1, n_steps, total / since, score))
            report(fitted.checks[-1])
            total, since = 0.0, 0
    keeper.restore(network)
    network.eval()
    fitted.keep_lean()
    if isinstance(network, MoeNetwork):
        doubt_shares(network, (dataset, *beside), settings.doubt)
    return fitted


def _start(dataset: Dataset, settings: FitSettings, beside: Sequence[Dataset]) -> Network:
    schemas = [data.schema for data in (dataset, *beside)]
    layout = Layout(schemas, settings.shape.n_members, dataset.company(), dataset.n_known())
    network = NETWORKS[settings.preset](layout, settings.shape)
    if isinstance(network, MoeNetwork):
        _suit_to_target(network, dataset, settings)
    return network


def _suit_to_target(network: MoeNetwork, dataset: Dataset, settings: FitSettings) -> None:
    if dataset.target is None:
        network.own_scale = settings.own_scale  # many questions teach what a value says, instead of one above all
        return
    target = dataset.schema.index[dataset.target]
    network.steadied[target] = settings.shape.half_steady
    if not dataset.schema.features[target].is_number:
        # A word to which the network gives most of its attention: it leans on the linear expert where that helps,
        # and two members of every four find all by themselves: they learn what the law would have told.
        network.lean.data[:, target, 1] = 0.0
        network.hears[2::4] = network.hears[3::4] = 0.0


def _learn(network: Network, stepper: Stepper, batch: Batch, settings: FitSettings, team: Team) -> float:
    """One step; returns the mean loss of a member."""
    loss = _losses(network, batch, settings).sum()
    stepper.forget_gradients()
    loss.backward()  # type: ignore[no-untyped-call]
    _settle_gradients(network, settings, team)
    stepper.step()
    return loss.item() / settings.shape.n_members


def _prepare_all(
    network: Network, datasets: Sequence[Dataset], settings: FitSettings, seed: int, council: Council | None
) -> list[Part]:
    first = datasets[0]
    parts = [
        _prepare(network, [data.tables[i] for data in datasets], first, settings, seed + i)
        for i in range(len(first.tables))
    ]
    for i, part in enumerate(parts):
        if council is not None:
            part.audience = Audience.of(council, first.tables[i], council.folds[i])
            part.validation_heard = part.audience.hear(part.validation_seen, part.places, part.checked)
    return parts


def _prepare(network: Network, tables: Sequence[FitTable], dataset: Dataset, settings: FitSettings, seed: int) -> Part:
    """Split the training rows of a table (one for each data set), for each member in its own way."""
    device, first = network.layout.word.device, tables[0]
    n_each = settings.shape.n_members // len(tables)
    splits = [
        split for i, table in enumerate(tables) for split in split_rows(table, settings, n_each, seed=seed + 1000 * i)
    ]
    positions = torch.from_numpy(np.stack([table.positions for table in tables]))
    owner = torch.arange(len(tables)).repeat_interleave(n_each)
    columns = torch.from_numpy(first.columns)
    n_validation = min(len(validation) for _, validation in splits)
    checked = np.stack([validation[:n_validation] for _, validation in splits])
    validation = positions[owner.unsqueeze(1), torch.from_numpy(checked)].to(device)
    generator = torch.Generator().manual_seed(seed)
    weights = weigh_columns(columns, network.layout, dataset, settings).to(device)
    trivial = trivial_answer(network.layout, validation, columns)
    losses = cell_losses(trivial, validation, network.layout, columns, settings)
    return Part(
        columns=columns.to(device),
        positions=positions,
        owner=owner,
        weights=weights,
        training=[training for training, _ in splits],
        validation=validation,
        validation_seen=hide_cells(validation, settings.hide_share, settings.hide_most, generator),
        trivial=member_losses(losses, validation, weights),
        checked=checked,
    )


def _losses(network: Network, batch: Batch, settings: FitSettings) -> Tensor:
    """Each member's loss, (M,)."""
    part, truth = batch.part, batch.truth[..., batch.asked]
    questions = part.columns[batch.asked]
    answer = answer_after(network, batch.heard, part.columns, batch.seen, questions)
    losses = cell_losses(answer, truth, network.layout, questions, settings)
    return member_losses(losses, truth, part.weights[batch.asked])


def _settle_gradients(network: Network, settings: FitSettings, team: Team) -> None:
    gradients = [weight.grad for weight in network.parameters() if weight.grad is not None]
    team.average(gradients)
    if settings.clip is not None:
        nn.utils.clip_grad_norm_(network.parameters(), settings.clip * settings.shape.n_members)


def _is_check(step: int, n_steps: int, n_checks: int) -> bool:
    every = max(1, n_steps // n_checks)
    return (step + 1) % every == 0 or step == n_steps - 1


@torch.no_grad()
def _validate(network: Network, parts: list[Part], settings: FitSettings) -> Tensor:
    """Each member's loss on its own validation rows, relative to the trivial guess, (M,)."""
    network.eval()
    scores = []
    for part in parts:
        batch = Batch(part, part.checked, part.validation, part.validation_seen, part.places, part.validation_heard)
        scores.append(_losses(network, batch, settings))
    network.train()
    trivial = torch.stack([part.trivial for part in parts])  # (tables, M)
    known = trivial > 0  # a small table's few validation rows may hold no known cell
    relative = torch.where(known, torch.stack(scores) / trivial.clamp(min=1e-9), 0.0)
    return relative.sum(0) / known.sum(0).clamp(min=1)
