"""The shapes of answers about tables and their columns; see service.shapes."""

import msgspec


class SchemaColumn(msgspec.Struct, forbid_unknown_fields=True):
    feature: str
    scale: float
    offset: float
    missing: list[str]
    kind: str | None


class SchemaAnswer(msgspec.Struct, forbid_unknown_fields=True):
    """origin: registered, or the model with whose bundle the table came."""

    table: str
    version: int
    origin: str
    created: str
    columns: dict[str, SchemaColumn]


class SchemaVersions(msgspec.Struct, forbid_unknown_fields=True):
    table: str
    version: int
    origin: str
    created: str
    columns: dict[str, SchemaColumn]
    versions: list[SchemaAnswer]


class ColumnDomain(msgspec.Struct, forbid_unknown_fields=True):
    """knots: of numbers, from the least to the largest seen, about as many rows between any two; values: levels or
    words; typical: the median or the most frequent word.
    """

    column: str
    feature: str
    kind: str
    knots: list[float | str]
    values: list[float | str | bool]
    typical: float | str | bool | None


class ColumnsAnswer(msgspec.Struct, forbid_unknown_fields=True):
    model: str
    table: str | None
    columns: list[ColumnDomain]


class SchemasAnswer(msgspec.Struct, forbid_unknown_fields=True):
    tables: list[SchemaAnswer]
