"""Mistakes in the options of the three programs, as a user makes them."""

import os
import subprocess
import sys

import pytest

from tests.server import ROOT


def run(*args, home):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", *args], cwd=home, env=environment, capture_output=True, text=True, check=False
    )


MISTAKES = [
    (("service", "--port", "many"), "argument --port: invalid int value: 'many'", "service"),
    (("service", "impute", "in.csv"), "the following arguments are required: OUT", "service impute"),
    (
        ("service", "audit", "a.csv", "b.csv", "--columns", "mpg"),
        "unrecognized arguments: --columns mpg",
        "service audit",
    ),
    (("training",), "the following arguments are required: COMMAND", "training"),
    (("training", "fit", "t.csv"), "the following arguments are required: --out", "training fit"),
    (("training", "fit", "t.csv", "--out", "b", "--seed", "-1"), "expected a whole number from 0", "training fit"),
    (("model", "bundle"), "the following arguments are required: target", "model"),
]


@pytest.mark.parametrize(("args", "reason", "program"), MISTAKES, ids=str)
def test_a_mistake_in_the_options_is_one_sentence_that_names_help(tmp_path, args, reason, program):
    told = run(*args, home=tmp_path)
    assert told.returncode == 2
    assert told.stdout == ""
    assert told.stderr.count("\n") == 1
    assert told.stderr.startswith("error: ")
    assert reason in told.stderr
    assert told.stderr.endswith(f"; see python -m {program} --help\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("args", [("service",), ("service", "impute"), ("training",), ("training", "fit"), ("model",)])
def test_help_still_shows_how_a_command_is_used(tmp_path, args):
    told = run(*args, "--help", home=tmp_path)
    assert told.returncode == 0
    assert told.stdout.startswith(f"usage: python -m {' '.join(args)}")
