"""GET /encodings and what is read off them: likeness, matches, a map, analogies."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from model.analogy import find_analogy
from model.errors import AskError
from model.requests import nearest
from model.schema import Link
from model.similarity import Pair, find_similar, match_rows, match_tables, project
from service.documents import gives, takes
from service.errors import ProblemError
from service.live import Served
from service.payloads import MatchAsk, check_rows, decoder, to_columns
from service.routes import examples
from service.serving import Serving, answer_json, read_json
from service.shapes import AnalogyAnswer, EncodingsAnswer, MapAnswer, MatchesAnswer, SimilarAnswer

MATCH = decoder(MatchAsk)
ERRORS = (404, 422, 503)
Model = Annotated[str | None, Query(description="NAME or NAME@VERSION; default: the active model")]
Table = Annotated[str | None, Query(description="a table: only its columns' features")]
Count = Annotated[int, Query(ge=1, le=1000, description="how many")]
Term = Annotated[str, Query(description="feature=value")]
SHOWN = {"feature": "weight", "kind": "numeric", "tables": ["auto", "mtcars"]}


def add_encodings(router: APIRouter, serving: Serving) -> None:
    """Declare the routes under /encodings."""
    live = serving.live

    @router.get(
        "/encodings", operation_id="encodings", tags=["encodings"], response_model=None,
        summary="One vector per feature, all in one space",
        responses=gives(
            EncodingsAnswer, {"model": "cars@1", "dimension": 2, "features": [{**SHOWN, "encoding": [0.1, -0.2]}]},
            *ERRORS,
        ),
    )  # fmt: skip
    async def encodings(table: Table = None, model: Model = None) -> Response:
        served = await live.get(model)
        vectors = served.predictor.bundle.encodings
        wanted = {link.feature for link in live.state.links(served, table).values()}
        index = served.predictor.schema.index
        features = [
            {**_show(served, name), "encoding": vectors[i].tolist()} for name, i in index.items() if name in wanted
        ]
        return answer_json({"model": served.ref, "dimension": vectors.shape[1], "features": features})

    @router.get(
        "/encodings/similar", operation_id="similar", tags=["encodings"], response_model=None,
        summary="The features most like one, most alike first",
        responses=gives(
            SimilarAnswer,
            {"model": "cars@1", "feature": "weight", "similar": [
                {"feature": "displacement", "tables": ["auto"], "similarity": 0.7}]},
            *ERRORS,
        ),
    )  # fmt: skip
    async def similar(
        feature: Annotated[str, Query(description="a feature, or, with a table, one of its columns")],
        table: Table = None, k: Count = 5, model: Model = None,
    ) -> Response:  # fmt: skip
        served = await live.get(model)
        name = _resolve(served, feature, live.state.links(served, table))
        found = find_similar(served.predictor.bundle, name, k)
        schema = served.predictor.schema
        shown = [
            {"feature": other, "tables": schema.tables_of(other), "similarity": likeness} for other, likeness in found
        ]
        return answer_json({"model": served.ref, "feature": name, "similar": shown})

    @router.get(
        "/encodings/map", operation_id="map", tags=["encodings"], response_model=None,
        summary="All features as points in the plane: a picture, not a measure",
        responses=gives(MapAnswer, {"model": "cars@1", "points": [{**SHOWN, "x": 0.3, "y": -1.2}]}, *ERRORS),
    )  # fmt: skip
    async def map_features(model: Model = None) -> Response:
        served = await live.get(model)
        points = project(served.predictor.bundle).tolist()
        shown = [{**_show(served, name), "x": points[i][0], "y": points[i][1]}
                 for name, i in served.predictor.schema.index.items()]  # fmt: skip
        return answer_json({"model": served.ref, "points": shown})

    _add_matches(router, serving)
    _add_analogy(router, serving)


def _add_matches(router: APIRouter, serving: Serving) -> None:
    live = serving.live

    @router.get(
        "/encodings/matches", operation_id="matches", tags=["encodings"], response_model=None,
        summary="Which columns of two tables mean the same: one to one, best first",
        responses=gives(MatchesAnswer, examples.MATCHES, *ERRORS),
    )  # fmt: skip
    async def matches(left: str, right: str, model: Model = None) -> Response:
        served = await live.get(model)
        state = live.state
        tables = state.links(served, left), state.links(served, right)
        pairs = await serving.bulk.run(match_tables, served.predictor.bundle, *tables)
        return _answer_pairs(served, pairs)

    @router.post(
        "/encodings/matches", operation_id="match_rows", tags=["encodings"], response_model=None,
        summary="The same for a table the model was never fitted on",
        openapi_extra=takes(MatchAsk, examples.MATCH),
        responses=gives(MatchesAnswer, examples.MATCHES, 400, 413, 415, *ERRORS),
    )  # fmt: skip
    async def match_new(request: Request) -> Response:
        ask: MatchAsk = MATCH.read(await read_json(request))
        check_rows(ask.rows, serving.settings.max_rows)
        if not ask.rows:
            raise ProblemError(422, "rows is empty: send some rows of the new table")
        served = await live.get(ask.model)
        links = live.state.links(served, ask.left)
        pairs = await serving.bulk.run(match_rows, served.predictor.bundle, links, to_columns(ask.rows))
        return _answer_pairs(served, pairs)


def _add_analogy(router: APIRouter, serving: Serving) -> None:
    @router.get(
        "/encodings/analogy", operation_id="analogy", tags=["encodings"], response_model=None,
        summary="a is to b as c is to ...",
        responses=gives(
            AnalogyAnswer,
            {"model": "cars@1", "answers": [{"feature": "weight", "value": 4464.0, "similarity": 0.9}]},
            *ERRORS,
        ),
    )  # fmt: skip
    async def analogy(a: Term, b: Term, c: Term, k: Count = 5, model: Model = None) -> Response:
        served = await serving.live.get(model)
        terms = [_read_term(text) for text in (a, b, c)]
        found = await serving.bulk.run(find_analogy, served.predictor, terms, k)
        shown = [{"feature": feature, "value": value, "similarity": likeness} for feature, value, likeness in found]
        return answer_json({"model": served.ref, "answers": shown})


def _read_term(text: str) -> tuple[str, str]:
    feature, equals, value = text.partition("=")
    if not equals:
        raise AskError(f"{text!r} must be feature=value, such as cylinders=8")
    return feature, value


def _resolve(served: Served, name: str, links: Mapping[str, Link]) -> str:
    if name in links:
        return links[name].feature
    if name not in served.predictor.schema.index:
        raise AskError(f"there is no feature {name!r}{nearest(name, links)}")
    return name


def _show(served: Served, name: str) -> dict[str, Any]:
    schema = served.predictor.schema
    return {"feature": name, "kind": schema.features[schema.index[name]].kind, "tables": schema.tables_of(name)}


def _answer_pairs(served: Served, pairs: Sequence[Pair]) -> Response:
    shown = [{"left": pair.left, "right": pair.right, "similarity": pair.similarity} for pair in pairs]
    return answer_json({"model": served.ref, "matches": shown})
