"""Options of commands: a mistake in them is one sentence, as every mistake of the caller is."""

import argparse
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """Says what is wrong and where help is, without the lines of usage before it; its subcommands do the same."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message}; see {self.prog} --help\n")


def natural(text: str, least: int = 0) -> int:
    """A whole number from ``least`` on."""
    if not text.isdecimal() or not least <= int(text) < 2**31:
        raise argparse.ArgumentTypeError(f"expected a whole number from {least} to {2**31 - 1}, got {text!r}")
    return int(text)


def count(text: str) -> int:
    """A whole number from 1 on."""
    return natural(text, least=1)
