"""Query parameters: one that an address does not have is refused, as an unknown field of a body is."""

from collections.abc import Callable, Collection

from starlette.requests import Request

from model.errors import CellProblem, list_some
from model.requests import MOST_TOLD, nearest
from service.errors import ProblemError


async def check_query(request: Request) -> None:
    """For routes that FastAPI answers: what they do not declare is refused. A typo would change the answer unseen."""
    declared = request.scope["route"].dependant.query_params
    refuse_others(request, [parameter.alias for parameter in declared])


def refuse_others(request: Request, known: Collection[str], in_body: Collection[str] = ()) -> None:
    """Refuse query parameters that are not among the ``known``; those ``in_body`` only JSON requests have."""

    def tell(name: str) -> str:
        if name in in_body:
            return f"{name} {'are' if name.endswith('s') else 'is'} given for JSON requests only: send the rows as JSON"
        hint = nearest(name, dict.fromkeys(known)) if known else "; this address takes none"
        return f"there is no such parameter{hint}"

    _refuse([name for name in request.query_params if name not in known], tell)


def refuse_all(request: Request) -> None:
    """For JSON requests: all that they ask for is in their body, and what stands in the address would go unread."""
    if request.scope["query_string"]:
        _refuse(
            list(request.query_params), lambda _: "a JSON request has no parameters in its address; they go in its body"
        )


def _refuse(names: list[str], tell: Callable[[str], str]) -> None:
    problems = [CellProblem(None, name, tell(name)) for name in names[:MOST_TOLD]]
    if problems:
        told = list_some([f"query parameter {problem.column!r}: {problem.message}" for problem in problems])
        raise ProblemError(422, told, problems)
