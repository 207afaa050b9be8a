"""python -m training: fit bundles from tables, and measure."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from model.command_line import Parser, count, natural
from model.errors import TabglotError

BENCHES = ("impute", "predict", "audit", "pooling", "match", "speed", "scale", "parallel", "serving")

Command = Callable[[argparse.Namespace], None]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 done, 2 the caller's mistake, 1 anything else."""
    args = _parser().parse_args(argv)
    command: Command = args.command
    try:
        command(args)
    except TabglotError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        kept = getattr(args, "resume", None)
        print(f"stopped; {f'what was found is in {kept}' if kept else 'nothing was written'}", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m training", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    fit = commands.add_parser("fit", help="fit one model on several tables and write its bundle")
    fit.add_argument("tables", nargs="+", type=Path, metavar="TABLE", help="CSV or Parquet files, or one family.toml")
    fit.add_argument("--name", help="the model's name (default: the family's, or the first file's)")
    fit.add_argument("--target", help="a column to weigh more; any other can still be asked for")
    fit.add_argument(
        "--unlabelled",
        type=Path,
        metavar="FILE",
        help="rows without the target from where the model will be used, with the first table's columns: adapt to them",
    )
    _add_fit_options(fit)
    fit.set_defaults(command=_fit)
    demo = commands.add_parser("demo", help="fit the demo: eight real car tables in other names and units")
    _add_fit_options(demo)
    demo.add_argument("--tables", type=Path, help="also keep the demo's tables and family.toml in this folder")
    demo.set_defaults(command=_demo)
    _add_place(commands)
    _add_extend(commands)
    _add_bench(commands)
    reproduce = commands.add_parser("reproduce", help="run a study of the paper; needs the extras train, demo, repro")
    _add_study_options(reproduce)
    reproduce.set_defaults(command=_reproduce)
    return parser


def _add_bench(commands: Any) -> None:
    bench = commands.add_parser("bench", help="measure; needs the extras train, demo, dev and repro")
    bench.add_argument("what", choices=BENCHES)
    bench.add_argument("--json", type=Path, metavar="FILE", help="also write the figures as JSON")
    bench.add_argument("--quick", action="store_true", help="a small form, for trying it out")
    bench.add_argument(
        "--bundle", type=Path, metavar="DIR", help="serving: a bundle of the demo, else var/bundles/cars"
    )
    bench.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="predict, match: also the families of tables here; impute: these tables",
    )
    bench.add_argument(
        "--resume",
        type=Path,
        metavar="FILE",
        help="impute, predict, match: keep figures here, go on from what is there",
    )
    bench.add_argument("--only", type=_names, default=(), metavar="A,B", help="impute, predict: some methods")
    bench.add_argument(
        "--matched", action="store_true", help="impute: eight tables as hard as those a prototype was measured on"
    )
    bench.set_defaults(command=_bench)


def _add_place(commands: Any) -> None:
    place = commands.add_parser("place", help="say which features of a bundle the columns of a new table are")
    place.add_argument("table", type=Path, metavar="TABLE", help="a CSV or Parquet file")
    place.add_argument("--bundle", type=Path, required=True, metavar="BUNDLE_DIR", help="a fitted bundle")
    place.add_argument("--left", metavar="TABLE", help="compare with this table of the bundle only (default: with all)")
    place.add_argument("--schema", type=Path, metavar="FILE", help="write what PUT /schemas/TABLE takes here")
    place.add_argument("--no-names", dest="names", action="store_false", help="names of columns do not count")
    place.add_argument("--least", type=_share, default=0.5, help="pairs less sure than this are no match (default 0.5)")
    place.add_argument("--json", action="store_true", help="print JSON instead of a table")
    place.set_defaults(command=_place)


