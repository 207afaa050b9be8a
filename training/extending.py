"""Learn the new features of a table beside the frozen ones of a bundle: one plain loop, each member's best weights.

Every known cell of the new table's training rows is asked from the others, as in a fit: the new features' questions
teach what is said of them, those of the old features what the new columns say of those.
Axis letters as in model.network: M members, B rows, S columns, Q questions, K values.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from model.bundle import Bundle
from model.errors import TableError
from model.extension import N_NEW_HEADS, ExtendedNetwork
from model.folded import Folded, read_folded
from model.graphs import write_folded
from model.layout import Layout
from model.linear import LinearExpert
from model.network import Answer
from model.schema import Schema
from model.starting import start_fresh, start_new
from training.extending_check import check_extension
from training.extending_law import extend_expert
from training.hearing import hear
from training.joining import Joined
from training.keeping import Average, Keeper
from training.memory import kept_memory
from training.objective import cell_losses, hide_cells, member_losses, trivial_answer
from training.settings import FitSettings, choose_settings
from training.stepping import Stepper

# A step takes so many rows, dealt out to the members; a member has enough with a few.
STEP_ROWS = 384
FEWEST_ROWS = 24
# Weights are those of the folded tables: they move straight, not by way of projections, and can move faster.
FASTER = 3.0
# It asks for so many new features, and so many old ones: these have learnt most of what they will.
MOST_NEW, MOST_OLD = 32, 8
MOST_VALIDATION = 2048
# Calibration may draw logits nearly to nothing; they are not told louder than this to make up for it.
LEAST_TEMPER = 0.1


@dataclass(frozen=True, slots=True)
class Check:
    """The state of a fit at one of its checks; ``score`` is the validation loss, 1 = the trivial guess."""

    step: int
    n_steps: int
    loss: float
    score: float


@dataclass(frozen=True, slots=True)
class Extended:
    """The parts of a bundle that are other than before; ``sizes``: of its network, as the manifest has them."""

    network: bytes
    expert: LinearExpert | None
    sizes: dict[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Lesson:
    """The rows of the new table, as ``positions`` (N, S), and what is to be learnt from them.

    Of its columns: which ``features`` they are, the ``weights`` of their questions and the ``temper`` of their
    calibration, (S,) each, how far they ``lean`` on the expert (S, 2), the members' ``voices`` on them and how far
    they doubt their shares, (M, S) each; the first ``n_doubting`` heads do.
    Of the members: their ``training`` rows, and the rows they are checked by, (M, B, S), with what is ``seen`` of
    them.
    """

    positions: Tensor
    features: Tensor
    weights: Tensor
    temper: Tensor
    lean: Tensor
    voices: Tensor
    doubts: Tensor
    n_doubting: int
    expert: LinearExpert | None
    training: list[NDArray[np.int64]]
    validation: Tensor
    seen: Tensor


def extend_model(
    bundle: Bundle,
    joined: Joined,
    *,
    epochs: float | None = None,
    seed: int = 0,
    report: Callable[[Check], None] = lambda _: None,
) -> Extended:
    """The bundle's network and linear expert with the new features, learnt from the new table's training rows."""
    expert = extend_expert(bundle.expert, joined, seed, target=bundle.manifest.get("target"))
    if not joined.new:
        return Extended(bundle.network, expert)
    torch.manual_seed(seed)
    folded, table = read_folded(bundle.network), joined.table
    temper = _temper(bundle, joined)
    network = start_network(folded, joined, temper)
    settings = choose_settings("moe", len(table.positions), table.positions.size, epochs)
    n_rows = min(settings.batch_rows, max(FEWEST_ROWS, STEP_ROWS // folded.n_members))
    settings = replace(
        settings,
        shape=network.shape,
        batch_rows=n_rows,
        learning_rate=FASTER * settings.learning_rate,
        weight_decay=settings.weight_decay / FASTER,
    )
    lesson = _prepare(joined, expert, temper, settings, manifest=bundle.manifest, seed=seed)
    _fit(network, lesson, settings, seed, report)
    wide = folded.resize(joined.schema.n_values).add_heads(N_NEW_HEADS).grow(len(joined.schema.features))
    wide = wide.put(network.fold(), table.columns.tolist(), n_old=joined.n_old, n_new_heads=N_NEW_HEADS)
    content = write_folded(wide, joined.schema.digest())
    check_extension(network, content, joined)
    return Extended(content, expert, network.shape.sizes)


def _temper(bundle: Bundle, joined: Joined) -> Tensor:
    """The factor by which calibration will multiply what is said of each column, (S,)."""
    columns = joined.table.columns
    temper = np.ones(len(columns))
    if bundle.calibration is not None:
        old = columns[columns < joined.n_old]
        temper[: len(old)] = np.maximum(bundle.calibration.temper[old], LEAST_TEMPER)
    return torch.from_numpy(temper).float()


def start_network(folded: Folded, joined: Joined, temper: Tensor) -> ExtendedNetwork:
    """The network over the new table's features, old ones first, before anything is learnt."""
    features, columns = joined.schema.features, joined.table.columns
    old = columns[columns < joined.n_old]
    some = Schema(tuple(features[i] for i in columns))
    dataset = joined.dataset("")
    company, n_known = dataset.company()[np.ix_(columns, columns)], dataset.n_known()[columns]
    layout = Layout([some], folded.n_members, company, n_known)
    in_new_head = [
        start_fresh(folded.n_members, n, some.n_values, n_heads=N_NEW_HEADS, d_head=folded.d_head)
        for n in (len(old), len(joined.new))
    ]
    in_old_heads = start_new(folded, features[: joined.n_old], joined.new, some.n_values)
    frozen = folded.resize(some.n_values).pick(old.tolist())
    starts = (in_new_head[0], in_old_heads.beside(in_new_head[1]))
    return ExtendedNetwork(frozen, layout, starts, loud=1.0 / temper[: len(old)])


