"""The registry: everything the service asks or changes, each in one transaction."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Self

from sqlalchemy import select
from sqlalchemy.orm import Session

from model.schema import Link, Table
from service.registry import published, tables
from service.registry.database import Database, connect
from service.registry.errors import RegistryError
from service.registry.migrate import bring_to_head
from service.registry.records import REGISTERED, ModelRecord, Snapshot, TableVersion
from service.registry.rows import ModelRow, StateRow

_REVISION = select(StateRow.revision)


class Registry:
    """Models, tables and what is active, shared by all processes that open the same URL.

    Threads may share one; after a fork, open another.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    def open(cls, url: str, *, wait: float = 10.0) -> Self:
        """Reach the registry at a URL, making or migrating it where needed.

        ``wait`` is how many seconds a change waits for another that is under way.
        """
        database = connect(url, wait)
        registry = cls(database)
        try:
            with database.speaking():
                bring_to_head(database)
            registry.revision()
        except BaseException:
            database.close()
            raise
        return registry

    def close(self) -> None:
        """Give back all connections."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def revision(self) -> int:
        """How often the registry has changed: cheap enough to ask several times a second."""
        with self._database.speaking(), self._database.poller.connect() as connection:
            revision = connection.scalar(_REVISION)
        if revision is None:
            raise RegistryError("the registry has lost its state row; restore it from a copy, or begin a new one")
        return revision

    def snapshot(self) -> Snapshot:
        """What a server keeps in memory, all of it from one moment."""
        with self._reading() as (session, state):
            active = None if state.active_id is None else session.get_one(ModelRow, state.active_id).ref
            return Snapshot(state.revision, active, tables.list_registered(session))

    def models(self) -> list[ModelRecord]:
        """All models, newest published first."""
        with self._reading() as (session, state):
            return [published.to_record(row, state.active_id) for row in published.list_models(session)]

    def model(self, ref: str) -> ModelRecord:
        """The model that NAME@VERSION names; NAME alone means its newest version."""
        with self._reading() as (session, state):
            return published.to_record(published.find_model(session, ref), state.active_id)

    def active(self) -> ModelRecord | None:
        """The model that answers where a request names none."""
        with self._reading() as (session, state):
            if state.active_id is None:
                return None
            return published.to_record(session.get_one(ModelRow, state.active_id), state.active_id)

    def add_model(
        self,
        *,
        name: str,
        sha256: str,
        created: str,
        preset: str,
        seed: int,
        metrics: Mapping[str, Any],
        features: Sequence[tuple[str, str]],
        tables: Sequence[Table],
        place: Callable[[str], None],
        activate: bool,
    ) -> tuple[ModelRecord, bool]:
        """Publish a bundle as the next version of ``name``; says whether it is new.

        The same bundle again is the version it was. ``place`` gets the new NAME@VERSION and puts the files
        where they belong; if it raises, nothing is published. It is called last, while other writers wait:
        a bundle the registry cannot take is refused before any file moves.
        """
        published.check_name(name)
        with self._writing() as (session, state):
            row = published.find_published(session, name, sha256)
            is_new = row is None
            if row is None:
                facts = {"sha256": sha256, "created": created, "preset": preset, "seed": seed}
                row = _publish(session, tables, name=name, metrics=metrics, features=features, **facts)
            is_switch = activate and state.active_id != row.id
            if is_switch:
                state.active_id = row.id
            if is_new or is_switch:
                state.revision += 1
            session.flush()
            if is_new:
                place(row.ref)
            return published.to_record(row, state.active_id), is_new

    def activate(self, ref: str) -> ModelRecord:
        """Let a model answer where a request names none; an older version rolls back."""
        with self._writing() as (session, state):
            row = published.find_model(session, ref)
            if state.active_id != row.id:
                state.active_id = row.id
                state.revision += 1
            return published.to_record(row, state.active_id)

    def table_versions(self, table: str) -> list[TableVersion]:
        """All versions of a table, newest first, whoever they came from."""
        with self._reading() as (session, _):
            versions = tables.list_versions(session, table)
            if not versions:
                raise tables.unknown_table(session, table)
            return versions

    def put_table(self, table: str, columns: Sequence[Link]) -> TableVersion:
        """Register what a table's columns mean; the same again makes no new version."""
        tables.check_columns(table, columns)
        with self._writing() as (session, state):
            current = tables.find_registered(session, table)
            if current is not None and current.columns == tuple(columns):
                return current
            state.revision += 1
            return tables.add_version(session, table, columns, created=datetime.now(UTC), origin=REGISTERED)

    def drop_table(self, table: str) -> TableVersion:
        """Take back what a user registered; its versions stay, and a retired one is added."""
        with self._writing() as (session, state):
            if tables.find_registered(session, table) is None:
                raise tables.unregistered_table(session, table)
            state.revision += 1
            now = datetime.now(UTC)
            return tables.add_version(session, table, (), created=now, origin=REGISTERED, retired=True)

    @contextmanager
    def _reading(self) -> Iterator[tuple[Session, StateRow]]:
        with self._database.speaking(), Session(self._database.reader) as session:
            yield session, session.get_one(StateRow, 1)

    @contextmanager
    def _writing(self) -> Iterator[tuple[Session, StateRow]]:
        """One change. Postgres' writers queue for the state row, SQLite's for the file."""
        with self._database.speaking(), Session(self._database.writer) as session, session.begin():
            yield session, session.get_one(StateRow, 1, with_for_update=True)


def _publish(session: Session, bundle_tables: Sequence[Table], *, name: str, **facts: Any) -> ModelRow:
    now = datetime.now(UTC)
    row = published.add_version(session, name=name, published=now, **facts)
    tables.add_published(session, bundle_tables, created=now, origin=row.ref)
    return row
