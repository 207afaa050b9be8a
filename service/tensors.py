"""Tensors of the Open Inference Protocol: read as columns of cells, and written as answers.

A tensor is one column. Its cells are a list within the JSON, or bytes after it: little-endian numbers, one
byte per BOOL, and for BYTES each text behind its length (uint32). NaN, null and the empty text mean missing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from model.answers import Prediction
from model.errors import CellError, CellProblem, list_some
from model.requests import nearest
from model.schema import Kind
from service.errors import ProblemError
from service.payloads import InferAsk, InferParameters, OutputAsk, TensorAsk, decoder

Column = Sequence[Any] | NDArray[Any]

BOOL, BYTES, FP64 = "BOOL", "BYTES", "FP64"
FLOATS = {"FP16": "<f2", "FP32": "<f4", FP64: "<f8"}
INTEGERS = {f"{sign}INT{8 * size}": f"<{code}{size}" for sign, code in (("", "i"), ("U", "u")) for size in (1, 2, 4, 8)}
NUMBERS = {name: np.dtype(code) for name, code in {**FLOATS, **INTEGERS}.items()}
# What a cell may be in JSON, null apart, and how that is said.
JSON_CELLS: dict[str, tuple[set[type], str]] = {
    **{name: ({int, float}, "a number") for name in FLOATS},
    **{name: ({int}, "a whole number") for name in INTEGERS},
    BOOL: ({bool}, "true or false"),
    BYTES: ({str}, "text"),
}
WORDS = {str: "text", bool: "a boolean", int: "a whole number", float: "a fraction", list: "a list", dict: "an object"}
N_LENGTH = 4  # bytes before each text
# As a cell and as a value.
DATATYPES: dict[Kind, str] = {
    "numeric": FP64, "ordinal": FP64, "categorical": BYTES, "boolean": BOOL, "datetime": BYTES,
}  # fmt: skip
OUTPUT_NAMES = ("value", "probability", "median", "low", "high")

INFER = decoder(InferAsk)
# The header that tells where, in a body, the JSON ends and the binary tensors begin.
HEADER_LENGTH = "inference-header-content-length"


def read_ask(body: bytes, end: int | None, most_rows: int) -> tuple[InferAsk, dict[str, Column], int]:
    """The request, its columns, and how many rows they have; ``end`` is where its JSON ends, if not at the end."""
    if end is not None and end > len(body):
        raise ProblemError(400, f"{HEADER_LENGTH} says {end}, but the body has {len(body)} bytes")
    header = body[:end]
    ask: InferAsk = INFER.read(header)
    n_rows = check_tensors(ask.inputs, most_rows)
    return ask, read_columns(ask.inputs, memoryview(body)[len(header) :]), n_rows


def check_tensors(tensors: Sequence[TensorAsk], most_rows: int) -> int:
    """Refuse what cannot be a set of columns before any cell is looked at; returns the number of rows."""
    if not tensors:
        raise ProblemError(422, "inputs is empty; send one tensor per column")
    lengths: dict[str, int] = {}
    for tensor in tensors:
        if tensor.name in lengths:
            raise _misfit(tensor, "there are two tensors of this name; send one tensor per column")
        lengths[tensor.name] = _count_rows(tensor)
    n_rows = next(iter(lengths.values()))
    if len(set(lengths.values())) > 1:
        shown = list_some([f"{name!r} has {n}" for name, n in lengths.items()], ", ")
        raise ProblemError(422, f"all inputs must have one cell per row, but {shown}")
    if n_rows > most_rows:
        raise ProblemError(422, f"{n_rows} rows are more than the {most_rows} of one request; send fewer at a time")
    return n_rows


def _count_rows(tensor: TensorAsk) -> int:
    if tensor.datatype not in JSON_CELLS:
        raise _misfit(tensor, f"there is no datatype {tensor.datatype!r}{nearest(tensor.datatype, JSON_CELLS)}")
    shape = tensor.shape
    if len(shape) not in (1, 2) or shape[0] < 0 or shape[1:] not in ([], [1]):
        raise _misfit(tensor, f"expected shape [N] or [N, 1], one cell per row, got {shape[:10]}")
    parameters = tensor.parameters
    if parameters is not None and parameters.shared_memory_region is not None:
        raise _misfit(tensor, "shared memory is not offered; send the cells in data, or as binary data")
    is_binary = parameters is not None and parameters.binary_data_size is not None
    if is_binary == (tensor.data is not None):
        raise _misfit(tensor, "send its cells either in data or as binary data (parameters.binary_data_size)")
    return shape[0]


def read_columns(tensors: Sequence[TensorAsk], binary: memoryview) -> dict[str, Column]:
    """Tensors, checked before, to columns of cells; ``binary`` is what came after the JSON."""
    columns: dict[str, Column] = {}
    problems: list[CellProblem] = []
    for tensor in tensors:
        size = tensor.parameters.binary_data_size if tensor.parameters else None
        part, binary = binary[: size or 0], binary[size or 0 :]
        if size is not None and len(part) < size:
            raise ProblemError(400, f"input {tensor.name!r}: {size} bytes are announced, but only {len(part)} came")
        try:
            columns[tensor.name] = _read_json(tensor) if size is None else _read_binary(tensor, part)
        except CellError as error:
            problems.extend(error.problems)
    if len(binary):
        raise ProblemError(400, f"{len(binary)} bytes came after the last tensor; see each binary_data_size")
    if problems:
        raise CellError(problems)
    return columns


def _read_json(tensor: TensorAsk) -> Column:
    cells = tensor.data or []
    if len(tensor.shape) == 2 and all(type(cell) is list and len(cell) == 1 for cell in cells):
        cells = [cell[0] for cell in cells]
    if len(cells) != tensor.shape[0]:
        raise _misfit(tensor, f"shape {tensor.shape} does not fit the {len(cells)} cells of data")
    kinds, expected = JSON_CELLS[tensor.datatype]
    if not set(map(type, cells)) <= {*kinds, type(None)}:
        found = {row: WORDS[type(cell)] for row, cell in enumerate(cells) if type(cell) not in {*kinds, type(None)}}
        text = f"expected {expected} or null, for {tensor.datatype}, got"
        raise CellError([CellProblem(row, tensor.name, f"{text} {word}") for row, word in found.items()])
    if tensor.datatype in INTEGERS:
        _check_range(tensor, cells)
    return [cell or None for cell in cells] if tensor.datatype == BYTES else cells


def _check_range(tensor: TensorAsk, cells: Sequence[int | None]) -> None:
    range_ = np.iinfo(NUMBERS[tensor.datatype])
    low, high = int(range_.min), int(range_.max)
    given = [cell for cell in cells if cell is not None]
    if given and (min(given) < low or max(given) > high):
        beyond = [row for row, cell in enumerate(cells) if cell is not None and not low <= cell <= high]
        raise CellError([CellProblem(row, tensor.name, f"beyond the range of {tensor.datatype}") for row in beyond])


def _read_binary(tensor: TensorAsk, part: memoryview) -> Column:
    if tensor.datatype == BYTES:
        return _read_texts(tensor, part)
    dtype = NUMBERS.get(tensor.datatype, np.dtype(np.uint8))
    size = tensor.shape[0] * dtype.itemsize
    if len(part) != size:
        text = f"{tensor.datatype} of shape {tensor.shape} takes {size} bytes, binary_data_size says {len(part)}"
        raise ProblemError(400, f"input {tensor.name!r}: {text}")
    numbers: NDArray[Any] = np.frombuffer(part, dtype) if size else np.empty(0, dtype)
    if tensor.datatype != BOOL:
        return numbers
    neither = np.flatnonzero(numbers > 1)
    if len(neither):
        raise CellError([CellProblem(int(row), tensor.name, "expected a byte 0 or 1, for BOOL") for row in neither])
    booleans: list[bool] = (numbers == 1).tolist()
    return booleans


def _read_texts(tensor: TensorAsk, part: memoryview) -> list[str | None]:
    texts: list[str | None] = []
    problems = []
    end = 0
    for row in range(tensor.shape[0]):
        start = end + N_LENGTH
        end = start + int.from_bytes(part[end:start], "little")
        if end > len(part):
            raise ProblemError(400, f"input {tensor.name!r}: its bytes end within the text of row {row}")
        try:
            texts.append(str(part[start:end], "utf-8") or None)
        except UnicodeDecodeError:
            problems.append(CellProblem(row, tensor.name, "not UTF-8 text"))
    if end != len(part):
        text = f"{len(part) - end} bytes are left after the texts of all {tensor.shape[0]} rows"
        raise ProblemError(400, f"input {tensor.name!r}: {text}")
    if problems:
        raise CellError(problems)
    return texts


def write_answer(
    header: Mapping[str, Any], wanted: Mapping[str, tuple[str, bool]], values: Mapping[str, Sequence[Any]]
) -> tuple[bytes, bytes | None]:
    """The answer's JSON and, if any output is ``wanted`` binary, the bytes after it: in the order of outputs."""
    shown: list[dict[str, Any]] = []
    parts: list[bytes] = []
    for name, (datatype, is_binary) in wanted.items():
        cells = _as_cells(datatype, values[name])
        one = {"name": name, "datatype": datatype, "shape": [len(cells)]}
        if is_binary:
            parts.append(_pack(cells))
            shown.append({**one, "parameters": {"binary_data_size": len(parts[-1])}})
        else:
            shown.append({**one, "data": cells})
    content = orjson.dumps({**header, "outputs": shown}, option=orjson.OPT_SERIALIZE_NUMPY)
    return content, b"".join(parts) if parts else None