def _prepare(
    joined: Joined,
    expert: LinearExpert | None,
    temper: Tensor,
    settings: FitSettings,
    *,
    manifest: Mapping[str, Any],
    seed: int,
) -> Lesson:
    """Split the training rows, for each member in its own way."""
    table = joined.table
    known = ~np.isnan(table.positions).all(axis=1)
    pool = np.random.default_rng(seed).permutation(np.flatnonzero(~table.held_out & known))
    if len(pool) < 2:
        raise TableError(f"table {table.name!r}: all of its training rows are empty")
    n_validation = min(MOST_VALIDATION, max(1, int(len(pool) * settings.validation_share)))
    # Member m is checked by the m-th stretch of the shuffled rows and trains on all the others.
    rolled = [np.roll(pool, -m * n_validation) for m in range(settings.shape.n_members)]
    positions = torch.from_numpy(table.positions)
    validation = positions[torch.from_numpy(np.stack([rows[:n_validation] for rows in rolled]))]
    generator = torch.Generator().manual_seed(seed)
    names = [joined.schema.features[i].name for i in table.columns]
    is_target = torch.tensor([name == manifest.get("target") for name in names])
    fitted, alike = manifest["training"], [1.0] * settings.shape.n_members
    voices, doubts = (
        torch.tensor([fitted.get(held, {}).get(name, usual) for name in names]).T
        for held, usual in (("voices", alike), ("doubts", [0.0] * len(alike)))
    )
    lean = np.zeros((len(table.columns), 2)) if expert is None else expert.lean[table.columns]
    return Lesson(
        positions=positions,
        features=torch.from_numpy(table.columns),
        weights=torch.where(is_target, settings.target_weight, 1.0),
        temper=temper,
        lean=torch.from_numpy(lean).float(),
        voices=voices,
        doubts=voices * doubts,
        n_doubting=fitted["settings"]["shape"]["n_heads"] if fitted.get("doubts") else 1,
        expert=expert,
        training=[rows[n_validation:] for rows in rolled],
        validation=validation,
        seen=hide_cells(validation, settings.hide_share, settings.hide_most, generator),
    )


def _answer(network: ExtendedNetwork, lesson: Lesson, seen: Tensor, asked: Tensor) -> Answer:
    """What will be served of some columns (Q,) of rows (M, B, S): network, expert and calibration together."""
    said: Answer = network(torch.arange(len(lesson.features)), seen, asked)
    usual = network.base_table()[asked, :-1].unsqueeze(-1)  # (Q, K, 1)
    # Each member learns as if it were alone: what it says louder or softer for the others' sake is taken back.
    voices = lesson.voices[:, asked].unsqueeze(-1)  # (M, Q, 1)
    # Nor does it learn to make up for doubted shares.
    opened = 1.0 - said.gates[:, : lesson.n_doubting, :, -1:].mean(1)  # (M, Q, 1, B)
    doubted = lesson.doubts[:, asked, None, None] * network.layout.rarity(asked).unsqueeze(-1) * opened
    logits, point = usual + (said.logits - doubted - usual) / voices.unsqueeze(-1), said.point / voices
    heard = hear(lesson.expert, lesson.features, seen, lesson.features[asked])
    if heard is not None:
        lean = lesson.lean[asked].unsqueeze(-1)  # (Q, 2, 1)
        logits = logits + lean[:, 1:] * heard.logits[:, :, : logits.shape[2]]
        point = point + lean[:, 0] * heard.mean
    logits = usual + lesson.temper[asked].view(-1, 1, 1) * (logits - usual)
    return said._replace(logits=logits, point=point)


