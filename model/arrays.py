"""Named arrays as the content of one .npz file, and back. No pickle; the same arrays give the same bytes."""

import io
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


def pack_arrays(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """The content of a .npz file."""
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return file.getvalue()


def unpack_arrays(content: bytes) -> dict[str, NDArray[Any]]:
    """The arrays of a .npz file; ValueError if it is none, or holds anything that is not a finite number."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (zipfile.BadZipFile, EOFError, OSError, KeyError, AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"not an array file: {error}") from error
    for name, array in arrays.items():
        if array.dtype.kind not in "if" or not np.isfinite(array).all():
            raise ValueError(f"array {name!r} does not hold finite numbers")
    return arrays