def _add_extend(commands: Any) -> None:
    extend = commands.add_parser("extend", help="add a table, and its new columns as features, to a bundle")
    extend.add_argument("table", type=Path, metavar="TABLE", help="a CSV or Parquet file")
    extend.add_argument("--bundle", type=Path, required=True, metavar="BUNDLE_DIR", help="the bundle to start from")
    extend.add_argument("--out", type=Path, required=True, metavar="BUNDLE_DIR", help="where to write the new one")
    extend.add_argument("--force", action="store_true", help="replace a bundle that stands at --out")
    extend.add_argument("--schema", type=Path, metavar="FILE", help="which columns are known features (see place)")
    extend.add_argument("--name", help="the table's name (default: the file's)")
    extend.add_argument("--seed", type=natural, default=0, help="same seed, same bundle (default 0)")
    extend.add_argument("--epochs", type=_positive, help="passes over the rows (default: by their number)")
    extend.add_argument("--quiet", action="store_true", help="print nothing but errors")
    extend.set_defaults(command=_extend)


def _add_study_options(reproduce: argparse.ArgumentParser) -> None:
    reproduce.add_argument("study", choices=("simulated", "auto-mpg", "toy-corpus", "analogies", "overlap"))
    reproduce.add_argument("--json", type=Path, metavar="FILE", help="also write the figures as JSON")
    reproduce.add_argument("--seeds", type=count, metavar="N", help="the first N seeds only (default: all)")
    reproduce.add_argument("--quick", action="store_true", help="a small form, for trying it out")
    reproduce.add_argument(
        "--small-grids", action="store_true", help="simulated, auto-mpg: try few settings of the paper's baselines"
    )
    reproduce.add_argument(
        "--only", type=_names, metavar="A,B", help="simulated, auto-mpg, overlap: some of the methods (default: all)"
    )
    reproduce.add_argument(
        "--resume",
        type=Path,
        metavar="FILE",
        help="simulated, overlap: keep figures here, go on from what is there",
    )


def _add_fit_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, required=True, metavar="BUNDLE_DIR", help="where to write the bundle")
    parser.add_argument("--force", action="store_true", help="replace a bundle that stands at --out")
    parser.add_argument("--preset", choices=("moe", "paper"), default="moe", help="moe (default) or paper")
    parser.add_argument("--seed", type=natural, default=0, help="same seed, same bundle (default 0)")
    parser.add_argument("--epochs", type=_positive, help="passes over the rows (default: by their number)")
    parser.add_argument("--max-rows", type=count, help="fit on a random sample of so many rows per table")
    parser.add_argument("--threads", type=count, help="CPU threads (default: all cores)")
    parser.add_argument("--device", default="cpu", help="cpu (default), cuda, cuda:1, ...")
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")
    for option in ("preset", "seed", "epochs", "max_rows", "threads", "device"):
        value = os.environ.get(f"TABGLOT_{option.upper()}")
        if value is not None:
            parser.set_defaults(**{option: value})  # argparse reads texts as if they were given


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise argparse.ArgumentTypeError("expected names with commas between them")
    return names


def _share(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0.0 <= number <= 1.0:
        raise argparse.ArgumentTypeError(f"expected a number from 0 to 1, got {text!r}")
    return number


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0.0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number that is more than 0, got {text!r}")
    return number


# Each command imports what it needs: --help is quick.


def _fit(args: argparse.Namespace) -> None:
    from training.command import fit_files

    fit_files(args.tables, args)


def _demo(args: argparse.Namespace) -> None:
    from training.demo import fit_demo

    fit_demo(args)


def _place(args: argparse.Namespace) -> None:
    from training.placing import place_table

    place_table(args)


def _extend(args: argparse.Namespace) -> None:
    from training.extend_command import extend_bundle

    extend_bundle(args)


def _bench(args: argparse.Namespace) -> None:
    from training.bench import run_bench

    run_bench(
        args.what,
        quick=args.quick,
        json_file=args.json,
        bundle=args.bundle,
        resume=args.resume,
        data=args.data,
        matched=args.matched,
        only=args.only,
    )


def _reproduce(args: argparse.Namespace) -> None:
    from training.reproduce import Options, run_study

    run_study(args.study, Options(args.seeds, args.quick, args.small_grids, args.only, args.resume), args.json)


if __name__ == "__main__":
    sys.exit(main())
