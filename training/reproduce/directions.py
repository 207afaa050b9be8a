"""The directions along which the simulated covariates are drawn.

numpy draws from a normal law along the singular vectors of its covariance. That of the simulated study has four equal
singular values, so any turn of their vectors would do, and which one LAPACK finds is decided by rounding, so by the
processor: the published seeds alone do not fix the data. These are the vectors found with the common AVX2 kernels
of OpenBLAS; with them every machine draws the data sets that our figures were measured on.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
# By the correlation (1 - .9 is not .1 to the last digit, and has directions of its own): all but the first, which
# is the same everywhere.
OTHERS: Mapping[float, tuple[tuple[float, ...], ...]] = {
    0.1: (
        (0.8944271909999157, -0.223606797749979, -0.223606797749979, -0.223606797749979, -0.2236067977499791),
        (0, -0.4965635331614209, -0.08276058886023684, -0.2482817665807104, 0.8276058886023678),
        (0, 0.7071067811865474, -0.4714045207910315, -0.4714045207910317, 0.2357022603955158),
        (0, 0.05852057359806529, 0.7217537410428052, -0.6827400253107616, -0.09753428933010878),
    ),
    0.9: (
        (0.8944271909999159, -0.223606797749979, -0.223606797749979, -0.223606797749979, -0.223606797749979),
        (0, -0.7409236279658542, 0.1794268900559361, 0.6421338109037403, -0.08063707299382228),
        (0, -0.1386145580512187, -0.6858070017505709, 0.1201326169777229, 0.7042889428240667),
        (0, 0.4264014327112209, -0.497468338163091, 0.5685352436149611, -0.497468338163091),
    ),
    0.09999999999999998: (
        (0, 0.03333333333333346, -0.6555555555555556, 0.7444444444444445, -0.1222222222222222),
        (0.894427190999916, -0.223606797749979, -0.223606797749979, -0.223606797749979, -0.223606797749979),
        (0, 0.8333333333333335, -0.3888888888888889, -0.3888888888888889, -0.05555555555555552),
        (0, -0.2333333333333334, -0.4111111111111111, -0.2111111111111111, 0.8555555555555555),
    ),
}


def factor(corr: float, n: int) -> Floats:
    """What turns independent normal variables (N, n) into some with this correlation, (n, n)."""
    directions = np.vstack([np.full(n, -(n**-0.5)), OTHERS[corr]])
    variances = np.full(n, 1.0 - corr)
    variances[0] += n * corr
    turned: Floats = np.sqrt(variances)[:, None] * directions
    return turned
