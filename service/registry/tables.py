"""Tables and their versions, in a session that is given."""

import math
from collections.abc import Iterable, Sequence
from datetime import datetime

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session, selectinload

from model.errors import AskError
from model.requests import nearest
from model.schema import Link, Table
from service.registry.errors import UnknownTableError
from service.registry.records import REGISTERED, TableVersion
from service.registry.rows import ColumnRow, TableVersionRow


def is_storable(text: str) -> bool:
    """Whether both databases can hold a text: Postgres takes no NUL, neither takes half a surrogate pair."""
    return "\x00" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)


def check_columns(table: str, columns: Iterable[Link]) -> None:
    """Refuse what could not be stored, or read back as numbers."""
    if not table or not is_storable(table):
        raise AskError(f"table {table!r}: a table's name must be text that is not empty and holds no NUL")
    seen: set[str] = set()
    for link in columns:
        where = f"table {table!r}, column {link.column!r}"
        if link.column in seen:
            raise AskError(f"{where}: given twice; give each column once")
        seen.add(link.column)
        if not all(map(is_storable, (link.column, link.feature, *link.missing))):
            raise AskError(f"{where}: names and missing codes must be text without NUL")
        if not math.isfinite(link.scale) or link.scale == 0 or not math.isfinite(link.offset):
            raise AskError(
                f"{where}: got scale {link.scale!r} and offset {link.offset!r}; "
                "both must be finite numbers, the scale not 0"
            )


def list_versions(session: Session, table: str) -> list[TableVersion]:
    """All versions of a table, newest first; none if nobody ever named it."""
    if not is_storable(table):
        return []
    return [_record(row) for row in session.scalars(_newest_first(table))]


def find_registered(session: Session, table: str) -> TableVersion | None:
    """What a user last registered under this name, unless it was dropped since."""
    if not is_storable(table):
        return None
    row = session.scalar(_newest_first(table).where(TableVersionRow.origin == REGISTERED).limit(1))
    return None if row is None or row.retired else _record(row)


def list_registered(session: Session) -> dict[str, TableVersion]:
    """For each table that a user registered and did not drop, the latest registered version."""
    latest = (
        select(TableVersionRow.table, func.max(TableVersionRow.version).label("version"))
        .where(TableVersionRow.origin == REGISTERED)
        .group_by(TableVersionRow.table)
        .subquery()
    )
    rows = session.scalars(
        select(TableVersionRow)
        .join(latest, (TableVersionRow.table == latest.c.table) & (TableVersionRow.version == latest.c.version))
        .where(TableVersionRow.retired.is_(False))
        .order_by(TableVersionRow.table)
        .options(selectinload(TableVersionRow.columns))
    )
    return {row.table: _record(row) for row in rows}


def add_version(
    session: Session, table: str, columns: Sequence[Link], *, created: datetime, origin: str, retired: bool = False
) -> TableVersion:
    """Add the next version of a table."""
    highest = session.scalar(select(func.max(TableVersionRow.version)).where(TableVersionRow.table == table))
    row = TableVersionRow(table=table, version=(highest or 0) + 1, created=created, origin=origin, retired=retired)
    row.columns = [
        ColumnRow(
            position=i,
            column=link.column,
            feature=link.feature,
            scale=link.scale,
            offset=link.offset,
            missing=list(link.missing),
        )
        for i, link in enumerate(columns)
    ]
    session.add(row)
    session.flush()
    return _record(row)


def add_published(session: Session, tables: Iterable[Table], *, created: datetime, origin: str) -> None:
    """Add a version of each of a bundle's tables that differs from what the last bundle said of it."""
    for table in tables:
        check_columns(table.name, table.links)
        published = _newest_first(table.name).where(TableVersionRow.origin != REGISTERED)
        last = session.scalar(published.limit(1))
        if last is None or _record(last).columns != table.links:
            add_version(session, table.name, table.links, created=created, origin=origin)


def unknown_table(session: Session, table: str) -> UnknownTableError:
    """The error for a name that no version bears."""
    known = dict.fromkeys(session.scalars(select(TableVersionRow.table).distinct().order_by(TableVersionRow.table)))
    end = nearest(table, known) if known else "; no table is known yet, register one with PUT /schemas/TABLE"
    return UnknownTableError(f"no table {table!r} in the registry{end}")


def unregistered_table(session: Session, table: str) -> UnknownTableError:
    """The error for a name that no user registered, though a bundle may have brought it."""
    known = list_registered(session)
    end = nearest(table, known) if known else "; no table is registered"
    return UnknownTableError(f"table {table!r} is not registered{end}")


def _newest_first(table: str) -> Select[TableVersionRow]:
    return (
        select(TableVersionRow)
        .where(TableVersionRow.table == table)
        .order_by(TableVersionRow.version.desc())
        .options(selectinload(TableVersionRow.columns))
    )


def _record(row: TableVersionRow) -> TableVersion:
    columns = tuple(Link(c.column, c.feature, c.scale, c.offset, tuple(c.missing)) for c in row.columns)
    return TableVersion(row.table, row.version, columns, row.created, row.origin, row.retired)
