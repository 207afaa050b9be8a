"""Fit one network on all tables: seed, split, one plain loop, each member's best weights."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from model.layout import Layout
from model.linear import LinearExpert
from model.network import MoeNetwork
from model.paper import PaperNetwork
from training.dealing import Deck
from training.doubting import doubt_shares
from training.hearing import Audience, Heard, answer_after
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

# In a wide table a step asks for some of its columns only: its cost then grows with S, not with S^2.
MOST_QUESTIONS = 32
# Laws are asked about so many steps at once: the calls are dear, not the sums.
N_AHEAD = 8


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


@dataclass(slots=True)
class _Part:
    """One table's rows as tensors: what each member trains on, and what it is checked by.

    ``positions`` (L, N, S) of all data sets; ``owner`` (M,): whose rows each member learns from.
    """

    columns: Tensor
    positions: Tensor
    owner: Tensor
    weights: Tensor
    training: list[NDArray[np.int64]]
    validation: Tensor
    validation_seen: Tensor
    trivial: Tensor
    checked: NDArray[np.int64]  # (M, rows): which rows each member is checked by
    audience: Audience | None = None  # if there are laws
    validation_heard: Heard | None = None

    @property
    def places(self) -> Tensor:
        """(S,): where its columns are among themselves: all of them are asked."""
        return torch.arange(len(self.columns), device=self.columns.device)


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
    for step, batch in enumerate(_hear_ahead(_batches(parts, settings, n_steps, seed, team))):
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


def _learn(network: Network, stepper: Stepper, batch: "_Batch", settings: FitSettings, team: Team) -> float:
    """One step; returns the mean loss of a member."""
    loss = _losses(network, batch, settings).sum()
    stepper.forget_gradients()
    loss.backward()  # type: ignore[no-untyped-call]
    _settle_gradients(network, settings, team)
    stepper.step()
    return loss.item() / settings.shape.n_members


def _prepare_all(
    network: Network, datasets: Sequence[Dataset], settings: FitSettings, seed: int, council: Council | None
) -> list[_Part]:
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


def _prepare(network: Network, tables: Sequence[FitTable], dataset: Dataset, settings: FitSettings, seed: int) -> _Part:
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
    return _Part(
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


@dataclass(slots=True)
class _Batch:
    """Rows of one table (M, B): true cells, cells that may be seen (M, B, S), and which columns are asked (Q,)."""

    part: _Part
    rows: NDArray[np.int64]
    truth: Tensor
    seen: Tensor
    asked: Tensor
    heard: Heard | None = None


def _losses(network: Network, batch: _Batch, settings: FitSettings) -> Tensor:
    """Each member's loss, (M,)."""
    part, truth = batch.part, batch.truth[..., batch.asked]
    questions = part.columns[batch.asked]
    answer = answer_after(network, batch.heard, part.columns, batch.seen, questions)
    losses = cell_losses(answer, truth, network.layout, questions, settings)
    return member_losses(losses, truth, part.weights[batch.asked])


def _batches(parts: list[_Part], settings: FitSettings, n_steps: int, seed: int, team: Team) -> Iterator[_Batch]:
    """Draw a table, then rows of it for each member.

    Tables are drawn by the square root of their rows, so that small ones are heard and large ones
    are not starved. All processes draw the same tables and questions, and other rows.
    """
    shared, own = np.random.default_rng([seed, 0]), np.random.default_rng([seed, 1, team.rank])
    generator = torch.Generator().manual_seed(seed * 1000 + team.rank)
    odds = np.sqrt([len(part.training[0]) for part in parts])
    n_rows = max(1, settings.batch_rows // team.size)
    decks = [[Deck(rows, own) for rows in part.training] for part in parts]
    for choice in shared.choice(len(parts), n_steps, p=odds / odds.sum()):
        part = parts[choice]
        device = part.columns.device
        rows = np.stack([deck.draw(n_rows) for deck in decks[choice]])
        truth = part.positions[part.owner.unsqueeze(1), torch.from_numpy(rows)].to(device)  # (M, B, S)
        n_columns = len(part.columns)
        asked = shared.permutation(n_columns)[:MOST_QUESTIONS] if n_columns > MOST_QUESTIONS else np.arange(n_columns)
        seen = hide_cells(truth, settings.hide_share, settings.hide_most, generator)
        questions = torch.from_numpy(asked).to(device)
        yield _Batch(part, rows, truth, seen, questions)


def _hear_ahead(batches: Iterator[_Batch]) -> Iterator[_Batch]:
    """The same batches with what the laws say of them, those of the same table and questions together."""
    while ahead := list(islice(batches, N_AHEAD)):
        alike: dict[tuple[int, tuple[int, ...]], list[_Batch]] = defaultdict(list)
        for batch in ahead:
            alike[id(batch.part), tuple(batch.asked.tolist())].append(batch)
        for some in alike.values():
            audience = some[0].part.audience
            if audience is None:
                continue
            seen, rows = torch.cat([b.seen for b in some], dim=1), np.concatenate([b.rows for b in some], axis=1)
            heard = audience.hear(seen, some[0].asked, rows)
            for batch, *said in zip(some, *(part.chunk(len(some), dim=-1) for part in heard), strict=True):
                batch.heard = Heard(*said)
        yield from ahead


def _settle_gradients(network: Network, settings: FitSettings, team: Team) -> None:
    gradients = [weight.grad for weight in network.parameters() if weight.grad is not None]
    team.average(gradients)
    if settings.clip is not None:
        nn.utils.clip_grad_norm_(network.parameters(), settings.clip * settings.shape.n_members)


def _is_check(step: int, n_steps: int, n_checks: int) -> bool:
    every = max(1, n_steps // n_checks)
    return (step + 1) % every == 0 or step == n_steps - 1


@torch.no_grad()
def _validate(network: Network, parts: list[_Part], settings: FitSettings) -> Tensor:
    """Each member's loss on its own validation rows, relative to the trivial guess, (M,)."""
    network.eval()
    scores = []
    for part in parts:
        batch = _Batch(part, part.checked, part.validation, part.validation_seen, part.places, part.validation_heard)
        scores.append(_losses(network, batch, settings))
    network.train()
    trivial = torch.stack([part.trivial for part in parts])  # (tables, M)
    known = trivial > 0  # a small table's few validation rows may hold no known cell
    relative = torch.where(known, torch.stack(scores) / trivial.clamp(min=1e-9), 0.0)
    return relative.sum(0) / known.sum(0).clamp(min=1)
