"""Memory that a fit uses again in its next step stays with the process until the fit is over.

glibc hands a large block that is freed back to the system, which has to clear it before it is used again: every step
then pays for all of its tensors anew, a tenth of a fit. Other C libraries are left as they are.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

# The names of glibc's settings, and what they are set to: free memory that is kept, and the largest block that comes
# from there (glibc takes no more).
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
MOST_KEPT, LARGEST_BLOCK = 512 * 2**20, 32 * 2**20


@contextmanager
def kept_memory() -> Iterator[None]:
    """Within, freed memory is kept; then it is given back."""
    library = _find_glibc()
    if library is None:
        yield
        return
    library.mallopt(TRIM_THRESHOLD, MOST_KEPT)
    library.mallopt(MMAP_THRESHOLD, LARGEST_BLOCK)
    try:
        yield
    finally:
        library.malloc_trim(0)


@cache
def _find_glibc() -> Any:
    """The C library of this process, if it has these settings."""
    try:
        library = ctypes.CDLL(None)
    except (OSError, TypeError):  # Windows
        return None
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None
