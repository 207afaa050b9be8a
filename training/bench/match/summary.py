"""Records and printed tables of what was found."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from training.bench.match import families
from training.bench.match.scoring import MEAN, METRICS, OURS, STUDY
from training.figures import Record, average, format_table

# Table, form, how many columns are shared, seed, method.
Task = tuple[str, str, int, int, str]
# Where every table is shown, not only the mean.
SHOWN_SHARED = 2


def name_case(form: str, n_shared: int) -> str:
    return f"{form}, {n_shared} shared"


def record_cuts(found: Mapping[Task, Sequence[float]]) -> Iterator[Record]:
    """Of each method and case: the mean over the seeds for each table, and over the tables."""
    by_table: dict[tuple[str, str, str], list[Sequence[float]]] = defaultdict(list)
    by_seed: dict[tuple[str, str], dict[int, list[Sequence[float]]]] = defaultdict(lambda: defaultdict(list))
    for (name, form, n_shared, seed, method), figures in found.items():
        case = name_case(form, n_shared)
        by_table[method, case, name].append(figures)
        by_seed[method, case][seed].append(figures)
    for i, metric in enumerate(METRICS):
        for (method, case, name), some in by_table.items():
            yield from _average(f"{name}, {case}", method, metric, [figures[i] for figures in some])
        for (method, case), seeds in by_seed.items():
            means = [_known_mean([figures[i] for figures in some]) for some in seeds.values()]
            yield from _average(f"{MEAN}, {case}", method, metric, means)


def record_families(found: Mapping[families.Task, Sequence[float]]) -> Iterator[Record]:
    """Of each method: figures of each family and form, and their mean over the families."""
    counts: dict[tuple[str, str, str], list[Sequence[float]]] = defaultdict(list)
    for (family, _, _, form, method), some in found.items():
        counts[family, form, method].append(some)
    means: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for (family, form, method), every in counts.items():
        for metric, value in families.summarize(every).items():
            means[form, method, metric].append(value)
            yield from _average(f"{family}:{form}", method, metric, [value])
    for (form, method, metric), values in means.items():
        yield from _average(f"{MEAN}:{form}", method, metric, [_known_mean(values)])


def show_means(records: Sequence[Record], cases: Sequence[str]) -> str:
    """A row for each method: both hits of every case, in the mean over the tables."""
    value = {(r.method, r.case, r.metric): r.value for r in records}
    rows = [
        [method, *(_join(value, method, f"{MEAN}, {case}", ("hit_one_to_one", "hit1")) for case in cases)]
        for method in dict.fromkeys(r.method for r in records)
    ]
    head = "Columns that find their partner, mean over the tables: one to one / by the best score."
    return f"\n{head}\n\n{format_table(['method', *cases], rows)}{_show_signs(value, cases)}"


def show_tables(records: Sequence[Record], form: str, names: Sequence[str]) -> str:
    """A row for each method: of every table the columns that find their partner one to one."""
    case = name_case(form, SHOWN_SHARED)
    value = {(r.method, r.case, r.metric): r.value for r in records}
    rows = [
        [method, *(_join(value, method, f"{name}, {case}", ("hit_one_to_one",)) for name in (MEAN, *names))]
        for method in dict.fromkeys(r.method for r in records)
    ]
    return f"\nOne to one: {case}.\n\n{format_table(['method', MEAN, *names], rows)}"


def show_families(records: Sequence[Record], form: str) -> str:
    """A row for each method: precision, recall and recall at truth of every family."""
    of_form = [r for r in records if r.case.endswith(f":{form}")]
    value = {(r.method, r.case, r.metric): r.value for r in of_form}
    cases = sorted({r.case for r in of_form}, key=lambda case: (not case.startswith(f"{MEAN}:"), case))
    rows = [
        [method, *(_join(value, method, case, families.METRICS) for case in cases)]
        for method in dict.fromkeys(r.method for r in of_form)
    ]
    head = (
        f"Families of tables, names {'hidden' if form == families.HIDDEN else 'seen'}: precision / recall / at truth."
    )
    return f"\n{head}\n\n{format_table(['method', *(case.partition(':')[0] for case in cases)], rows)}"


def _show_signs(value: Mapping[tuple[str, str, str], float], cases: Sequence[str]) -> str:
    told = {case: value.get((OURS, f"{MEAN}, {case}", "sign_accuracy")) for case in cases}
    known = [f"{case}: {100 * share:.1f} %" for case, share in told.items() if share is not None]
    return f"\n\nOurs: the sign is right of so many rightly matched numbers. {'; '.join(known)}." if known else ""


def _join(value: Mapping[tuple[str, str, str], float], method: str, case: str, metrics: Sequence[str]) -> str:
    cells = [value.get((method, case, metric)) for metric in metrics]
    return (
        " / ".join("-" if cell is None else f"{cell:.3f}" for cell in cells)
        if any(c is not None for c in cells)
        else ""
    )


def _average(case: str, method: str, metric: str, values: Sequence[float]) -> Iterator[Record]:
    """A record, unless there is no such figure."""
    known = [value for value in values if not np.isnan(value)]
    if known:
        yield average(STUDY, case, method, metric, known)


def _known_mean(values: Sequence[float]) -> float:
    """The mean over those that have such a figure."""
    known = [value for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else float("nan")
