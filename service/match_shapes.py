"""The shapes of what answers under /encodings/matches; see service.shapes."""

import msgspec


class Match(msgspec.Struct, forbid_unknown_fields=True):
    """similarity: how likely both mean the same; sign: -1 where the one falls as the other rises. evidence: the cosine
    of their encodings, how far the predictions for both agree, and logarithms of odds. scale, offset: what takes
    a new table's cells to the feature, where that can be told.
    """

    left: str
    right: str
    similarity: float
    sign: int
    evidence: dict[str, float | None]
    scale: float | None
    offset: float | None


class Unmatched(msgspec.Struct, forbid_unknown_fields=True):
    left: list[str]
    right: list[str]


class PlacedColumn(msgspec.Struct, forbid_unknown_fields=True):
    column: str
    encoding: list[float]


class SuggestedColumn(msgspec.Struct, forbid_unknown_fields=True):
    feature: str
    scale: float
    offset: float


class SuggestedSchema(msgspec.Struct, forbid_unknown_fields=True):
    columns: dict[str, SuggestedColumn]


class MatchesAnswer(msgspec.Struct, forbid_unknown_fields=True):
    """unmatched: columns without a match. Of a new table also where its columns lie among the encodings, and what
    PUT /schemas/{table} would take to serve it.
    """

    model: str
    matches: list[Match]
    unmatched: Unmatched
    placed: list[PlacedColumn] | msgspec.UnsetType = msgspec.UNSET
    schema: SuggestedSchema | msgspec.UnsetType = msgspec.UNSET
