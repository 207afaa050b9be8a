"""GET /encodings and what is read off them: likeness, matches, a map, analogies."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from model.agreement import agreement
from model.analogy import find_analogy
from model.errors import AskError
from model.requests import nearest
from model.schema import Link
from model.similarity import find_similar, project
from model.table_matching import MOST_COLUMNS, Found, Matching, match_rows, match_tables
from service.documents import gives, takes
from service.errors import ProblemError
from service.live import Served
from service.match_shapes import MatchesAnswer
from service.payloads import MatchAsk, check_rows, decoder, to_columns
from service.routes import examples
from service.serving import Serving, answer_json, read_json
from service.shapes import AnalogyAnswer, EncodingsAnswer, MapAnswer, SimilarAnswer

MATCH = decoder(MatchAsk)
ERRORS = (404, 422, 503)
Model = Annotated[str | None, Query(description="NAME or NAME@VERSION; default: the active model")]
Table = Annotated[str | None, Query(description="a table: only its columns' features")]
Count = Annotated[int, Query(ge=1, le=1000, description="how many")]
Names = Annotated[bool, Query(description="whether names of columns count")]
Least = Annotated[float, Query(ge=0.0, le=1.0, description="pairs less likely than this are no match")]
Term = Annotated[str, Query(description="feature=value")]
Name = Annotated[str, Query(description="a feature, or, with a table, one of its columns")]


@dataclass(frozen=True, slots=True)
class EncodingRoutes:
    """What answers under /encodings."""

    serving: Serving

    async def encodings(self, table: Table = None, model: Model = None) -> Response:
        served = await self.serving.live.get(model)
        vectors = served.predictor.bundle.encodings
        wanted = {link.feature for link in self.serving.live.state.links(served, table).values()}
        index = served.predictor.schema.index
        tables = self._tables(served)
        features = [
            {**_show(served, name, tables), "encoding": vectors[i].tolist()}
            for name, i in index.items()
            if name in wanted
        ]
        return answer_json({"model": served.ref, "dimension": vectors.shape[1], "features": features})

    async def similar(self, feature: Name, table: Table = None, k: Count = 5, model: Model = None) -> Response:
        served = await self.serving.live.get(model)
        name = _resolve(served, feature, self.serving.live.state.links(served, table))
        tables = self._tables(served)
        shown = [
            {"feature": other, "tables": tables.get(other, []), "similarity": likeness, "sign": sign}
            for other, likeness, sign in find_similar(served.predictor.bundle, name, k)
        ]
        return answer_json({"model": served.ref, "feature": name, "similar": shown})

    async def map_features(self, request: Request, model: Model = None) -> Response:
        served = await self.serving.live.get(model)
        points = (await self.serving.bulk.run(request, project, served.predictor.bundle)).tolist()
        tables, index = self._tables(served), served.predictor.schema.index
        shown = [{**_show(served, name, tables), "x": points[i][0], "y": points[i][1]} for name, i in index.items()]
        return answer_json({"model": served.ref, "points": shown})

    async def matches(
        self, request: Request, *, left: str, right: str, names: Names = True, least: Least = 0.5, model: Model = None
    ) -> Response:
        served = await self.serving.live.get(model)
        state = self.serving.live.state
        tables = state.links(served, left), state.links(served, right)
        shown = await self.serving.bulk.run(request, _match_known, served, *tables, names, least)
        return answer_json({"model": served.ref, **shown})

    async def match_rows(self, request: Request) -> Response:
        body = await read_json(request)
        ask: MatchAsk = await self.serving.bulk.run(request, MATCH.read, body)
        check_rows(ask.rows, self.serving.settings.max_rows)
        if not ask.rows:
            raise ProblemError(422, "rows is empty: send some rows of the new table")
        served = await self.serving.live.get(ask.model)
        links = self.serving.live.state.links(served, ask.left)
        shown = await self.serving.bulk.run(request, _match_new, served, links, ask)
        return answer_json({"model": served.ref, **shown})

    async def analogy(
        self, request: Request, *, a: Term, b: Term, c: Term, k: Count = 5, model: Model = None
    ) -> Response:
        served = await self.serving.live.get(model)
        terms = [_read_term(text) for text in (a, b, c)]
        found = await self.serving.bulk.run(request, find_analogy, served.predictor, terms, k)
        shown = [{"feature": feature, "value": value, "similarity": likeness} for feature, value, likeness in found]
        return answer_json({"model": served.ref, "answers": shown})

    def _tables(self, served: Served) -> dict[str, list[str]]:
        """The tables that have each feature, registered ones among them."""
        state = self.serving.live.state
        tables: dict[str, list[str]] = {}
        for table in dict.fromkeys([*served.predictor.schema.by_table, *state.registered]):
            with suppress(AskError):  # a registered table may have nothing that this model knows
                for link in state.links(served, table).values():
                    tables.setdefault(link.feature, []).append(table)
        return tables


def add_encodings(router: APIRouter, serving: Serving) -> None:
    """Declare the routes under /encodings."""
    routes = EncodingRoutes(serving)
    add = partial(router.add_api_route, tags=["encodings"], response_model=None)
    add(
        "/encodings", routes.encodings, methods=["GET"], operation_id="encodings",
        summary="One vector per feature, all in one space",
        responses=gives(EncodingsAnswer, examples.ENCODINGS, *ERRORS),
    )  # fmt: skip
    add(
        "/encodings/similar", routes.similar, methods=["GET"], operation_id="similar",
        summary="The features most like one, most alike first",
        responses=gives(SimilarAnswer, examples.SIMILAR, *ERRORS),
    )  # fmt: skip
    add(
        "/encodings/map", routes.map_features, methods=["GET"], operation_id="map",
        summary="All features as points in the plane: a picture, not a measure",
        responses=gives(MapAnswer, examples.MAP, *ERRORS),
    )  # fmt: skip
    add(
        "/encodings/matches", routes.matches, methods=["GET"], operation_id="matches",
        summary="Which columns of two tables mean the same: one to one, best first",
        responses=gives(MatchesAnswer, examples.MATCHES, *ERRORS),
    )  # fmt: skip
    add(
        "/encodings/matches", routes.match_rows, methods=["POST"], operation_id="match_rows",
        summary="The same for a table the model was never fitted on",
        openapi_extra=takes(MatchAsk, examples.MATCH),
        responses=gives(MatchesAnswer, examples.MATCHES, 400, 413, 415, *ERRORS),
    )  # fmt: skip
    add(
        "/encodings/analogy", routes.analogy, methods=["GET"], operation_id="analogy",
        summary="What is to c as b is to a", responses=gives(AnalogyAnswer, examples.ANALOGY, *ERRORS),
    )  # fmt: skip


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


def _show(served: Served, name: str, tables: Mapping[str, list[str]]) -> dict[str, Any]:
    schema = served.predictor.schema
    return {"feature": name, "kind": schema.features[schema.index[name]].kind, "tables": tables.get(name, [])}


def _match_known(
    served: Served, left: Mapping[str, Link], right: Mapping[str, Link], names: bool, least: float
) -> dict[str, Any]:
    matching = match_tables(served.predictor.bundle, left, right, read_names=names, least=least)
    pairs = []
    for found in matching.pairs:
        features = left[found.left].feature, right[found.right].feature
        agree = agreement(served.predictor, *features) if features[0] != features[1] else None
        pairs.append(_show_pair(found, {**found.evidence, "predictions": agree}))
    return {"matches": pairs, "unmatched": {"left": matching.left, "right": matching.right}}


def _match_new(served: Served, links: Mapping[str, Link], ask: MatchAsk) -> dict[str, Any]:
    names = set().union(*ask.rows)
    if len(names) > MOST_COLUMNS:
        raise ProblemError(422, f"the rows have {len(names)} columns; at most {MOST_COLUMNS} are matched")
    columns = to_columns(ask.rows, names)
    matching = match_rows(served.predictor.bundle, links, columns, read_names=ask.names, least=ask.least)
    return {
        "matches": [_show_pair(found, found.evidence) for found in matching.pairs],
        "unmatched": {"left": matching.left, "right": matching.right},
        "placed": [{"column": column, "encoding": at.tolist()} for column, at in matching.encodings.items()],
        "schema": {"columns": _suggest(matching, links)},
    }


def _suggest(matching: Matching, links: Mapping[str, Link]) -> dict[str, Any]:
    """What PUT /schemas would take: every matched column whose cells can be read as the feature's."""
    return {
        found.right: {"feature": links[found.left].feature, "scale": found.unit[0], "offset": found.unit[1]}
        for found in matching.pairs
        if found.unit is not None and found.right
    }


def _show_pair(found: Found, evidence: Mapping[str, float | None]) -> dict[str, Any]:
    scale, offset = found.unit or (None, None)
    return {
        "left": found.left,
        "right": found.right,
        "similarity": found.probability,
        "sign": found.sign,
        "evidence": evidence,
        "scale": scale,
        "offset": offset,
    }