def _losses(
    network: ExtendedNetwork, lesson: Lesson, batch: tuple[Tensor, Tensor, Tensor], settings: FitSettings
) -> Tensor:
    """Each member's loss, (M,), for true cells, what is seen of them, and which columns are asked."""
    truth, seen, asked = batch
    wanted = truth[..., asked]
    losses = cell_losses(_answer(network, lesson, seen, asked), wanted, network.layout, asked, settings)
    return member_losses(losses, wanted, lesson.weights[asked])


@kept_memory()
def _fit(
    network: ExtendedNetwork, lesson: Lesson, settings: FitSettings, seed: int, report: Callable[[Check], None]
) -> None:
    n_steps = _count_steps(len(lesson.training[0]), settings)
    every = max(1, n_steps // settings.n_checks)
    stepper = Stepper(network, settings, n_steps)
    # Of a network both ask only for its weights, members first, and how many members there are.
    average, keeper = Average(cast(Any, network), settings.averaging), Keeper(cast(Any, network))
    total, since = 0.0, 0
    for step, batch in enumerate(_batches(network, lesson, settings, n_steps, seed)):
        loss = _losses(network, lesson, batch, settings).sum()
        stepper.forget_gradients()
        loss.backward()  # type: ignore[no-untyped-call]
        if settings.clip is not None:
            nn.utils.clip_grad_norm_(network.parameters(), settings.clip * settings.shape.n_members)
        stepper.step()
        average.update(cast(Any, network), step)
        total, since = total + loss.item() / settings.shape.n_members, since + 1
        if (step + 1) % every == 0 or step == n_steps - 1:
            scores = _validate(cast(ExtendedNetwork, average.network), lesson, settings)
            score = keeper.offer(average.network, scores, is_last=step == n_steps - 1)
            report(Check(step + 1, n_steps, total / since, score))
            total, since = 0.0, 0
    keeper.restore(cast(Any, network))


def _count_steps(n_rows: int, settings: FitSettings) -> int:
    """As in a fit, but no more for a large table: a few thousand rows teach a new column all it will learn."""
    if settings.epochs is None:
        n_rows = min(n_rows, settings.max_steps * settings.batch_rows)
    return settings.n_steps(n_rows)


@torch.no_grad()
def _validate(network: ExtendedNetwork, lesson: Lesson, settings: FitSettings) -> Tensor:
    """Each member's loss on its own validation rows, relative to the trivial guess, (M,)."""
    every = torch.arange(len(lesson.features))
    guess = trivial_answer(network.layout, lesson.validation, every)
    losses = cell_losses(guess, lesson.validation, network.layout, every, settings)
    trivial = member_losses(losses, lesson.validation, lesson.weights).clamp(min=1e-9)
    return _losses(network, lesson, (lesson.validation, lesson.seen, every), settings) / trivial


def _batches(
    network: ExtendedNetwork, lesson: Lesson, settings: FitSettings, n_steps: int, seed: int
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Rows for each member, (M, B, S), what is seen of them, and which columns are asked (Q,)."""
    rng = np.random.default_rng([seed, 0])
    generator = torch.Generator().manual_seed(seed)
    old, new = np.split(np.arange(len(lesson.features)), [network.n_old])
    left = [rows[:0] for rows in lesson.training]
    for _ in range(n_steps):
        for m, rows in enumerate(lesson.training):
            while len(left[m]) < settings.batch_rows:  # dealt to the last before they are shuffled again
                left[m] = np.concatenate([left[m], rng.permutation(rows)])
        drawn = np.stack([rows[: settings.batch_rows] for rows in left])
        left = [rows[settings.batch_rows :] for rows in left]
        truth = lesson.positions[torch.from_numpy(drawn)]
        seen = hide_cells(truth, settings.hide_share, settings.hide_most, generator)
        asked = np.concatenate([rng.permutation(old)[:MOST_OLD], rng.permutation(new)[:MOST_NEW]])
        yield truth, seen, torch.from_numpy(asked)
