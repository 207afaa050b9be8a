"""What the registry answers: plain frozen records that outlive the transaction they were read in."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from model.schema import Link

# The origin of a table version that a user registered; others name the model they were published with.
REGISTERED = "registered"


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """A published bundle. ``created`` is the bundle's own word, ``published`` the registry's clock (UTC)."""

    name: str
    version: int
    sha256: str
    created: str
    published: datetime
    preset: str
    seed: int
    metrics: Mapping[str, Any]
    status: str
    active: bool
    # (name, kind), in the order of the bundle.
    features: tuple[tuple[str, str], ...]

    @property
    def ref(self) -> str:
        """The model's full name, such as cars@1."""
        return f"{self.name}@{self.version}"


@dataclass(frozen=True, slots=True)
class TableVersion:
    """What a table's columns meant from ``created`` on; a retired version has no columns."""

    table: str
    version: int
    columns: tuple[Link, ...]
    created: datetime
    origin: str
    retired: bool


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a server keeps in memory, as it stood at one ``revision``."""

    revision: int
    active: str | None
    # For each table that a user registered and did not drop, its latest registered version.
    registered: Mapping[str, TableVersion]
