"""Options of commands: a mistake in them is one sentence, as every mistake of the caller is."""

import argparse
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """Says what is wrong and where help is, without the lines of usage before it; its subcommands do the same."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message}; see {self.prog} --help\n")
