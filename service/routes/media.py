"""Media types of tables: which a request has, and which its answer shall have."""

from starlette.datastructures import Headers
from starlette.requests import Request

from service.errors import ProblemError
from service.files.ask import Format
from service.front import media_type_of
from service.serving import JSON, JSON_TYPES

CSV = "text/csv"
PARQUET = "application/vnd.apache.parquet"
ARROW = "application/vnd.apache.arrow.stream"
FILES = {CSV: "a table with a header line", PARQUET: "a table", ARROW: "a table, as an IPC stream"}
MEDIA_TYPES: dict[Format, str] = {"csv": CSV, "parquet": PARQUET, "arrow": ARROW}
FORMATS: dict[str, Format] = {
    CSV: "csv",
    "application/csv": "csv",
    PARQUET: "parquet",
    "application/parquet": "parquet",
    "application/x-parquet": "parquet",
    ARROW: "arrow",
}


def sent_format(request: Request) -> Format | None:
    """The format of the body; None is JSON."""
    media_type = media_type_of(request.scope)
    if media_type in JSON_TYPES or media_type.endswith("+json"):
        return None
    if media_type not in FORMATS:
        raise ProblemError(415, f"{media_type!r} is not understood; send {', '.join((JSON, *MEDIA_TYPES.values()))}")
    return FORMATS[media_type]


def wanted_format(headers: Headers, sent: Format | None) -> Format | None:
    """The format asked for by Accept, the most wanted first, else the one sent; None is JSON."""
    accept = headers.get("accept") or "*/*"
    for media_type in _by_preference(accept):
        if media_type in ("*/*", "application/*", "text/*"):
            if media_type != "text/*" or sent == "csv":
                return sent
        elif media_type == JSON:
            return None
        elif media_type in FORMATS:
            return FORMATS[media_type]
    raise ProblemError(406, f"none of {accept!r} can be given; {', '.join((JSON, *MEDIA_TYPES.values()))} can")


def _by_preference(accept: str) -> list[str]:
    weighed = []
    for part in accept.split(","):
        media_type, *parameters = (text.strip().lower() for text in part.split(";"))
        weight = 1.0
        for parameter in parameters:
            if parameter.startswith("q="):
                try:
                    weight = float(parameter[2:])
                except ValueError:
                    weight = 0.0
        if weight > 0.0:
            weighed.append((weight, media_type))
    return [media_type for _, media_type in sorted(weighed, key=lambda item: -item[0])]