def _as_cells(datatype: str, values: Sequence[Any]) -> NDArray[Any] | list[str]:
    """Values as they were predicted; categories may be whole numbers, which in BYTES are text."""
    if datatype == BYTES:
        return [str(value) for value in values]
    return np.asarray(values, dtype=bool if datatype == BOOL else NUMBERS[datatype])


def _pack(cells: NDArray[Any] | list[str]) -> bytes:
    if isinstance(cells, np.ndarray):
        return cells.tobytes()
    texts = [cell.encode() for cell in cells]
    return b"".join(part for text in texts for part in (len(text).to_bytes(N_LENGTH, "little"), text))


def _misfit(tensor: TensorAsk, text: str) -> ProblemError:
    return ProblemError(422, f"input {tensor.name!r}: {text}", [CellProblem(None, tensor.name, text)])


def choose_outputs(
    wanted: Sequence[OutputAsk] | None, kind: Kind, asked: InferParameters
) -> dict[str, tuple[str, bool]]:
    """The datatype of each output, and whether it is to be binary: those wanted, or all there are."""
    known = _offer(kind, asked.interval is not None)
    chosen: dict[str, tuple[str, bool]] = {}
    for output in wanted or [OutputAsk(name) for name in known]:
        name, how = output.name, output.parameters
        if name in chosen:
            raise ProblemError(422, f"output {name!r} is asked for twice")
        if name not in known:
            end = "; give parameters.interval, such as 0.9" if name in _offer(kind, True) else nearest(name, known)
            raise ProblemError(422, f"there is no output {name!r} for a {kind} target{end}")
        if how is not None and (how.classification or how.shared_memory_region is not None):
            raise ProblemError(422, f"output {name!r}: neither classification nor shared memory is offered")
        is_binary = asked.binary_data_output if how is None or how.binary_data is None else how.binary_data
        chosen[name] = (known[name], is_binary)
    return chosen


def _offer(kind: Kind, with_interval: bool) -> dict[str, str]:
    offered = {"value": DATATYPES[kind]}
    if kind in ("ordinal", "categorical", "boolean"):
        offered["probability"] = FP64
    if kind in ("numeric", "ordinal", "datetime"):
        offered |= dict.fromkeys(("median", "low", "high") if with_interval else ("median",), DATATYPES[kind])
    return offered


def take_output(answer: Prediction, name: str) -> Sequence[Any]:
    """One output of a prediction, by name."""
    if name == "probability":
        return () if answer.probability is None else answer.probability.tolist()
    if name in ("low", "high"):
        return [ends[name == "high"] for ends in answer.interval or ()]
    return (answer.median or ()) if name == "median" else answer.values
