"""What was said of left-out cells, and by whose cells each group of rows is calibrated.

Axis letters: N cells, K values, G groups by how much of a row is observed.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from model.calibration import GROUPS

Floats = NDArray[np.float64]
N_GROUPS = len(GROUPS) + 1
# A feature's own rows decide from so many on.
FEWEST_ROWS = 30


@dataclass(frozen=True, slots=True)
class Asked:
    """Cells of one feature: what was said of them (N, K), the value expected, what is true, and the share of
    columns observed, (N,) each.
    """

    logits: Floats
    expected: Floats
    truth: Floats
    observed: Floats

    @property
    def groups(self) -> NDArray[np.int64]:
        """The group of each cell's row, (N,)."""
        return np.asarray(np.searchsorted(GROUPS, self.observed, side="right"))


def by_group(
    found: dict[int, Floats], asked: dict[int, Asked], fewest: int = FEWEST_ROWS
) -> Iterator[tuple[int, int, Floats]]:
    """Of what was ``found`` of each feature's cells, (N,): for each feature and group what decides there. That is what
    the feature has in that group if it is enough, ``fewest``, else all of the feature, else all that is in that group.
    """
    groups = {index: asked[index].groups for index in found}
    for group in range(N_GROUPS):
        every = [cells[groups[index] == group] for index, cells in found.items()]
        together = np.concatenate(every) if every else np.empty(0)
        for index, cells in found.items():
            own = cells[groups[index] == group]
            yield index, group, own if len(own) >= fewest else cells if len(cells) >= fewest else together
