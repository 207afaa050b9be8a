"""The schema registry: which models were published, which one is active, what each table's columns mean.

    registry.py     Registry: everything the service asks or changes, each in one transaction
    records.py      what it answers: frozen, detached from the database
    published.py    the models and their versions                -> rows
    tables.py       the tables and their versions                -> rows
    rows.py         the rows as the database keeps them          -> sqlalchemy
    database.py     URLs, connections, transactions, and the words for what goes wrong
    migrate.py      brings a registry to this program's revision; imports alembic only then
    migrations/     the revisions themselves

SQLite by default, Postgres by URL; several processes may share one registry.
"""

from service.registry.errors import RegistryError, UnknownModelError, UnknownTableError
from service.registry.records import REGISTERED, ModelRecord, Snapshot, TableVersion
from service.registry.registry import Registry

__all__ = [
    "REGISTERED",
    "ModelRecord",
    "Registry",
    "RegistryError",
    "Snapshot",
    "TableVersion",
    "UnknownModelError",
    "UnknownTableError",
]
