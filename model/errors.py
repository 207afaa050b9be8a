"""Every error Tabglot raises on purpose.

    TabglotError
    ├── TableError      a table cannot be read or fitted as it is
    ├── FamilyError     family.toml, or what several tables say together, does not hold
    ├── BundleError     a bundle directory is torn, altered, too new, or in the way
    ├── AskError        a question names no known table, or asks for what cannot be
    └── CellError       cells sent to a fitted model do not fit its features

All of them are the caller's to mend: each message says where, what was found, what is accepted
and what to do. Nothing here knows of HTTP or of exit codes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

MOST_LISTED = 10


class TabglotError(Exception):
    """Root of the tree; its text is one sentence fit for the caller."""


class TableError(TabglotError):
    """A table cannot be read or fitted as it is."""


class FamilyError(TabglotError):
    """The family file, or what several tables say together, does not hold."""


class BundleError(TabglotError):
    """A bundle is torn, altered, of another format, or stands in the way."""


class AskError(TabglotError):
    """A question names an unknown table, or asks for what cannot be answered."""


@dataclass(frozen=True, slots=True)
class CellProblem:
    """One cell (or column) that does not fit: ``row`` is None where a whole column is meant."""

    row: int | None
    column: str
    message: str


class CellError(TabglotError):
    """Cells sent to a fitted model do not fit its features. ``advice`` is said once, after all problems."""

    def __init__(self, problems: Sequence[CellProblem], advice: str = "") -> None:
        self.problems = tuple(problems)
        super().__init__(list_some([_say(problem) for problem in problems]) + advice)


def _say(problem: CellProblem) -> str:
    where = f"column {problem.column!r}"
    if problem.row is not None:
        where = f"row {problem.row}, {where}"
    return f"{where}: {problem.message}"


def list_some(items: Sequence[str], joint: str = "; ") -> str:
    """Join at most ten items and say how many more there are."""
    shown = joint.join(items[:MOST_LISTED])
    more = len(items) - MOST_LISTED
    return f"{shown}{joint}and {more} more" if more > 0 else shown
