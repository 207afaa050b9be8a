"""What --schema says of a new table's columns: a JSON file of the form that PUT /schemas/TABLE takes."""

import json
import math
from pathlib import Path
from typing import Any

from model.errors import FamilyError
from model.schema import Link

COLUMN_KEYS = ("feature", "scale", "offset", "missing")


def read_columns(path: Path) -> dict[str, Link]:
    """What --schema says of columns; the form is that of PUT /schemas/TABLE."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FamilyError(f"{path}: it cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise FamilyError(f"{path}: not a JSON file: {error}") from error
    columns = raw.get("columns") if isinstance(raw, dict) else None
    if not isinstance(columns, dict) or len(raw) > 1:
        raise FamilyError(f'{path}: expected {{"columns": {{"wt": {{"feature": "weight", "scale": 1000}}, ...}}}}')
    return {name: _read_link(name, spec, f"{path}: column {name!r}") for name, spec in columns.items()}


def _read_link(column: str, raw: Any, where: str) -> Link:
    if not isinstance(raw, dict) or not isinstance(raw.get("feature"), str):
        raise FamilyError(f'{where}: expected {{"feature": NAME}}, with scale, offset and missing if need be')
    unknown = [key for key in raw if key not in COLUMN_KEYS]
    if unknown:
        raise FamilyError(f"{where}: unknown key {unknown[0]!r}; known are {', '.join(COLUMN_KEYS)}")
    scale, offset, missing = raw.get("scale", 1.0), raw.get("offset", 0.0), raw.get("missing", [])
    for number in (scale, offset):
        if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
            raise FamilyError(f"{where}: scale and offset must be finite numbers, got {number!r}")
    if scale == 0.0:
        raise FamilyError(f"{where}: scale must not be 0")
    if not isinstance(missing, list) or not all(isinstance(code, str) for code in missing):
        raise FamilyError(f"{where}: missing must be a list of strings, got {missing!r}")
    return Link(column, raw["feature"], float(scale), float(offset), tuple(missing))
