"""Data-parallel fitting under torchrun: every process draws other rows, gradients are averaged."""

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Team:
    """Who we are among the processes of one fit; alone without torchrun."""

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        return self.rank == 0

    def average(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by its mean over all processes, in one message."""
        if self.size == 1:
            return
        tensors = list(tensors)
        flat = torch.cat([tensor.flatten() for tensor in tensors])
        dist.all_reduce(flat)
        flat /= self.size
        start = 0
        for tensor in tensors:
            tensor.copy_(flat[start : start + tensor.numel()].view_as(tensor))
            start += tensor.numel()


@contextmanager
def join_team(device: str) -> Iterator[Team]:
    """Join the other processes if torchrun started us (gloo on CPU, nccl on GPUs)."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield Team()
        return
    dist.init_process_group("nccl" if device.startswith("cuda") else "gloo")
    try:
        yield Team(dist.get_rank(), dist.get_world_size())
    finally:
        dist.destroy_process_group()


def n_cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def work_alone() -> None:
    """One thread for each process of a pool, and Ctrl-C is for the process that started it."""
    from threadpoolctl import threadpool_limits

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    threadpool_limits(1)
