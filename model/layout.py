"""What a schema fixes of a network before anything is learnt, and where cells sit between a feature's values.

Axis letters as in model.network: M members, B rows, S columns, K values, R orders, F features, V words; L is M
where members belong to several schemas, and 1 otherwise.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from model.codec import score_values, standardize
from model.schema import Schema

# Number features share their value embeddings as polynomials of the normal score, up to this order; each
# order counts this much less than the one before, so that simple shapes come first.
N_ORDERS = 5
ORDER_SCALE = 0.3
# A value seen in so many rows has half the say of one seen in all: a rare word's vector is mostly noise.
TRUSTED_ROWS = 20.0


class Layout(nn.Module):
    """What the schema fixes: which word, score and value each (feature, value) slot holds.

    Several schemas of the same form may be laid out together, one for each run of members: buffers with an
    axis L then have one entry per member, and a single one otherwise.
    """

    word: Tensor
    scores: Tensor
    standard: Tensor
    real: Tensor
    log_shares: Tensor
    trust: Tensor
    company: Tensor
    heard: Tensor
    is_number: Tensor
    is_ordinal: Tensor

    def __init__(
        self,
        schemas: Sequence[Schema],
        n_members: int,
        company: NDArray[np.float32] | None = None,
        n_known: NDArray[np.float32] | None = None,
    ) -> None:
        super().__init__()
        first = schemas[0]
        n_features = len(first.features)
        self.n_sets = len(schemas)
        self.n_words = len(first.words)
        self.n_bins = max((f.n_values for f in first.features if f.is_number), default=0)
        slots = [_lay_out(schema) for schema in schemas]
        copies = n_members // len(slots) if len(slots) > 1 else 1
        scores, standard, shares = (
            torch.from_numpy(np.stack(x)).repeat_interleave(copies, 0) for x in zip(*slots, strict=True)
        )
        if company is None:
            company = np.ones((n_features, n_features), dtype=np.float32)
        apart = company * (1.0 - np.eye(n_features, dtype=np.float32))
        self.register_buffer("word", torch.from_numpy(_word_slots(first)))  # (F, K); V where there is no word
        self.register_buffer("scores", scores)  # (L, F, K, R)
        self.register_buffer("standard", standard)  # (L, F, K)
        self.register_buffer("real", shares[0] > 0)  # (F, K)
        self.register_buffer("log_shares", shares.clamp(min=1e-9).log())  # (L, F, K)
        # (F, K): how far a value's own rows can be trusted; few rows teach a little at most.
        rows = shares[0] * torch.from_numpy(n_known).unsqueeze(1) if n_known is not None else torch.inf
        self.register_buffer("trust", 1.0 / (1.0 + TRUSTED_ROWS / (rows + 1e-9)) * torch.ones_like(shares[0]))
        self.register_buffer("is_number", torch.tensor([f.is_number for f in first.features]))
        self.register_buffer("is_ordinal", torch.tensor([f.kind == "ordinal" for f in first.features]))
        # (F, F): of the training rows that know the one feature, the share that knows the other as well;
        # where there are none, the other cannot speak of the one.
        self.register_buffer("company", torch.from_numpy(apart))
        self.register_buffer("heard", torch.from_numpy(company > 0))

    def rarity(self, features: Tensor) -> Tensor:
        """How much less frequent each value is than values are on the mean, in logarithms, (L, S, K)."""
        shares = self.log_shares.index_select(1, features)
        return ((shares.exp() * shares).sum(2, keepdim=True) - shares) * self.real[features]

    def share(self, features: Tensor, word: Tensor, score: Tensor) -> Tensor:
        """What features share for each of their values: words by string, numbers by score, (M, S, K, D)."""
        words = word.index_select(1, self.word[features].flatten()).view(len(word), *self.word[features].shape, -1)
        words = words * self.trust[features].unsqueeze(-1)
        numbers = self.scores.index_select(1, features) @ score.unsqueeze(1)
        return torch.where(self.is_number[features].view(-1, 1, 1), numbers, words)


def _word_slots(schema: Schema) -> NDArray[np.int64]:
    slots = np.full((len(schema.features), schema.n_values), len(schema.words), dtype=np.int64)
    at = {word: i for i, word in enumerate(schema.words)}
    for f, feature in enumerate(schema.features):
        if not feature.is_number:
            slots[f, : feature.n_values] = [at[word] for word in feature.words]
    return slots


def _lay_out(schema: Schema) -> tuple[NDArray[np.float32], ...]:
    """The scores (F, K, R), standard values (F, K) and shares (F, K) of one schema."""
    size = (len(schema.features), schema.n_values)
    scores, standard, shares = np.zeros((*size, N_ORDERS)), np.zeros(size), np.zeros(size)
    for f, feature in enumerate(schema.features):
        k = feature.n_values
        shares[f, :k] = feature.shares
        if feature.is_number:
            standard[f, :k] = standardize(feature.knots)
            orders = score_values(np.asarray(feature.shares), N_ORDERS)
            scores[f, :k] = orders * ORDER_SCALE ** np.arange(N_ORDERS)
    return scores.astype(np.float32), standard.astype(np.float32), shares.astype(np.float32)


def hats(positions: Tensor, n_values: int) -> Tensor:
    """Weights of the values around each position (..., S, B): (..., S, K, B); zeros where missing."""
    steps = torch.arange(n_values, device=positions.device, dtype=positions.dtype).unsqueeze(-1)
    # A missing cell sits far from every value: NaN itself would poison the whole row.
    return (1.0 - (positions.nan_to_num(nan=-9.0).unsqueeze(-2) - steps).abs()).clamp(min=0.0)
