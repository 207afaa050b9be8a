"""The caller's mistakes: one clear sentence, exit code 2, no traceback, nothing written."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import run_training

ROWS = "\n".join(f"{i % 5},{i * 1.5}" for i in range(40))

CASES = {
    "an empty file": ("t.csv", "", "the file is empty"),
    "a header alone": ("t.csv", "a,b\n", "no rows"),
    "a blank first line": ("t.csv", "\n1,2\n", "its first line is empty"),
    "one column": ("t.csv", "a\n1\n2\n", "it has one column, 'a'"),
    "duplicate names": ("t.csv", f"a,a\n{ROWS}\n", "more than once: 'a'"),
    "a ragged row": ("t.csv", f"a,b\n{ROWS}\n1,2,3\n", "row 41 has 3 cells where the header has 2 columns"),
    "not UTF-8": ("t.csv", f"a,b\n{ROWS}\n".encode() + b"\xe4,1\n", "line 42 is not UTF-8"),
    "only missing values": ("t.csv", "a,b\n" + "1,\n2,\n" * 10, "usable column"),
    "inf": ("t.csv", f"a,b\n{ROWS}\n1,inf\n", "row 41, column 'b': inf is not a finite number"),
    "10,000 categories": ("t.csv", "a,b\n" + "\n".join(f"w{i},{i % 7}" for i in range(10_000)), "usable column"),
    "too few rows": ("t.csv", "a,b\n1,2\n2,3\n", "2 rows to fit on; at least 8"),
    "an unknown format": ("t.xlsx", "a", "cannot tell its format from '.xlsx'"),
    "a broken Parquet file": ("t.parquet", "PAR1 nonsense", "not a Parquet file"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_bad_file_gets_one_sentence_and_exit_code_2(tmp_path, case):
    name, content, message = CASES[case]
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    answer = run_training("fit", str(path), "--out", str(tmp_path / "bundle"))
    assert answer.returncode == 2
    assert message in answer.stderr
    assert "Traceback" not in answer.stderr
    assert answer.stderr.count("error:") == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == [name]


def test_a_missing_file_an_unknown_preset_and_device_are_named(tmp_path, write_csv):
    good = write_csv("t.csv", f"a,b\n{ROWS}\n")
    out = str(tmp_path / "bundle")
    for args, message in (
        (("no-such.csv",), "there is no such file"),
        ((str(good), "--preset", "nope"), "choose from"),
        ((str(good), "--device", "nope"), "--device nope"),
        ((str(good), "--epochs", "0"), "more than 0"),
        ((str(good), str(good)), "both named 't'"),
    ):
        answer = run_training("fit", *args, "--out", out)
        assert (answer.returncode, message in answer.stderr) == (2, True), answer.stderr
        assert "Traceback" not in answer.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["t.csv"]


def test_an_out_that_exists_is_refused_before_any_work_and_left_alone(tmp_path, write_csv):
    out = tmp_path / "bundle"
    out.mkdir()
    (out / "mine").write_text("keep")
    answer = run_training("fit", str(write_csv("t.csv", f"a,b\n{ROWS}\n")), "--out", str(out))
    assert answer.returncode == 2
    assert "exists already" in answer.stderr
    assert (out / "mine").read_text() == "keep"


KILLED_WHILE_WRITING = """
import os, sys, signal
import model.bundle as bundle
write = bundle._write_synced
def write_then_die(path, content):
    write(path, content[: len(content) // 2])
    os.kill(os.getpid(), signal.SIGKILL)
bundle._write_synced = write_then_die
from training.__main__ import main
main(sys.argv[1:])
"""


def test_killed_in_mid_write_leaves_no_bundle_and_the_next_run_works(tmp_path, write_csv):
    args = ["fit", str(write_csv("t.csv", f"a,b\n{ROWS}\n")), "--out", str(tmp_path / "bundle"), "--epochs", "1"]
    killed = subprocess.run([sys.executable, "-c", KILLED_WHILE_WRITING, *args], check=False, capture_output=True)
    assert killed.returncode == -signal.SIGKILL
    assert not (tmp_path / "bundle").exists()
    assert [p.name for p in tmp_path.glob(".bundle.writing-*")] != []

    answer = run_training(*args)
    assert answer.returncode == 0, answer.stderr
    assert {"bundle.json", "encodings.npy", "model.onnx"} <= {p.name for p in (tmp_path / "bundle").iterdir()}
    assert list(tmp_path.glob(".bundle.writing-*")) == []


def test_stopped_by_the_user_writes_nothing(tmp_path, write_csv):
    rows = "\n".join(f"{i % 5},{i * 1.5},{i % 17}" for i in range(5000))
    path = write_csv("t.csv", f"a,b,c\n{rows}\n")
    args = [sys.executable, "-m", "training", "fit", str(path), "--out", str(tmp_path / "bundle"), "--epochs", "900"]
    # Tests that run in the background ignore SIGINT, and so would their children.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(args, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if "fitting" in line:
            break
    time.sleep(1.0)
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "nothing was written" in errors
    assert [p.name for p in tmp_path.iterdir()] == ["t.csv"]


def test_paths_in_messages_are_the_ones_given(tmp_path):
    answer = run_training("fit", str(tmp_path / "gone.csv"), "--out", str(tmp_path / "b"))
    assert str(Path(tmp_path) / "gone.csv") in answer.stderr
