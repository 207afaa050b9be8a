"""Rubin's rules: one estimate, and how sure it is, from the same estimate on several completed copies of a table."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t


@dataclass(frozen=True, slots=True)
class Pooled:
    """An estimate over all copies, its standard error, and the degrees of freedom its interval has."""

    estimate: float
    stderr: float
    freedom: float

    def interval(self, coverage: float = 0.95) -> tuple[float, float]:
        """Between which values the truth lies, so often."""
        reach = float(t.ppf(0.5 + 0.5 * coverage, self.freedom)) * self.stderr
        return self.estimate - reach, self.estimate + reach


def pool(estimates: Sequence[float], variances: Sequence[float], freedom: float = np.inf) -> Pooled:
    """Pool estimates and their squared standard errors, one of each for every copy.

    The variance within copies says how sure each copy is, the one between them how much the holes leave open.
    ``freedom``: the degrees of freedom that complete rows would have (rows less coefficients); without it, a large
    table is assumed (Barnard and Rubin's correction for small ones is then nothing).
    """
    m = len(estimates)
    if m < 2 or len(variances) != m:
        raise ValueError(f"pooling takes two or more estimates and as many variances, not {m} and {len(variances)}")
    if np.ndim(estimates) != 1 or np.ndim(variances) != 1:
        raise ValueError("one number is pooled at a time: give one estimate and one variance for each copy")
    if not np.isfinite(np.asarray([*estimates, *variances], dtype=float)).all() or min(variances) < 0.0:
        raise ValueError("estimates and variances must be finite numbers, and no variance less than 0")
    within = float(np.mean(variances))
    between = float(np.var(estimates, ddof=1)) * (1.0 + 1.0 / m)
    total = within + between
    missing = between / total if total > 0.0 else 0.0
    by_copies = (m - 1) / missing**2 if missing > 0.0 else np.inf
    by_rows = (freedom + 1.0) / (freedom + 3.0) * freedom * (1.0 - missing) if np.isfinite(freedom) else np.inf
    inverse = 1.0 / by_copies + (1.0 / by_rows if by_rows > 0.0 else np.inf)
    return Pooled(float(np.mean(estimates)), total**0.5, 1.0 / inverse if inverse > 0.0 else np.inf)
