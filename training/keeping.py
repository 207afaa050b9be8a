"""Which weights a fit keeps: a moving average of them, and each member's best by its own validation rows."""

import copy

import torch
from torch import Tensor

from model.network import MoeNetwork
from model.paper import PaperNetwork

Network = MoeNetwork | PaperNetwork

TOLERANCE = 0.02


class Average:
    """An exponential moving average of the weights: what is checked and kept."""

    def __init__(self, network: Network, memory: float) -> None:
        self.memory = memory
        self.network = copy.deepcopy(network) if memory > 0.0 else network

    @torch.no_grad()
    def update(self, network: Network, step: int) -> None:
        if self.memory > 0.0:
            # A short memory at first: the start is not worth remembering.
            share = 1.0 - min(self.memory, (step + 1) / (step + 10))
            torch._foreach_lerp_(list(self.network.parameters()), list(network.parameters()), share)


class Keeper:
    """Keeps each member's best weights."""

    def __init__(self, network: Network) -> None:
        self.best = torch.full((network.shape.n_members,), torch.inf)
        self.weights = [weight.detach().clone() for weight in network.parameters()]

    @torch.no_grad()
    def offer(self, network: Network, scores: Tensor, *, is_last: bool = False) -> float:
        """Take over the members that are better than ever; returns the mean score.

        The last weights, those of the annealed learning rate, stand unless they are clearly worse: a few
        validation rows cannot tell small differences.
        """
        scores = scores.cpu()
        better = scores < (self.best * (1.0 + TOLERANCE) if is_last else self.best)
        self.best = torch.minimum(scores, self.best)
        for kept, weight in zip(self.weights, network.parameters(), strict=True):
            # The member axis comes first in every weight of every network.
            kept[better.to(kept.device)] = weight[better.to(kept.device)]
        return float(scores.mean())

    @torch.no_grad()
    def restore(self, network: Network) -> None:
        for weight, kept in zip(network.parameters(), self.weights, strict=True):
            weight.copy_(kept)
