"""The fit command: files in, bundle out, with progress and a closing table.

torch takes seconds to import: the tables are read first, so that mistakes in them are told at once.
"""

import argparse
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from model.bundle import check_free
from model.errors import FamilyError
from model.progress import Progress
from training.family import Family, family_of_paths
from training.tables import Dataset, FitTable, load_family


def fit_files(paths: Sequence[Path], args: argparse.Namespace) -> None:
    """Fit what the command line names."""
    family = family_of_paths(paths, args.name)
    if args.target is not None:
        family = replace(family, target=args.target)
    fit_family(family, args, unlabelled=args.unlabelled)


def fit_family(family: Family, args: argparse.Namespace, *, unlabelled: Path | None = None) -> None:
    """Read a family, fit it and write its bundle; under torchrun, together with the other processes.

    ``unlabelled``: rows without the target, with the columns of the first table, to adapt to.
    """
    check_free(args.out, replace=args.force)
    is_first = os.environ.get("RANK", "0") == "0"
    progress = Progress(quiet=args.quiet or not is_first)
    progress.say(f"reading {len(family.tables)} table(s); seed {args.seed}")
    family = family if unlabelled is None else _with_unlabelled(family, unlabelled, args.preset)
    in_turn = args.preset == "moe"
    dataset = load_family(family, max_rows=args.max_rows, seed=args.seed, in_turn=in_turn, say=progress.say)
    there = None
    if unlabelled is not None:
        *labelled, there = dataset.tables
        dataset = replace(dataset, tables=tuple(labelled))
    _fit_dataset(dataset, args, progress, there)


def _with_unlabelled(family: Family, path: Path, preset: str) -> Family:
    """The family with one more table at its end: read like the first one, its target left unread."""
    if family.target is None:
        raise FamilyError("--unlabelled adapts the answers for one column: name it with --target or in family.toml")
    if preset != "moe":
        raise FamilyError(f"--unlabelled works with the preset moe, not with {preset!r}")
    first = family.tables[0]
    targets = {column for column, feature in first.rename.items() if feature == family.target} | {family.target}
    taken = {table.name for table in family.tables}
    name = path.stem if path.stem not in taken else f"{path.stem} (unlabelled)"
    spec = replace(first, name=name, path=path, ignore=first.ignore | targets, optional=frozenset(targets))
    return replace(family, tables=(*family.tables, spec))


def _fit_dataset(dataset: Dataset, args: argparse.Namespace, progress: Progress, there: FitTable | None) -> None:
    # Threads that wait by spinning for long lose all they have once a neighbour wants the same cores.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what determinism needs on a GPU
    import torch

    from training.adapting import adapt_network
    from training.bundling import bundle_fitted
    from training.fit import Check
    from training.parallel import join_team
    from training.report import format_scores
    from training.settings import choose_settings
    from training.weighing import fit_weighed

    def report(check: Check) -> None:
        text = f"loss {check.loss:.3f}  validation {check.score:.3f} (trivial guess 1)"
        progress.update(check.step / check.n_steps, text)

    if args.threads:
        torch.set_num_threads(args.threads)
    torch.set_deterministic_debug_mode("error")  # the same as use_deterministic_algorithms, without loading a compiler
    # A debugging aid of deterministic mode that costs a tenth.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    device = _check_device(args.device)
    settings = choose_settings(args.preset, dataset.n_rows, dataset.n_cells, args.epochs)
    held_out = "left out in turn" if dataset.is_folded else f"{dataset.n_held_out:,} held out"
    size = f"{len(dataset.schema.features)} features on {dataset.n_rows:,} rows ({held_out})"
    progress.start(f"fitting {size}, preset {settings.preset}")
    started = time.monotonic()
    with join_team(device) as team:
        fitted = fit_weighed(dataset, settings, seed=args.seed, device=device, team=team, report=report)
        progress.close()
        if there is not None:
            adapt_network(fitted, [dataset], [there], seed=args.seed)
            progress.say(f"adapted to {len(there.positions):,} rows without {dataset.target!r}")
        if not team.leads:
            return
        bundle, scores = bundle_fitted(fitted, dataset, args.out, force=args.force)
    if not args.quiet:
        print(format_scores(scores))
        print(f"wrote {bundle.name!r} to {args.out}; fitted in {time.monotonic() - started:.1f} s")


def _check_device(device: str) -> str:
    """The device as torch names it; under torchrun each process takes a GPU of its own."""
    import torch

    if device == "cuda":
        device = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    try:
        float(torch.zeros(1, device=device))
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise FamilyError(f"--device {device}: it cannot be used here: {reason}") from error
    return device
