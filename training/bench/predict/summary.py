"""Figures of one kind of target as records, and as a printed table."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from training.bench.impute.measure import OURS
from training.bench.predict.measure import METRICS, Figures
from training.figures import Record, average, format_table, say_losses

STUDY = "predict"
TITLES = {"nrmse": "NRMSE", "accuracy": "accuracy", "auroc": "AUROC"}
NUMBERS, WORDS = ("nrmse",), ("accuracy", "auroc")
# Method, table and seed.
Measured = Mapping[tuple[str, str, int], Figures]


def record_all(measured: Measured, mean: str, case: str) -> Iterator[Record]:
    """Of each method: the mean over the seeds for each table, and, called ``mean``, over the tables."""
    for metric in METRICS:
        by_table: dict[tuple[str, str], list[float]] = defaultdict(list)
        by_seed: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
        for (method, name, seed), figures in measured.items():
            value = getattr(figures, metric)
            if not np.isnan(value):
                by_table[method, name].append(value)
                by_seed[method][seed].append(value)
        for (method, name), values in by_table.items():
            yield average(STUDY, f"{name}, {case}", method, metric, values)
        for method, seeds in by_seed.items():
            means = [float(np.mean(values)) for values in seeds.values()]
            yield average(STUDY, f"{mean}, {case}", method, metric, means)


def show(title: str, records: Sequence[Record], mean: str, metrics: Sequence[str]) -> str:
    """The means, and the figures of each table, a row for each method; then where ours loses."""
    value = {(r.method, r.case.partition(", ")[0], r.metric): r.value for r in records}
    names = list(dict.fromkeys(name for _, name, _ in value if name != mean))
    rows = []
    for method in dict.fromkeys(r.method for r in records):
        cells = [f"{value[method, mean, metric]:.3f}" for metric in metrics]
        cells += [f"{value[method, mean, 'fit_seconds']:.1f}", f"{value[method, mean, 'row_milliseconds']:.2f}"]
        cells += [" / ".join(f"{value[method, name, metric]:.3f}" for metric in metrics) for name in names]
        rows.append([method, *cells])
    table = format_table(["method", *(TITLES[m] for m in metrics), "fit CPU s", "one row ms", *names], rows)
    shown = " / ".join(TITLES[metric] for metric in metrics)
    said = [_say_coverage(value, names, mean), *(_say_lost(value, [*names, mean], metric) for metric in metrics)]
    return "\n\n".join(filter(None, [f"\n{title}. For each table: {shown}.", table, "\n".join(filter(None, said))]))


def _say_lost(value: Mapping[tuple[str, str, str], float], names: Sequence[str], metric: str) -> str:
    """More is better but for errors; without ours, or without peers, there is nothing to say."""
    methods = dict.fromkeys(method for method, _, _ in value)
    if OURS not in methods or len(methods) == 1:
        return ""
    sign = -1.0 if metric in NUMBERS else 1.0
    rows = {name: {method: sign * value[method, name, metric] for method in methods} for name in names}
    losses = say_losses(rows)
    return f"By {TITLES[metric]}, {losses[0].lower()}{losses[1:]}"


def _say_coverage(value: Mapping[tuple[str, str, str], float], names: Sequence[str], mean: str) -> str:
    if (OURS, mean, "coverage") not in value:
        return ""
    each = ", ".join(f"{name} {100 * value[OURS, name, 'coverage']:.1f}" for name in names)
    whole = 100 * value[OURS, mean, "coverage"]
    return f"Ours: the 90 % interval holds {whole:.1f} % of the numbers ({each})."
