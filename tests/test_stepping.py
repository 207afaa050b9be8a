"""Steps of AdamW: those of torch's own optimizer, without what it loads."""

import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from torch import nn

from training.pacing import decay_groups, pace
from training.settings import PRESETS
from training.stepping import Stepper


class Small(nn.Module):
    """Weights of each kind of decay, and one that is never used."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.mask = nn.Parameter(torch.randn(3))
        self.own = nn.Parameter(torch.randn(3))
        self.word = nn.Parameter(torch.randn(3))
        self.unused = nn.Parameter(torch.randn(3))

    def loss(self, at: float) -> torch.Tensor:
        return ((self.mask + self.own * at - self.word.square()) ** 2).sum()


def test_steps_are_those_of_torchs_own_optimizer():
    settings, n_steps = replace(PRESETS["moe"], learning_rate=0.05), 20
    ours, theirs = Small(), Small()
    stepper = Stepper(ours, settings, n_steps)
    groups = [{"params": weights, "weight_decay": decay} for weights, decay in decay_groups(theirs, settings)]
    optimizer = torch.optim.AdamW(groups, lr=settings.learning_rate, fused=True)
    for step in range(n_steps):
        stepper.forget_gradients()
        ours.loss(step / n_steps).backward()
        stepper.step()
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate * pace(step / n_steps, settings)
        optimizer.zero_grad()
        theirs.loss(step / n_steps).backward()
        optimizer.step()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(mine, other)
    assert torch.equal(ours.unused, Small().unused)


def test_a_fit_does_without_torchs_compiler(small_family, tmp_path):
    program = (
        "import sys; from training.__main__ import main\n"
        "code = main()\n"
        "sys.exit(3 if 'torch._dynamo' in sys.modules else code)"
    )
    command = [sys.executable, "-c", program, "fit", str(small_family), "--out", str(tmp_path / "b"), "--epochs", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 3:
        pytest.fail("torch._dynamo was loaded: two seconds of every fit")
    assert done.returncode == 0, done.stderr
