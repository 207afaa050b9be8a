"""What a fit sees in one step: some rows of a table for each member, what is hidden of them, what the laws say of them.

Axis letters as in model.network: M members, B rows, S columns, Q questions; L data sets, N rows of a table.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training.dealing import Deck
from training.hearing import Audience, Heard
from training.objective import hide_cells
from training.parallel import Team
from training.settings import FitSettings

# In a wide table a step asks for some of its columns only: its cost then grows with S, not with S^2.
MOST_QUESTIONS = 32
# Laws are asked about so many steps at once where they share few rows: the calls are dear there, not the sums.
N_AHEAD = 8


@dataclass(slots=True)
class Part:
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


@dataclass(slots=True)
class Batch:
    """Rows of one table (M, B): true cells, cells that may be seen (M, B, S), and which columns are asked (Q,)."""

    part: Part
    rows: NDArray[np.int64]
    truth: Tensor
    seen: Tensor
    asked: Tensor
    heard: Heard | None = None


def draw_batches(parts: list[Part], settings: FitSettings, n_steps: int, seed: int, team: Team) -> Iterator[Batch]:
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
        yield Batch(part, rows, truth, seen, questions)


def hear_ahead(batches: Iterator[Batch]) -> Iterator[Batch]:
    """The same batches, with what the laws say of them."""
    while ahead := list(islice(batches, N_AHEAD)):
        for some in _group_alike(ahead):
            _hear(some)
        yield from ahead


def _group_alike(batches: Sequence[Batch]) -> Iterable[list[Batch]]:
    """Those of the same rows and questions together, where several laws share few rows; all others stand alone: there
    the sums are dear, not the calls, and take memory.
    """
    alike: dict[tuple[int, tuple[int, ...]], list[Batch]] = defaultdict(list)
    for i, batch in enumerate(batches):
        audience = batch.part.audience
        is_small = audience is not None and audience.rehearsed is not None
        alike[id(batch.part) if is_small else -i, tuple(batch.asked.tolist())].append(batch)
    return alike.values()


def _hear(some: Sequence[Batch]) -> None:
    """Ask the laws about batches of the same table and questions."""
    audience, asked = some[0].part.audience, some[0].asked
    if audience is None:
        return
    seen = torch.cat([batch.seen for batch in some], dim=1)
    rows = np.concatenate([batch.rows for batch in some], axis=1)
    heard = audience.hear(seen, asked, rows)
    for batch, *said in zip(some, *(part.chunk(len(some), dim=-1) for part in heard), strict=True):
        batch.heard = Heard(*said)
