"""Memory that is freed within a fit stays with the process until the fit is over."""

import subprocess
import sys

import pytest

from training.memory import _find_glibc

PROGRAM = """
import numpy as np
from training.memory import kept_memory

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20

@kept_memory()
def work():
    blocks = [np.ones(2**20) for _ in range(20)]  # 8 MB each
    del blocks
    return resident()

before = resident()
within = work()
print(within - before, resident() - before)
"""


@pytest.mark.skipif(_find_glibc() is None or sys.platform != "linux", reason="only glibc has these settings")
def test_freed_memory_is_kept_within_and_given_back_afterwards():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    within, afterwards = map(float, done.stdout.split())
    assert within > 100
    assert afterwards < 40
