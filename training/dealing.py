"""How rows come into batches."""

import numpy as np
from numpy.typing import NDArray


class Deck:
    """Rows in random order, dealt to the last before they are shuffled again: an epoch is an epoch."""

    def __init__(self, rows: NDArray[np.int64], rng: np.random.Generator) -> None:
        self.rows, self.rng = rows, rng
        self.left: NDArray[np.int64] = rows[:0]

    def draw(self, n: int) -> NDArray[np.int64]:
        """The next ``n`` rows."""
        while len(self.left) < n:
            self.left = np.concatenate([self.left, self.rng.permutation(self.rows)])
        drawn, self.left = self.left[:n], self.left[n:]
        return drawn
