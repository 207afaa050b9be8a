"""How far weights move: how strongly each is pulled to zero, and the pace over a fit."""

import math

from torch import nn

from training.settings import FitSettings


def decay_groups(network: nn.Module, settings: FitSettings) -> list[tuple[list[nn.Parameter], float]]:
    """Weights, and how strongly they are pulled to zero: biases not at all, lone values the most."""
    free: list[nn.Parameter] = []
    values: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for name, weight in network.named_parameters():
        if name.endswith("bias") or name in ("pair", "presence", "mask", "lean"):
            free.append(weight)
        else:
            (values if name.startswith("own") else others).append(weight)
    decays = zip((free, values, others), (0.0, settings.value_decay, settings.weight_decay), strict=True)
    return [(weights, decay) for weights, decay in decays if weights]


def pace(done: float, settings: FitSettings) -> float:
    """The learning rate's factor: a linear rise, then a fall along a cosine."""
    if done < settings.warm_up:
        return (done + 1e-3) / (settings.warm_up + 1e-3)
    if not settings.cosine:
        return 1.0
    return 0.5 * (1.0 + math.cos(math.pi * (done - settings.warm_up) / (1.0 - settings.warm_up)))
