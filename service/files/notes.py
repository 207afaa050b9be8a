"""Remarks gathered over all pieces of a file: one per column and kind, with rows of the whole file."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from model.cells import show_value
from model.errors import MOST_LISTED
from model.schema import Feature, Link

UNSEEN = "categories never seen, read as missing"
MISFIT = "answers that the column's type cannot hold, left empty"

Rows = NDArray[np.int64]


@dataclass
class Notes:
    """How often each remark was made, and the first rows it was made of."""

    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    firsts: dict[tuple[str, str], list[int]] = field(default_factory=dict)

    def add(self, column: str, remark: str, rows: Rows) -> None:
        """Remark on some rows of the whole file."""
        if len(rows) == 0:
            return
        key = (column, remark)
        self.counts[key] = self.counts.get(key, 0) + len(rows)
        firsts = self.firsts.setdefault(key, [])
        firsts.extend(rows[: MOST_LISTED - len(firsts)].tolist())

    def absorb(self, other: "Notes") -> None:
        """Take over the remarks that only the other has: of copies of one file the first of a kind is enough."""
        for key, count in other.counts.items():
            if key not in self.counts:
                self.counts[key], self.firsts[key] = count, other.firsts[key]

    def say(self) -> tuple[str, ...]:
        """One sentence for each column and kind of remark."""
        return tuple(self._sentence(column, remark) for column, remark in self.counts)

    def _sentence(self, column: str, remark: str) -> str:
        n, firsts = self.counts[column, remark], self.firsts[column, remark]
        shown = ", ".join(map(str, firsts)) + (f", and {n - len(firsts)} more" if n > len(firsts) else "")
        return f"column {column!r}: {remark}, in {n} row{'s' if n > 1 else ''}: {shown}"


def beyond_range(feature: Feature, link: Link) -> str:
    """The remark on numbers outside the range the model was fitted on, in the column's unit."""
    ends = sorted((end - link.offset) / link.scale for end in (feature.knots.values[0], feature.knots.values[-1]))
    low, high = (show_value(feature, end) if feature.kind == "datetime" else f"{end:g}" for end in ends)
    return f"outside the fitted range {low} to {high}, clamped"
