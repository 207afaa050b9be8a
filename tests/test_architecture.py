"""Dependencies point one way, and files can be read in a sitting."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted(p for folder in ("model", "training", "service") for p in (ROOT / folder).rglob("*.py"))


def test_serving_imports_neither_torch_nor_pandas_nor_training():
    program = (
        "import sys, model.runtime\n"
        "bad = {'torch', 'pandas', 'onnx', 'training', 'pyarrow'} & {m.partition('.')[0] for m in sys.modules}\n"
        "sys.exit(', '.join(sorted(bad)) or None)"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT)
    assert answer.returncode == 0, answer.stderr


def test_the_service_imports_neither_torch_nor_pandas_nor_training():
    program = (
        "import sys, service.app, service.__main__, service.server\n"
        "bad = {'torch', 'pandas', 'onnx', 'training', 'pyarrow', 'alembic', 'scipy'}\n"
        "bad &= {m.partition('.')[0] for m in sys.modules}\n"
        "sys.exit(', '.join(sorted(bad)) or None)"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT)
    assert answer.returncode == 0, answer.stderr


def test_bad_tables_are_told_before_torch_is_imported():
    program = "import sys, training.command\nsys.exit('torch' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT)
    assert answer.returncode == 0


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_and_functions_stay_short_and_typed(path):
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= 300
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            assert node.end_lineno - node.lineno < 45, f"{node.name} is long"
            assert node.returns is not None, f"{node.name} has no return type"


def test_no_pickle_anywhere():
    assert not [p for p in SOURCES if "import pickle" in p.read_text(encoding="utf-8")]
