"""Steps of AdamW, by torch's own kernel.

``torch.optim.AdamW`` takes the same steps, but torch loads its compiler with the first optimizer that is made: two
seconds of every fit, for nothing that is used here.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

from training.pacing import decay_groups, pace
from training.settings import FitSettings

# Those that torch takes if nothing is said.
BETAS = (0.9, 0.999)
EPSILON = 1e-8


@dataclass(slots=True)
class _Memory:
    """Moving averages of a weight's gradient and of its square, and how many steps it has taken."""

    gradient: Tensor
    square: Tensor
    n_steps: Tensor

    @classmethod
    def of(cls, weight: Tensor) -> "_Memory":
        n_steps = torch.zeros((), dtype=torch.float32, device=weight.device)
        return cls(torch.zeros_like(weight), torch.zeros_like(weight), n_steps)


@dataclass(slots=True)
class Stepper:
    """Moves the weights of a network along their gradients, at the pace of a fit of so many steps."""

    network: nn.Module
    settings: FitSettings
    n_steps: int
    n_done: int = field(default=0, init=False)
    _groups: list[tuple[list[nn.Parameter], float]] = field(init=False)
    _memory: dict[nn.Parameter, _Memory] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._groups = decay_groups(self.network, self.settings)

    def forget_gradients(self) -> None:
        for weight in self.network.parameters():
            weight.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """One step; weights without a gradient stay where they are."""
        learning_rate = self.settings.learning_rate * pace(self.n_done / self.n_steps, self.settings)
        self.n_done += 1
        for weights, decay in self._groups:
            pulled = {weight: weight.grad for weight in weights if weight.grad is not None}
            memory = [self._remember(weight) for weight in pulled]
            adamw(
                list(pulled),
                list(pulled.values()),
                [one.gradient for one in memory],
                [one.square for one in memory],
                [],
                [one.n_steps for one in memory],
                fused=True,
                amsgrad=False,
                beta1=BETAS[0],
                beta2=BETAS[1],
                lr=learning_rate,
                weight_decay=decay,
                eps=EPSILON,
                maximize=False,
            )

    def _remember(self, weight: nn.Parameter) -> _Memory:
        if weight not in self._memory:
            self._memory[weight] = _Memory.of(weight)
        return self._memory[weight]
