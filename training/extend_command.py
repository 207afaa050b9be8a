"""The extend command: a bundle and a new table in, a bundle with that table's features out.

torch takes seconds to import: the table is read first, so that mistakes in it are told at once.
"""

import argparse
import os
import time

from model.bundle import Bundle, check_free, read_bundle
from model.errors import FamilyError, list_some
from model.progress import Progress
from training.column_links import read_columns
from training.joining import Joined, call_new, join_table


def extend_bundle(args: argparse.Namespace) -> None:
    """Add a table, and its new columns as features, to a bundle.

    Of ``args``: bundle, table, out; schema, name, epochs (or None); force, quiet; seed.
    """
    check_free(args.out, replace=args.force)
    bundle = read_bundle(args.bundle)
    if not bundle.is_additive:
        raise FamilyError(
            f"{args.bundle}: a bundle of the preset {bundle.manifest['preset']!r} cannot be extended: all its features "
            "share one feed-forward and one head, so a new one would change what is said of the old ones; fit it again "
            "with --preset moe"
        )
    progress = Progress(quiet=args.quiet)
    joined = join_table(
        bundle.schema,
        args.table,
        name=args.name or args.table.stem,
        columns=read_columns(args.schema) if args.schema is not None else {},
        seed=args.seed,
        say=progress.say,
    )
    _say_what(bundle, joined, progress)
    _extend(bundle, joined, args, progress)


def _say_what(bundle: Bundle, joined: Joined, progress: Progress) -> None:
    table = joined.table
    names = [feature.name for feature in joined.new]
    n_known = int((table.columns < joined.n_old).sum())
    if not names:
        progress.say(f"{table.name}: all its columns are known features: nothing is learnt, the table is only added")
        return
    if not n_known:
        progress.say(f"{table.name}: no column is a known feature; name those that are with --schema")
    listed = list_some(call_new(bundle.schema, names), ", ")
    progress.say(f"{table.name}: {n_known} known feature(s); {len(names)} new: {listed}")


def _extend(bundle: Bundle, joined: Joined, args: argparse.Namespace, progress: Progress) -> None:
    # Threads that wait by spinning for long lose all they have once a neighbour wants the same cores.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    import torch

    from training.extended_bundle import bundle_extended
    from training.extending import Check, extend_model
    from training.report import format_scores

    def report(check: Check) -> None:
        text = f"loss {check.loss:.3f}  validation {check.score:.3f} (trivial guess 1)"
        progress.update(check.step / check.n_steps, text)

    torch.set_deterministic_debug_mode("error")  # the same as use_deterministic_algorithms, without loading a compiler
    # A debugging aid of deterministic mode that costs a tenth.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    started = time.monotonic()
    progress.start(f"extending {bundle.name!r} by {len(joined.table.positions):,} rows; seed {args.seed}")
    extended = extend_model(bundle, joined, epochs=args.epochs, seed=args.seed, report=report)
    progress.close()
    written, scores = bundle_extended(bundle, joined, extended, args.out, seed=args.seed, force=args.force)
    if not args.quiet:
        print(format_scores(scores))
        print(f"wrote {written.name!r} to {args.out}; extended in {time.monotonic() - started:.1f} s")
