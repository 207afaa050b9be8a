"""GET /columns: what may be sent for each column of a table. A form, or a check before sending, can be made of it."""

from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from model.domains import describe_column
from model.schema import Link
from service.documents import gives
from service.live import Served
from service.routes import examples
from service.serving import Serving, answer_json
from service.table_shapes import ColumnsAnswer


def add_columns(router: APIRouter, serving: Serving) -> None:
    """Declare /columns."""

    @router.get(
        "/columns", operation_id="columns", tags=["schemas"], response_model=None,
        summary="What each column of a table may hold: its range or its words, in its own unit",
        responses=gives(ColumnsAnswer, examples.COLUMNS, 404, 422, 503),
    )  # fmt: skip
    async def columns(
        table: Annotated[str | None, Query(description="a table; default: all features, by their own names")] = None,
        model: Annotated[str | None, Query(description="NAME or NAME@VERSION; default: the active model")] = None,
    ) -> Response:
        served = await serving.live.get(model)
        links = serving.live.state.links(served, table)
        shown = [_show_column(served, link) for link in links.values()]
        return answer_json({"model": served.ref, "table": table, "columns": shown})


def _show_column(served: Served, link: Link) -> dict[str, Any]:
    feature = served.predictor.feature_of(link)
    domain = describe_column(feature, link)
    return {
        "column": link.column,
        "feature": feature.name,
        "kind": feature.kind,
        "knots": domain.knots,
        "values": domain.values,
        "typical": domain.typical,
    }
