"""Named arrays as the content of one .npz file, and back. No pickle; the same arrays give the same bytes.

Only what ``pack_arrays`` writes is read: members that are not compressed, of 64-bit floats and integers, whose headers
say just what is there. Nothing is laid out in memory that the file does not hold.
"""

import io
import math
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

ENDING = ".npy"


def pack_arrays(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """The content of a .npz file."""
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **{name: np.ascontiguousarray(array) for name, array in arrays.items()})
    return file.getvalue()


def unpack_arrays(content: bytes) -> dict[str, NDArray[Any]]:
    """The arrays of a .npz file; ValueError if it is none, or holds anything that is not a finite number."""
    arrays = {}
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for member in archive.infolist():
                if member.compress_type != zipfile.ZIP_STORED or not member.filename.endswith(ENDING):
                    raise ValueError(f"its member {member.filename[:100]!r} is no plain array")
                arrays[member.filename.removesuffix(ENDING)] = _read_array(archive.read(member))
    except (zipfile.BadZipFile, EOFError, OSError, RuntimeError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"not an array file: {error}") from error
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise ValueError(f"array {name!r} does not hold finite numbers")
    return arrays


def _read_array(content: bytes) -> NDArray[Any]:
    file = io.BytesIO(content)
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError("an array of another version")
    shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(file)
    cells = content[file.tell() :]
    if is_fortran or dtype not in (np.dtype("<f8"), np.dtype("<i8")) or math.prod(shape) * 8 != len(cells):
        raise ValueError("an array of another form, or cut short")
    return np.frombuffer(cells, dtype).reshape(shape).copy()
