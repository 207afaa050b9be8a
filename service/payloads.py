"""What requests hold: bodies read once, by msgspec, straight into typed objects; rows become columns.

No pydantic here: a body is checked in one pass in C, and cells are left as they are for the codec.
"""

import json
import re
from collections.abc import Container, Mapping, Sequence
from itertools import chain
from typing import Annotated, Any, Literal

import msgspec

from model.errors import CellProblem
from service.errors import ProblemError

Row = dict[str, Any]
Unknown = Literal["refuse", "ignore"]


class PredictAsk(msgspec.Struct, forbid_unknown_fields=True):
    """Predict one column of every row from whatever the row holds of the others."""

    target: str
    rows: list[Row]
    table: str | None = None
    model: str | None = None
    interval: float | None = None
    explain: bool = False
    distribution: bool = True
    unknown: Unknown = "refuse"


class ImputeAsk(msgspec.Struct, forbid_unknown_fields=True):
    """Fill in what is missing."""

    rows: list[Row]
    table: str | None = None
    model: str | None = None
    columns: list[str] | None = None
    interval: float | None = None
    draws: int = 0
    seed: int = 0
    explain: bool = False
    unknown: Unknown = "refuse"


class AuditAsk(msgspec.Struct, forbid_unknown_fields=True):
    """How surprising is each observed cell, given the rest of its row?"""

    rows: list[Row]
    table: str | None = None
    model: str | None = None
    interval: float = 0.9
    limit: int = 100
    unknown: Unknown = "refuse"


class MatchAsk(msgspec.Struct, forbid_unknown_fields=True):
    """Which columns of these rows, of a table never fitted, are which columns of the table ``left``?

    ``names``: whether columns of the same name are taken for the same, and names count at all. Pairs less likely
    than ``least`` are no match.
    """

    left: str
    rows: list[Row]
    model: str | None = None
    names: bool = True
    least: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] = 0.5


class ActivateAsk(msgspec.Struct, forbid_unknown_fields=True):
    """The model to be served from now on."""

    model: str


class ColumnAsk(msgspec.Struct, forbid_unknown_fields=True):
    """A column: the feature it is, and its unit (feature value = cell * scale + offset)."""

    feature: str
    scale: float = 1.0
    offset: float = 0.0
    missing: list[str] = []


class SchemaAsk(msgspec.Struct, forbid_unknown_fields=True):
    """The columns of a table."""

    columns: dict[str, ColumnAsk]


class Decoder(msgspec.Struct, frozen=True):
    """Reads bodies of one kind."""

    reader: Any

    def read(self, body: bytes) -> Any:
        """The body as an object; a ProblemError says what is wrong with it and where."""
        try:
            return self.reader.decode(body)
        except msgspec.ValidationError as error:
            if "out of range" not in str(error):  # 1e999 is read as infinite below, and named by its cell
                raise _misfit(error) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
        return self._read_leniently(body)

    def _read_leniently(self, body: bytes) -> Any:
        """JSON as Python and JavaScript write it may hold NaN and Infinity: NaN means missing, and an
        infinite cell is named by row and column later. What is no JSON even so is refused here.
        """
        try:
            content = json.loads(body)
            msgspec.json.encode(content)  # half a character, such as \ud800 alone, could not be answered
            return msgspec.convert(content, self.reader.type)
        except msgspec.ValidationError as error:
            raise _misfit(error) from None
        except RecursionError:
            raise ProblemError(400, "the body is nested too deeply") from None
        except ValueError as error:
            raise ProblemError(400, f"the body is not JSON: {_plain(error)}") from None


def decoder(kind: type[msgspec.Struct]) -> Decoder:
    """A reader of bodies of this kind."""
    return Decoder(msgspec.json.Decoder(kind))


def _plain(error: ValueError) -> str:
    """A decoder's words without the body's: those may be cells."""
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at byte {error.pos}"
    return "it is not Unicode" if isinstance(error, UnicodeError) else "a number has too many digits"


def _misfit(error: msgspec.ValidationError) -> ProblemError:
    """What msgspec says of a place such as $.rows[3], in our words."""
    text, _, place = str(error).partition(" - at `$")
    place = place.rstrip("`").lstrip(".")
    row = re.match(r"rows\[(\d+)\]", place)
    if row:
        text = "a row must be an object of column names and cells"
        return ProblemError(422, f"row {row.group(1)}: {text}", [CellProblem(int(row.group(1)), "", text)])
    where = f"{place}: " if place else ""
    return ProblemError(422, f"{where}{text[0].lower()}{text[1:]}", [CellProblem(None, place, text)])


def check_rows(rows: Sequence[Row], most: int) -> None:
    """Too many rows are refused before any work is done."""
    if len(rows) > most:
        raise ProblemError(
            422, f"{len(rows)} rows are more than the {most} of one request; send fewer, or send a file to /impute"
        )


def to_columns(rows: Sequence[Row], *known: Container[str]) -> dict[str, list[Any]]:
    """Rows to columns, in the order in which names appear; what a row lacks is None.

    Of names that are not among the ``known`` the cells are not looked at: a thousand rows that each bring a
    name of their own would make a million cells.
    """
    if len(rows) == 1:
        return {name: [cell] for name, cell in rows[0].items()}
    nothing = [None] * len(rows)
    names = dict.fromkeys(chain.from_iterable(rows))
    return {name: [row.get(name) for row in rows] if any(name in some for some in known) else nothing for name in names}


def rows_to_columns(rows: Sequence[Row], some_column: str, *known: Container[str]) -> Mapping[str, list[Any]]:
    """The same, but rows that hold nothing at all still are rows: a column of nulls says how many."""
    return to_columns(rows, *known) or {some_column: [None] * len(rows)}


class TensorParameters(msgspec.Struct):
    """How a tensor is sent: in ``data``, or as so many bytes after the JSON."""

    binary_data_size: Annotated[int, msgspec.Meta(ge=0)] | None = None
    shared_memory_region: str | None = None


class TensorAsk(msgspec.Struct):
    """One column: a cell per row. NaN, null and the empty text mean missing."""

    name: str
    shape: list[int]
    datatype: str
    data: list[Any] | None = None
    parameters: TensorParameters | None = None


class OutputParameters(msgspec.Struct):
    """How an output is wanted: in JSON, or as bytes after it."""

    binary_data: bool | None = None
    classification: int | None = None
    shared_memory_region: str | None = None


class OutputAsk(msgspec.Struct):
    """An output that is wanted."""

    name: str
    parameters: OutputParameters | None = None


class InferParameters(msgspec.Struct, forbid_unknown_fields=True):
    """What to predict, and how. The last four come from clients of other servers and change nothing here."""

    target: str | None = None
    table: str | None = None
    interval: float | None = None
    unknown: Unknown = "refuse"
    binary_data_output: bool = False
    priority: Any = None
    timeout: Any = None
    content_type: Any = None
    headers: Any = None


class InferAsk(msgspec.Struct):
    """Predict ``parameters.target`` from columns, each of them a tensor (Open Inference Protocol)."""

    inputs: list[TensorAsk]
    id: str | None = None
    parameters: InferParameters | None = None
    outputs: list[OutputAsk] | None = None
