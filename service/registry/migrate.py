"""Brings a registry to the revision this program knows.

Alembic takes half a second to import: a registry that is up to date is recognised without it.
"""

import threading
from pathlib import Path

from sqlalchemy import Connection, func, select, text
from sqlalchemy.exc import DBAPIError

from service.registry.database import Database
from service.registry.errors import RegistryError

# The newest file in migrations/versions; a test holds the two together.
HEAD = "0001"
SCRIPTS = Path(__file__).parent / "migrations"

# Any number that others are unlikely to lock on the same Postgres database.
POSTGRES_LOCK = 7_461_626_001
# Alembic keeps the migration under way in module globals.
_ONE_AT_A_TIME = threading.Lock()


def bring_to_head(database: Database) -> None:
    """Make or change the registry's tables if they are not those of this program."""
    with database.reader.connect() as connection:
        found = _read_revision(connection)
    if found != HEAD:
        with _ONE_AT_A_TIME:
            _upgrade(database)


def _read_revision(connection: Connection) -> str | None:
    try:
        found: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    except DBAPIError as error:
        no_table = "no such table" in str(error.orig) or getattr(error.orig, "sqlstate", None) == "42P01"
        if not no_table:
            raise
        return None
    return found


def _upgrade(database: Database) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    with database.writer.begin() as connection:
        # Several processes may have found the registry out of date: the first one migrates, the others look again.
        # SQLite's writers hold the lock from BEGIN IMMEDIATE on.
        if database.is_postgres:
            connection.execute(select(func.pg_advisory_xact_lock(POSTGRES_LOCK)))
        found = MigrationContext.configure(connection).get_current_revision()
        if found is not None and found not in known:
            raise RegistryError(
                f"the registry is at revision {found!r}, which this program does not know (it knows {HEAD!r}): "
                "a newer Tabglot made it; update this one, or give it another registry"
            )
        if found != HEAD:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
