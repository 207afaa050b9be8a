"""In which units columns most likely are: feature value = cell * scale + offset, from their distributions.

Two tables differ in more than their units: cars of one decade are heavier than those of another. How much they
differ is seen from all matched columns together; a factor is believed only where that does not explain it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Factors between units that people use: powers of ten; inch, foot and mile; pound and ounce; gallon and cubic inch;
# miles per gallon and kilometres per litre; horsepower and kilowatt; and of time.
_TENS = (-6, -3, -2, -1, 1, 2, 3, 6)
_UNITS = (2.54, 0.3048, 1.609344, 0.45359237, 28.349523, 3.785412, 0.016387064, 0.4251437, 0.7456999)
_TIMES = (60.0, 24.0, 12.0, 7.0)
# How likely each is beforehand: most columns come in the same unit.
PRIORS = {
    1.0: 0.6,
    **{10.0**k: 0.2 / len(_TENS) for k in _TENS},
    **{unit**power: 0.09 / len(_UNITS) for unit in _UNITS for power in (-1, 1)},
    **{unit**power: 0.01 / len(_TIMES) for unit in _TIMES for power in (-1, 1)},
}
# How far tables differ apart from units, in logarithms: no less and no more than this.
LEAST_APART, MOST_APART = 0.04, 0.4
# Beyond so many times that no factor is believed. Ratios that spread further than this over the quantiles are none.
MOST_AWAY = 3.0
MOST_SPREAD = 0.35
# Beyond this no unit is likely.
MOST_NUMBER = 1e30
# A line must fit as well as this; one that fits as well as that is a change of unit and nothing else.
LEAST_FIT, EXACT_FIT = 0.98, 0.9995


@dataclass(frozen=True, slots=True)
class Pair:
    """The quantiles of a feature and of the cells of a column that means the same; ``sign`` -1 if turned over.

    ``usual``: the range in which the feature's values lie in all tables.
    """

    feature: Floats
    cells: Floats
    sign: int = 1
    usual: tuple[float, float] = (math.inf, -math.inf)


def find_units(pairs: Sequence[Pair]) -> list[tuple[float, float] | None]:
    """Scale and offset of each; None where no scale and offset would do."""
    ratios = [_log_ratio(pair) for pair in pairs]
    sizes = [abs(ratio) for ratio in ratios if ratio is not None]
    # A quarter of a normal law's draws are nearer to zero than a third of its spread.
    apart = 3.0 * float(np.quantile(sizes, 0.25, method="lower")) if sizes else 0.0
    apart = min(max(apart, LEAST_APART), MOST_APART)
    units = [_find_unit(pair, ratio, apart) for pair, ratio in zip(pairs, ratios, strict=True)]
    return [unit if unit is not None and 1.0 / MOST_NUMBER < abs(unit[0]) < MOST_NUMBER else None for unit in units]


def _inner(pair: Pair) -> tuple[Floats, Floats]:
    """Both columns' quantiles without the outermost ones."""
    cut = len(pair.feature) // 20
    inner = slice(cut, len(pair.feature) - cut)
    return pair.feature[inner], (pair.cells if pair.sign > 0 else pair.cells[::-1])[inner]


def _log_ratio(pair: Pair) -> float | None:
    """The usual ratio of the two columns, as a logarithm; None if it is not the same all over."""
    y, x = _inner(pair)
    alike = x * y > 0.0  # of the same sign, and not zero
    if pair.sign < 0 or alike.mean() < 0.9:
        return None
    logs = np.log(y[alike] / x[alike])
    return float(np.median(logs)) if logs.std() < MOST_SPREAD else None


def _find_unit(pair: Pair, ratio: float | None, apart: float) -> tuple[float, float] | None:
    y, x = _inner(pair)
    if not (0.0 < x.std() < MOST_NUMBER and 0.0 < y.std() < MOST_NUMBER):
        return None
    slope, offset = (float(number) for number in np.polyfit(x, y, 1))
    fit = float(np.corrcoef(x, y)[0, 1]) ** 2
    middle = float(np.median(x))
    is_near = abs(float(np.median(y)) - middle) < y.std() and 0.5 < x.std() / y.std() < 2.0
    is_usual = pair.usual[0] <= middle <= pair.usual[1] and 0.2 < x.std() / y.std() < 5.0
    if (
        pair.sign > 0
        and (is_near or is_usual)
        and not (fit > EXACT_FIT and abs(math.log(abs(slope))) > 2 * LEAST_APART)
    ):
        return 1.0, 0.0
    if fit > EXACT_FIT:
        is_scaled = ratio is not None and abs(offset) < 0.05 * y.std()
        return (_nearest_factor(ratio, LEAST_APART), 0.0) if is_scaled and ratio is not None else _line(slope, offset)
    if ratio is not None:
        return _nearest_factor(ratio, apart), 0.0
    return _line(slope, offset) if fit > LEAST_FIT else None


def _nearest_factor(ratio: float, apart: float) -> float:
    """The factor that is likeliest where tables differ so much; the ratio itself if all are far."""
    away = {factor: abs(math.log(factor) - ratio) / apart for factor in PRIORS}
    best = min(PRIORS, key=lambda factor: away[factor] ** 2 / 2 - math.log(PRIORS[factor]))
    return float(f"{best:.7g}") if away[best] < MOST_AWAY else float(f"{math.exp(ratio):.4g}")


def _line(slope: float, offset: float) -> tuple[float, float]:
    return float(f"{slope:.4g}"), float(f"{offset:.4g}")
