"""Serve, publish, or work on files: python -m service [publish|impute|predict|audit] ..."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from model.command_line import Parser, count, natural
from model.errors import TabglotError
from service.logs import set_up_logs
from service.settings import Settings

Activate = Literal["yes", "no", "new"]
COMMANDS = ("publish", "impute", "predict", "audit")
# Before numpy is imported: its products are small, and threads that spin for them would take the cores from others.
for _library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")


def main(argv: Sequence[str] | None = None) -> int:
    """0 done, 2 the caller's mistake, 1 anything else."""
    words = list(sys.argv[1:] if argv is None else argv)
    command = words.pop(0) if words and words[0] in COMMANDS else "serve"
    args = _parser(command).parse_args(words)
    try:
        if command == "serve":
            return _serve(args)
        if command == "publish":
            return _publish(args)
        return _work_on_file(command, args)
    except TabglotError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 1


def _parser(command: str) -> argparse.ArgumentParser:
    program = "python -m service" if command == "serve" else f"python -m service {command}"
    parser = Parser(prog=program, description=ABOUT[command], epilog=EPILOG.get(command))
    parser.add_argument("--registry", metavar="URL", help="sqlite:///FILE or postgresql://...")
    parser.add_argument("--store", type=Path, metavar="DIR", help="where published bundles are kept")
    if command == "serve":
        parser.add_argument("--host", help="address to listen on; default 127.0.0.1")
        parser.add_argument("--port", type=int, help="port to listen on; default 8000")
        parser.add_argument("--workers", type=int, metavar="N", help="processes that serve; default 1")
        parser.add_argument(
            "--bundle", type=Path, nargs="+", action="extend", default=[], metavar="BUNDLE_DIR",
            help="publish these first; the first becomes active if it is new, or if nothing is",
        )  # fmt: skip
        parser.add_argument("--name", help="publish the first --bundle under another name than its own")
    elif command == "publish":
        parser.add_argument("bundle", type=Path, metavar="BUNDLE_DIR")
        parser.add_argument("--name", help="another name than the bundle's own")
        parser.add_argument("--no-activate", action="store_true", help="publish, but go on serving what is active")
    else:
        _add_file_options(parser, command)
    return parser


def _add_file_options(parser: argparse.ArgumentParser, command: str) -> None:
    parser.add_argument("source", type=Path, metavar="IN", help="a .csv, .parquet or .arrow file")
    parser.add_argument("sink", type=Path, metavar="OUT", help="the file to write; its ending says how")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--bundle", type=Path, metavar="DIR", help="use this bundle; no registry is needed")
    which.add_argument("--model", metavar="NAME[@VERSION]", help="a published model; default: the active one")
    parser.add_argument("--table", metavar="T", help="read names and units as this table's columns")
    parser.add_argument("--unknown", choices=("refuse", "ignore"), default="refuse", help="columns nobody knows")
    parser.add_argument("--engine", choices=("local", "spark", "ray"), default="local", help="where to compute")
    parser.add_argument("--force", action="store_true", help="replace OUT if it exists")
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")
    if command == "impute":
        parser.add_argument("--columns", metavar="A,B", help="which columns to fill; default: all")
        more = parser.add_mutually_exclusive_group()
        more.add_argument(
            "--interval",
            type=float,
            metavar="SHARE",
            help="such as 0.9: add COLUMN_low and COLUMN_high, or _probability",
        )
        more.add_argument("--draws", type=count, metavar="M", help="write M drawn copies below each other, by number")
        parser.add_argument(
            "--seed", type=natural, metavar="N", help="of the draws; the same gives the same; default 0"
        )
    elif command == "predict":
        parser.add_argument("--target", required=True, metavar="COLUMN", help="the column to predict")
        parser.add_argument("--interval", type=float, default=0.9, help="what COLUMN_low to COLUMN_high shall hold")
    else:
        parser.add_argument(
            "--surprise", type=float, default=3.0, help="list cells so surprising; default 3, at most 1 in 20"
        )


ABOUT = {
    "serve": __doc__,
    "publish": "Verify a bundle, keep it in the store, and serve it from now on.",
    "impute": "Fill in what is missing in a file; all other cells stay as they are, to the letter.",
    "predict": "Add what a column is expected to be: COLUMN_predicted, and _low and _high, or _probability.",
    "audit": "List the cells of a file that fit the rest of their row least.",
}
EPILOG = {
    "serve": "Every option, and more, can be set in the environment: TABGLOT_PORT=80 (see docs/operations.md). "
    "Other commands: publish, impute, predict, audit; python -m service COMMAND --help.",
}


def _serve(args: argparse.Namespace) -> int:
    settings = Settings.from_environment(
        os.environ, registry=args.registry, store=args.store, host=args.host, port=args.port, workers=args.workers
    )
    set_up_logs(settings.log_level)
    from service.server import WORKER, serve, warn_if_open

    if WORKER not in os.environ:
        warn_if_open(settings)
        for place, bundle in enumerate(args.bundle):
            _publish_one(
                settings, bundle, name=args.name if place == 0 else None, activate="new" if place == 0 else "no"
            )
    return serve(settings)


def _publish(args: argparse.Namespace) -> int:
    settings = Settings.from_environment(os.environ, registry=args.registry, store=args.store)
    activate: Activate = "no" if args.no_activate else "yes"
    print(_publish_one(settings, args.bundle, name=args.name, activate=activate))
    return 0


def _publish_one(settings: Settings, bundle: Path, *, name: str | None, activate: Activate) -> str:
    """With "new", a bundle published before is not activated again: a restart does not undo a switch."""
    from service.publishing import publish
    from service.registry import Registry

    with Registry.open(settings.registry) as registry:
        record, is_new = publish(registry, settings.store, bundle, name=name, activate=activate == "yes")
        if activate == "new" and (is_new or registry.active() is None):
            record = registry.activate(record.ref)
    done = "published" if is_new else "was published already"
    return f"{record.ref}: {done}, {'active' if record.active else 'not active'}, in {settings.store / record.ref}"


def _work_on_file(command: str, args: argparse.Namespace) -> int:
    from service import file_commands

    settings = Settings.from_environment(os.environ, registry=args.registry, store=args.store)
    return file_commands.run(command, args, settings)


if __name__ == "__main__":
    sys.exit(main())
