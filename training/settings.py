"""How to fit: one frozen object per preset, adapted to the size of the tables."""

from dataclasses import dataclass, replace

from model.network import MoeNetwork, Shape
from model.paper import PaperNetwork

NETWORKS: dict[str, type[MoeNetwork] | type[PaperNetwork]] = {"moe": MoeNetwork, "paper": PaperNetwork}
# From this many cells on, one member fits as well as four and costs a quarter.
MANY_CELLS = 1_000_000
# Below so many rows chance has a large say, which more members average out at little cost.
FEW_ROWS, VERY_FEW_ROWS = 1_000, 400
# In tables of more columns a member costs so much that four have to do.
MANY_COLUMNS = 16
# How strongly weights are pulled to zero: as so many rows' worth of evidence, within bounds.
DECAY_ROWS = 100.0
MOST_DECAY = 0.3


@dataclass(frozen=True, slots=True)
class FitSettings:
    """Everything a fit depends on beside its tables and its seed."""

    preset: str
    shape: Shape
    batch_rows: int
    learning_rate: float
    weight_decay: float = 0.0
    # The decay of what belongs to one value of one feature alone: it has the fewest rows.
    value_decay: float = 0.0
    warm_up: float = 0.0
    cosine: bool = False
    averaging: float = 0.0
    clip: float | None = None
    # The squared error of the expected value, for numbers and ordinals; beside it, the weight of the
    # distribution's cross entropy for numbers (it is 1 for all others).
    bins_weight: float = 1.0
    point_weight: float = 0.0
    # The share of rows in which more than the asked cell is hidden, at a rate of up to hide_most.
    hide_share: float = 0.0
    hide_most: float = 0.9
    # How much a named target counts beside each other column.
    target_weight: float = 3.0
    # Where no target is named: how much a word counts beside a number, and how fast what belongs to one value of
    # one feature alone moves beside the rest.
    word_weight: float = 1.0
    own_scale: float = 0.1
    # How far to doubt, after the fit, that the levels of an ordinal target will be as frequent as in the training rows.
    doubt: float = 0.0
    # Rows that a member leaves out of its training to choose its weights by.
    validation_share: float = 0.25
    # Steps: a number of epochs if given, else a number of steps per training row within bounds.
    epochs: float | None = None
    steps_per_row: float = 0.65
    min_steps: int = 300
    max_steps: int = 1300
    n_checks: int = 25

    def n_steps(self, n_rows: int) -> int:
        one_epoch = max(1, -(-n_rows // self.batch_rows))
        if self.epochs is not None:
            return max(1, round(self.epochs * one_epoch))
        bounded = min(max(round(self.steps_per_row * n_rows), self.min_steps), self.max_steps)
        return max(bounded, one_epoch)


PRESETS = {
    "moe": FitSettings(
        preset="moe",
        shape=Shape(n_members=4, n_heads=8, d_head=4),
        batch_rows=64,
        learning_rate=2e-2,
        weight_decay=MOST_DECAY,
        value_decay=1.0,
        warm_up=0.05,
        cosine=True,
        averaging=0.98,
        clip=5.0,
        bins_weight=0.3,
        point_weight=1.0,
        hide_share=0.5,
        target_weight=30.0,
        word_weight=4.0,
        own_scale=0.6,
        doubt=0.15,
        validation_share=0.02,
    ),
    "paper": FitSettings(
        preset="paper",
        shape=Shape(n_members=1, n_heads=5, d_head=4),
        # The reference takes 128 masked rows a step; one pass gives a masked row per column.
        batch_rows=16,
        learning_rate=1e-3,
        target_weight=1.0,
        epochs=200,
        validation_share=0.1,
    ),
}


def choose_settings(preset: str, n_rows: int, n_cells: int, epochs: float | None = None) -> FitSettings:
    """The settings of a preset for tables of this size."""
    settings = PRESETS[preset]
    if epochs is not None:
        settings = replace(settings, epochs=epochs)
    if preset != "moe":
        return settings
    settings = replace(settings, weight_decay=min(MOST_DECAY, DECAY_ROWS / max(n_rows, 1)))
    if n_rows < FEW_ROWS:
        n_members = 4 if n_cells > MANY_COLUMNS * n_rows else 16 if n_rows < VERY_FEW_ROWS else 8
        shape = replace(settings.shape, n_members=n_members, half_additive=True)
        settings = replace(settings, shape=shape, learning_rate=1e-2, validation_share=0.15)
    if n_cells > MANY_CELLS:
        shape = replace(settings.shape, n_members=1)
        settings = replace(settings, shape=shape, batch_rows=512, validation_share=0.05)
    return settings
