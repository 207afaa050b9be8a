"""How the registry's database is reached: URLs, connections, transactions, and words for what goes wrong."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, IntegrityError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import ConnectionPoolEntry

from service.registry.errors import RegistryError

EXPECTED = "expected sqlite:///PATH or postgresql://USER:PASSWORD@HOST/DATABASE"
POSTGRES = ("postgresql", "postgres")

# Errors of Postgres that the owner of the database can mend, though it files them under wrong SQL:
# no right to do it; a table of that name is there, but not ours.
MENDABLE = {"42501", "42P07"}


@dataclass(frozen=True, slots=True)
class Database:
    """One pool of connections, and the three ways they are used."""

    url: URL
    # Reads that must see one moment, whatever others commit meanwhile.
    reader: Engine
    # Single cheap reads.
    poller: Engine
    # Changes: one writer at a time, over all processes.
    writer: Engine

    @property
    def is_postgres(self) -> bool:
        return self.url.get_backend_name() == "postgresql"

    @contextmanager
    def speaking(self) -> Iterator[None]:
        """Turn what the database's owner can mend into a RegistryError; our own bugs pass through."""
        try:
            yield
        except (DBAPIError, PoolTimeoutError) as error:
            if isinstance(error, DBAPIError) and _is_our_bug(error):
                raise
            raise RegistryError(_say(self.url, error)) from error

    def close(self) -> None:
        self.reader.dispose()


def connect(text: str, wait: float) -> Database:
    """Prepare connections to the registry at a URL; ``wait`` is how long a writer waits for another, in seconds."""
    url = read_url(text)
    if url.get_backend_name() == "sqlite":
        engine = _sqlite_engine(url, wait)
        return Database(url, engine, engine, engine.execution_options(writes=True))
    engine = _postgres_engine(url, wait)
    return Database(
        url,
        # A statement of its own sees what was committed before it; only this level sees one moment throughout.
        reader=engine.execution_options(isolation_level="REPEATABLE READ"),
        poller=engine.execution_options(isolation_level="AUTOCOMMIT"),
        writer=engine.execution_options(writes=True),
    )


def read_url(text: str) -> URL:
    """A URL whose database and driver we know. The text is not repeated in errors: it may hold a password."""
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise RegistryError(f"the registry's URL cannot be read; {EXPECTED}") from None
    backend = url.drivername.partition("+")[0]
    if backend in POSTGRES:
        return url.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise RegistryError(f"the registry's URL is for {backend!r}, which is not supported; {EXPECTED}")
    if url.host or url.query or not url.database or url.database == ":memory:":
        raise RegistryError(
            "the registry's URL names no SQLite file; expected sqlite:///PATH with three slashes "
            "(four for an absolute path), without host or options"
        )
    return url.set(drivername="sqlite+pysqlite")


def _sqlite_engine(url: URL, wait: float) -> Engine:
    folder = Path(str(url.database)).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RegistryError(
            f"registry {url.database}: the folder {folder} cannot be made: {error.strerror}; "
            "name a path that can be written"
        ) from error
    engine = create_engine(url, connect_args={"timeout": wait})
    event.listen(engine, "connect", lambda connection, entry: _prepare_sqlite(connection, entry, wait))
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: DBAPIConnection, _: ConnectionPoolEntry, wait: float) -> None:
    assert isinstance(connection, sqlite3.Connection)
    # Otherwise the driver begins transactions by itself, too late and never IMMEDIATE.
    connection.isolation_level = None
    try:
        _use_wal(connection, time.monotonic() + wait)
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = FULL")  # a published model survives a power cut; writes are rare
    except BaseException:
        connection.close()
        raise


def _use_wal(connection: sqlite3.Connection, deadline: float) -> None:
    """Readers go on while one writes. Two processes changing the mode of a new file at once fail without waiting."""
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _begin_sqlite(connection: Connection) -> None:
    # A transaction that reads before it writes cannot wait for another writer: it must ask for the lock first.
    writes = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _postgres_engine(url: URL, wait: float) -> Engine:
    # A host that swallows packets would hold up the start for minutes.
    arguments = {} if "connect_timeout" in url.query else {"connect_timeout": 10}
    try:
        # Pre-ping: the registry outlives a restart of the server without an error.
        engine = create_engine(url, connect_args=arguments, pool_pre_ping=True)
    except ImportError as error:
        raise RegistryError(
            f"registry {_place(url)}: the driver for Postgres is not installed; pip install 'psycopg[binary]'"
        ) from error

    def limit_wait(connection: Connection) -> None:
        if connection.get_execution_options().get("writes"):
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = {round(wait * 1000)}")

    event.listen(engine, "begin", limit_wait)
    return engine


def _is_our_bug(error: DBAPIError) -> bool:
    if error.statement is None:  # could not even connect
        return False
    if isinstance(error, ProgrammingError):
        return getattr(error.orig, "sqlstate", None) not in MENDABLE
    return isinstance(error, IntegrityError | DataError)


def _say(url: URL, error: DBAPIError | PoolTimeoutError) -> str:
    reason = " ".join(str(error.orig if isinstance(error, DBAPIError) else error).split())
    if url.password:
        reason = reason.replace(str(url.password), "***")
    if url.get_backend_name() == "sqlite":
        advice = "check that the file and its folder can be written, and that no program holds it locked"
    else:
        advice = "check the URL, that the server runs, and what its user may do"
    return f"registry {_place(url)}: {reason}; {advice}"


def _place(url: URL) -> str:
    """Where the registry is, without user, password or options."""
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    host = url.host or url.query.get("host") or "localhost"
    return f"{url.database or 'postgres'} at {host}" + (f":{url.port}" if url.port else "")
