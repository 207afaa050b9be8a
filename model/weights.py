"""The weights in model.onnx as arrays, read from the file's bytes: serving has no onnx package."""

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.prune import GRAPH, INITIALIZER, TENSOR_NAME
from model.wire import read_fields, read_integers

# Field numbers of onnx.proto's TensorProto: .dims, .data_type, .raw_data.
DIMS, DATA_TYPE, RAW_DATA = 1, 2, 9
# TensorProto.DataType: the kinds of arrays that are written here.
DTYPES: dict[int, np.dtype[Any]] = {1: np.dtype("<f4"), 7: np.dtype("<i8")}
# Arrays of more dimensions are none of ours, and their sizes are not worth multiplying.
MOST_DIMS = 8


def read_weights(network: bytes) -> dict[str, NDArray[Any]]:
    """Every array of floats or 64-bit integers that a network holds as raw bytes, by name; ValueError for what is
    no network.
    """
    arrays = {}
    for number, graph, _ in read_fields(memoryview(network)):
        if number == GRAPH and graph is not None:
            for part, tensor, _ in read_fields(graph):
                if part == INITIALIZER and tensor is not None:
                    arrays.update(_read_tensor(tensor))
    return arrays


def _read_tensor(tensor: memoryview) -> dict[str, NDArray[Any]]:
    """One array under its name; nothing if it is of another kind, or not kept as raw bytes."""
    dims: list[int] = []
    dtype, name, raw = None, "", None
    for number, content, field in read_fields(tensor):
        if number == DIMS:
            dims += read_integers(content, field, most=MOST_DIMS)
            if len(dims) > MOST_DIMS:
                raise ValueError(f"a weight has more than {MOST_DIMS} dimensions")
        elif number == DATA_TYPE:
            dtype = DTYPES.get(next(iter(read_integers(content, field, most=1)), 0))
        elif number == TENSOR_NAME and content is not None:
            name = bytes(content).decode()
        elif number == RAW_DATA:
            raw = content
    if dtype is None or raw is None:
        return {}
    if prod(dims) * dtype.itemsize != len(raw):
        raise ValueError(f"weight {name[:100]!r} does not hold as many numbers as it says")
    return {name: np.frombuffer(raw, dtype).reshape(dims).copy()}  # in the file they may lie at any byte
