"""The registry as the database keeps it. A change here needs a new file in migrations/versions."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    DateTime,
    Dialect,
    Double,
    ForeignKey,
    MetaData,
    Text,
    TypeDecorator,
    UniqueConstraint,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship


class UtcDateTime(TypeDecorator[datetime]):
    """A moment, in UTC on both databases: SQLite keeps no zone, Postgres answers in the session's own."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Base(DeclarativeBase):
    """All rows. Constraints get the same names on every database, so that migrations can speak of them."""

    metadata = MetaData(
        naming_convention={
            "pk": "pk_%(table_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012 - SQLAlchemy reads a plain dict
        str: Text,
        float: Double,
        datetime: UtcDateTime,
        dict[str, Any]: JSON,
        list[str]: JSON,
    }


class FeatureRow(Base):
    """A feature that a model knows."""

    __tablename__ = "features"

    model_id: Mapped[int] = mapped_column(ForeignKey("models.id"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    kind: Mapped[str]


class ModelRow(Base):
    """A published bundle: one version of a model."""

    __tablename__ = "models"
    __table_args__ = (UniqueConstraint("name", "version"), UniqueConstraint("name", "sha256"))

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    version: Mapped[int]
    sha256: Mapped[str]
    created: Mapped[str]
    published: Mapped[datetime]
    preset: Mapped[str]
    seed: Mapped[int] = mapped_column(BigInteger)
    metrics: Mapped[dict[str, Any]]
    status: Mapped[str]
    features: Mapped[list[FeatureRow]] = relationship(order_by=FeatureRow.position)

    @property
    def ref(self) -> str:
        return f"{self.name}@{self.version}"


class ColumnRow(Base):
    """A column of one version of a table, and the feature it is."""

    __tablename__ = "table_columns"

    table_version_id: Mapped[int] = mapped_column(ForeignKey("table_versions.id"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    column: Mapped[str]
    feature: Mapped[str]
    scale: Mapped[float]
    offset: Mapped[float]
    missing: Mapped[list[str]]


class TableVersionRow(Base):
    """What a table's columns mean, from one change to the next. Never changed, never removed."""

    __tablename__ = "table_versions"
    __table_args__ = (UniqueConstraint("table", "version"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    table: Mapped[str]
    version: Mapped[int]
    created: Mapped[datetime]
    origin: Mapped[str]
    retired: Mapped[bool]
    columns: Mapped[list[ColumnRow]] = relationship(order_by=ColumnRow.position)


class StateRow(Base):
    """The one row that says which model is active and how often the registry has changed."""

    __tablename__ = "state"
    __table_args__ = (CheckConstraint("id = 1", name="one_row"),)

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    active_id: Mapped[int | None] = mapped_column(ForeignKey("models.id"))
    revision: Mapped[int] = mapped_column(BigInteger)
