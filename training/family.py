"""Which tables belong together, and what the user says of them: family.toml, or a list of files."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from model.errors import FamilyError, TableError
from model.schema import Kind, check_kind

TABLE_KEYS = ("path", "ignore", "missing", "rename", "units")
FAMILY_KEYS = ("name", "target", "tables", "kinds")


@dataclass(frozen=True, slots=True)
class Unit:
    """Feature value = cell * scale + offset."""

    scale: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True, slots=True)
class TableSpec:
    """One table of a family. ``missing`` holds codes per column; the key "" is for every column.

    ``units`` is keyed by feature, as in the file; ``rename`` by column. ``optional``: columns that the file may lack
    although they are spoken of.
    """

    name: str
    path: Path
    ignore: frozenset[str] = frozenset()
    missing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    rename: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, Unit] = field(default_factory=dict)
    optional: frozenset[str] = frozenset()

    def codes_of(self, column: str) -> tuple[str, ...]:
        return (*self.missing.get("", ()), *self.missing.get(column, ()))


@dataclass(frozen=True, slots=True)
class Family:
    """Tables to be fitted together."""

    name: str
    tables: tuple[TableSpec, ...]
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    target: str | None = None


def family_of_paths(paths: Sequence[Path], name: str | None = None) -> Family:
    """A family from the command line: either one family.toml or some table files."""
    if len(paths) == 1 and paths[0].suffix == ".toml":
        family = read_family(paths[0])
        return family if name is None else Family(name, family.tables, family.kinds, family.target)
    if any(path.suffix == ".toml" for path in paths):
        raise FamilyError("a family.toml stands alone: put the other tables into it")
    tables = tuple(TableSpec(path.stem, path) for path in paths)
    _check_distinct([table.name for table in tables])
    return Family(name or tables[0].name, tables)


def read_family(path: Path) -> Family:
    """Read family.toml; every mistake is named with its key."""
    if not path.is_file():
        raise FamilyError(f"{path}: there is no such file")
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FamilyError(f"{path}: not a TOML file: {error}") from error
    _check_keys(raw, FAMILY_KEYS, str(path))
    tables = _mapping(raw.get("tables", {}), f"{path}: tables")
    if not tables:
        raise FamilyError(f"{path}: no tables; give each one a section such as [tables.cars] with a path")
    kinds = _mapping(raw.get("kinds", {}), f"{path}: kinds")
    return Family(
        name=str(raw.get("name", path.stem)),
        tables=tuple(_read_table(name, spec, path) for name, spec in tables.items()),
        kinds={f: check_kind(str(kind), f"{path}: kinds.{f}") for f, kind in kinds.items()},
        target=None if raw.get("target") is None else str(raw["target"]),
    )


def _read_table(name: str, raw: Any, path: Path) -> TableSpec:
    where = f"{path}: tables.{name}"
    spec = _mapping(raw, where)
    _check_keys(spec, TABLE_KEYS, where)
    if "path" not in spec:
        raise FamilyError(f"{where}: no path; say where the file is, relative to {path.name}")
    units = _mapping(spec.get("units", {}), f"{where}.units")
    return TableSpec(
        name=name,
        path=path.parent / str(spec["path"]),
        ignore=frozenset(_strings(spec.get("ignore", []), f"{where}.ignore")),
        missing=_read_missing(spec.get("missing", []), f"{where}.missing"),
        rename={c: str(f) for c, f in _mapping(spec.get("rename", {}), f"{where}.rename").items()},
        units={feature: _read_unit(unit, f"{where}.units.{feature}") for feature, unit in units.items()},
    )


def _read_missing(raw: Any, where: str) -> dict[str, tuple[str, ...]]:
    """A list is for every column; a table of lists is for the columns it names."""
    if isinstance(raw, Mapping):
        return {column: _strings(codes, f"{where}.{column}") for column, codes in raw.items()}
    return {"": _strings(raw, where)}


def _read_unit(raw: Any, where: str) -> Unit:
    unit = _mapping(raw, where)
    _check_keys(unit, ("scale", "offset"), where)
    try:
        scale, offset = float(unit.get("scale", 1.0)), float(unit.get("offset", 0.0))
    except (TypeError, ValueError) as error:
        raise FamilyError(f"{where}: scale and offset must be numbers") from error
    if scale == 0.0 or scale - scale != 0.0 or offset - offset != 0.0:
        raise FamilyError(f"{where}: scale must be a finite number other than 0, and offset finite")
    return Unit(scale, offset)


def _strings(raw: Any, where: str) -> tuple[str, ...]:
    if not isinstance(raw, list) or not all(isinstance(item, str | int | float) for item in raw):
        raise FamilyError(f"{where}: expected a list of strings, got {raw!r}")
    return tuple(str(item) for item in raw)


def _mapping(raw: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(raw, Mapping):
        raise FamilyError(f"{where}: expected a table of keys, got {raw!r}")
    return raw


def _check_keys(raw: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for key in raw:
        if key not in known:
            near = get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
            raise FamilyError(f"{where}: unknown key {key!r}; {hint}")


def _check_distinct(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise TableError(
                f"two files are both named {name!r}: a table is named after its file's stem; "
                "rename one, or name the tables in a family.toml"
            )
