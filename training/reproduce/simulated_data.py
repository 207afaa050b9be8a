"""The simulated data sets of the paper's section 4, drawn to the letter, and what could be known of them.

Five covariates with correlation ``corr`` in training and ``1 - corr`` in test, the first two with their
sign turned; some of them cause y; all are seen with noise and cut into ten quantile bins. All of it is
Gaussian before the bins, so p(y | bins) under either law is an integral over a box: the limits below.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from training.reproduce.directions import factor

Floats = NDArray[np.float64]
Bins = NDArray[np.int64]

N_ROWS, N_COVARIATES, N_BINS = 2000, 5, 10
N_TURNED = N_COVARIATES // 2
# Points in a box for the limits.
N_POINTS = 128


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the study's table: how many covariates cause y, the noise, the correlation in training."""

    n_causes: int
    noise: float
    corr: float

    @property
    def name(self) -> str:
        return f"{self.n_causes},{self.noise:g},{self.corr:g}"


CELLS = tuple(Cell(n, noise, corr) for n in (1, 5) for noise in (0.0, 0.5, 1.5) for corr in (0.1, 0.9))


@dataclass(frozen=True, slots=True)
class Simulated:
    """One data set: bins of the covariates (N, 5) and of y (N,), and the law behind them."""

    x: Bins
    y: Bins
    x_test: Bins
    y_test: Bins
    cell: Cell
    coefficients: Floats
    edges: Floats  # (6, 11): of the covariates, then of y


def published_seeds() -> list[int]:
    """The twenty seeds of the paper."""
    generator = np.random.RandomState(2023)
    return [int(seed) for seed in generator.randint(10000, size=20)]


def simulate(cell: Cell, seed: int) -> Simulated:
    """Draw one data set; the order of the draws is the paper's."""
    draw = np.random.RandomState(seed)
    train, test = (_draw_covariates(draw, corr) for corr in (cell.corr, 1.0 - cell.corr))
    scales = noise_scales(cell)
    seen = np.concatenate([x + scales * draw.normal(size=x.shape) for x in (train, test)])
    coefficients = draw.uniform(size=cell.n_causes) * 10.0
    y = np.concatenate([x[:, : cell.n_causes] @ coefficients + 2.0 * draw.normal(size=N_ROWS) for x in (train, test)])
    columns = [*seen.T, y]
    bins = np.stack([pd.qcut(column, N_BINS, labels=False) for column in columns], axis=1).astype(np.int64)
    edges = np.stack([np.quantile(column, np.linspace(0.0, 1.0, N_BINS + 1)) for column in columns])
    (x, y_bins), (x_test, y_test) = ((part[:, :-1], part[:, -1]) for part in (bins[:N_ROWS], bins[N_ROWS:]))
    return Simulated(x, y_bins, x_test, y_test, cell, coefficients, edges)


def noise_scales(cell: Cell) -> Floats:
    """The noise with which each covariate is seen: causes .4, others .3 of the cell's noise."""
    return np.where(np.arange(N_COVARIATES) < cell.n_causes, 0.4, 0.3) * cell.noise


def _covariance(corr: float) -> Floats:
    return corr * np.ones((N_COVARIATES, N_COVARIATES)) + (1.0 - corr) * np.eye(N_COVARIATES)


def _draw_covariates(draw: np.random.RandomState, corr: float) -> Floats:
    # What ``draw.multivariate_normal`` does, with directions that are the same on every machine.
    x: Floats = draw.standard_normal((N_ROWS, N_COVARIATES)) @ factor(corr, N_COVARIATES)
    x[:, :N_TURNED] *= -1.0
    return x


def limit_of(data: Simulated, corr: float) -> Floats:
    """p(y's bin | the covariates' bins) of the test rows under the law with this correlation, (N, 10).

    With the training correlation: what unlimited training data could teach. With the test's: what could be
    known at all. Each row's box is filled with points of a Sobol sequence, weighted by the law's density.
    """
    from scipy.special import ndtr, ndtri
    from scipy.stats import qmc

    seen, slopes, spread = _law(data, corr)
    deviations = np.sqrt(np.diag(seen))
    tilt = np.linalg.inv(seen) - np.diag(1.0 / np.diag(seen))
    ranks = ndtr(data.edges[:-1] / deviations[:, None])  # (5, 11)
    ranks[:, 0], ranks[:, -1] = 0.0, 1.0
    unit = qmc.Sobol(N_COVARIATES, seed=0).random(N_POINTS)
    every = np.arange(N_COVARIATES)
    answers = []
    for rows in np.array_split(data.x_test, 10):
        low, high = ranks[every, rows], ranks[every, rows + 1]  # (B, 5)
        inside = low[:, None] + unit * (high - low)[:, None]  # (B, points, 5)
        x = ndtri(np.clip(inside, 1e-12, 1.0 - 1e-12)) * deviations
        weights = -0.5 * ((x @ tilt) * x).sum(-1)
        weights = np.exp(weights - weights.max(1, keepdims=True))
        below = ndtr((data.edges[-1, 1:-1] - (x @ slopes)[..., None]) / spread)  # (B, points, 9)
        shares = np.diff(np.pad(below, ((0, 0), (0, 0), (1, 1)), constant_values=((0, 0), (0, 0), (0, 1))), axis=-1)
        answers.append((weights[..., None] * shares).sum(1) / weights.sum(1)[:, None])
    return np.concatenate(answers)


def _law(data: Simulated, corr: float) -> tuple[Floats, Floats, float]:
    """The covariance of what is seen, the regression of y on it, and the spread that is left."""
    signs = np.where(np.arange(N_COVARIATES) < N_TURNED, -1.0, 1.0)
    true = _covariance(corr) * np.outer(signs, signs)
    causes = np.zeros(N_COVARIATES)
    causes[: data.cell.n_causes] = data.coefficients
    seen = true + np.diag(noise_scales(data.cell) ** 2)
    slopes: Floats = np.linalg.solve(seen, true @ causes)
    left = float(causes @ true @ causes + 4.0 - (true @ causes) @ slopes)
    return seen, slopes, left**0.5
