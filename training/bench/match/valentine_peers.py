"""The matchers of the package valentine that look at values; they need no shared columns and see only the others.

They have their default settings, all seeds, and the rows they look at by default, the first 1,000. Most cuts take a
second; the distribution-based one takes minutes for two tables of 70 columns, whatever their rows. Where one gives no
pair at all, as the first two do of re-expressed values, what is counted is the luck of an arbitrary assignment.
"""

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import pandas as pd

from training.bench.match.peers import list_others
from training.bench.match.scoring import Method

COMA = "valentine_coma"


def list_missing() -> dict[str, str]:
    """The matchers that cannot run here, and what they need."""
    if find_spec("valentine") is None:
        return dict.fromkeys(VALENTINE, "pip install valentine")
    import nltk

    try:
        nltk.data.find("corpora/stopwords")
    except LookupError:
        return {COMA: "python -m nltk.downloader stopwords"}
    return {}


def _distribution() -> Any:
    from valentine.algorithms import DistributionBased

    return DistributionBased()


def _jaccard() -> Any:
    from valentine.algorithms import JaccardDistanceMatcher

    return JaccardDistanceMatcher()


def _coma(**options: Any) -> Any:
    from valentine.algorithms import Coma

    return Coma(use_instances=True, **options)


def ask(
    make: Callable[[], Any], left: pd.DataFrame, right: pd.DataFrame, shared: list[str], *, names: bool = False
) -> pd.DataFrame:
    """The similarities of the pairs that a matcher gives, 0 where it gives none.

    Unless it may see ``names`` it gets others: letters and numbers alone, for some characters make it fail.
    """
    from valentine import valentine_match

    rows, columns = list_others(left, shared), list_others(right, shared)
    called = (
        [rows, columns]
        if names
        else [[f"{side}{i}" for i in range(len(c))] for side, c in zip("lr", (rows, columns), strict=True)]
    )
    tables = [
        table[own].set_axis(new, axis=1) for table, own, new in zip((left, right), (rows, columns), called, strict=True)
    ]
    found = valentine_match(tables, make(), df_names=["left", "right"])
    scores = pd.DataFrame(0.0, index=called[0], columns=called[1])
    for pair, similarity in found.items():
        # Which of the two is the source is not the same for all of them.
        ends = dict((pair.source, pair.target))
        scores.loc[ends["left"], ends["right"]] = float(similarity)
    return scores.set_axis(rows, axis=0).set_axis(columns, axis=1)


# COMA drops pairs that score less than 85 % of a column's best: for an assignment all are wanted.
VALENTINE: dict[str, Method] = {
    "valentine_distribution": partial(ask, _distribution),
    "valentine_jaccard": partial(ask, _jaccard),
    COMA: partial(ask, partial(_coma, use_schema=False, delta=1.0)),
}
# What the package itself would select, for pairs that are to be accepted; by names as well, or without.
SELECTING: dict[str, Method] = {**VALENTINE, COMA: partial(ask, partial(_coma, use_schema=False))}
SELECTING_BY_NAME: dict[str, Method] = {COMA: partial(ask, _coma, names=True)}
