"""The joint normal law of a bundle with a new table's features more, without the rows it was fitted to.

Of the new features only their line on the old ones is taken from the new table; how the old ones lie is left to the
law, so that what it says of them, given each other, stays as it was to the last bit.
Axis letters: N rows, D dimensions: O old ones, n new ones.
"""

import numpy as np
from numpy.typing import NDArray

from model.law import PLAIN, NormalLaw, dimensions_of
from model.linear import LinearExpert
from model.schema import Feature, Schema
from training.joining import Joined
from training.joint_normal import MOST_DIMENSIONS, MOST_ROWS, fit_law, prior_rows_of, room_for_orders

Floats = NDArray[np.float64]
# Keeps the law proper where a new column is the copy of an old one, in squared spreads.
LEAST_LEFT = 1e-5


def extend_expert(
    expert: LinearExpert | None, joined: Joined, seed: int = 0, *, target: str | None = None
) -> LinearExpert | None:
    """The expert with the new features' dimensions; None where there is none. ``target``: that the bundle was fitted
    for.
    """
    if expert is None:
        return None
    law, n_old = expert.law, joined.n_old
    is_order = law.value < PLAIN
    room = room_for_orders(int((~joined.table.held_out).sum())) if is_order.any() else 0
    most, most_with_orders = (max(limit - len(law.owner), 0) for limit in (MOST_DIMENSIONS, room))
    owner, value = dimensions_of(Schema(joined.new), most, most_with_orders)
    dimensions = np.concatenate([law.owner, owner + n_old]), np.concatenate([law.value, value])
    wide = LinearExpert(joined.schema, NormalLaw.standard(*dimensions))
    table = joined.table
    pool = np.random.default_rng(seed).permutation(np.flatnonzero(~table.held_out))
    rows = wide.coordinates(table.columns, table.positions[pool[:MOST_ROWS]])  # (N, D)
    # As in a fit: bends are not to be found in few rows.
    heard = ~is_order | (len(dimensions[0]) <= room)
    mean, covariance = _extend_law(law, rows, prior_rows_of(dimensions[1], target), heard)
    lean = np.concatenate([expert.lean, _lean_of_new(expert.lean, joined)])
    beliefs = None if expert.beliefs is None else np.ones((len(lean), len(lean)))
    if beliefs is not None:  # new columns are learnt as they will be heard
        beliefs[:n_old, :n_old] = expert.beliefs
    return LinearExpert(joined.schema, NormalLaw(*dimensions, mean, covariance), lean, beliefs)


def _extend_law(law: NormalLaw, rows: Floats, prior_rows: Floats, heard: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Mean (D,) and covariance (D, D): the law's own, and after it the new dimensions, by their line on those of the
    old ones that are ``heard`` (O,), within rows (N, D) of all dimensions.
    """
    o, n = len(law.owner), rows.shape[1] - len(law.owner)
    shared = np.flatnonzero(heard & ~np.isnan(rows[:, :o]).all(axis=0))
    here, there = slice(None, len(shared)), slice(len(shared), None)
    used = [*shared, *range(o, o + n)]
    level, spread = fit_law(rows[:, used], prior_rows[used])
    slopes = np.zeros((n, o))
    slopes[:, shared] = np.linalg.solve(spread[here, here], spread[here, there]).T
    left = spread[there, there] - slopes[:, shared] @ spread[here, there] + LEAST_LEFT * np.eye(n)
    across = slopes @ law.covariance  # (n, O)
    own = 0.5 * (left + left.T) + across @ slopes.T
    mean = level[there] + slopes[:, shared] @ (law.mean[shared] - level[here])
    covariance = np.block([[law.covariance, across.T], [across, 0.5 * (own + own.T)]])
    return np.concatenate([law.mean, mean]), covariance


def _lean_of_new(lean: Floats, joined: Joined) -> Floats:
    """How far the law is followed for new features: as for old ones of their kind, (new features, 2)."""
    old = joined.schema.features[: joined.n_old]

    def usual(feature: Feature) -> Floats:
        alike = [i for i, other in enumerate(old) if other.kind == feature.kind]
        alike = alike or [i for i, other in enumerate(old) if other.is_number == feature.is_number]
        return np.asarray(lean[alike or slice(None)].mean(axis=0))

    return np.stack([usual(feature) for feature in joined.new]) if joined.new else np.empty((0, 2))
