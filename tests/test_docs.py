"""The documents say what is so: commands run, options are listed, links lead somewhere."""

import csv
import io
import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from model.onnx_names import CONTRACT, INPUTS
from service.__main__ import _parser as service_parser
from service.payloads import AuditAsk, ImputeAsk, PredictAsk
from service.settings import Settings
from training.__main__ import _parser
from training.demo import write_demo

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
NUMBER = re.compile(r"[-+]?\d+\.?\d*(?:e[-+]\d+)?")


def run(args: list[str], home: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    answer = subprocess.run(
        [sys.executable, *args], cwd=home, env=environment, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def assert_alike(shown: str, printed: str) -> None:
    """The same words in the same places; figures may differ a little from machine to machine."""
    assert sorted(NUMBER.sub("#", shown).split()) == sorted(NUMBER.sub("#", printed).split())
    first, second = (float(NUMBER.findall(text)[0]) for text in (shown, printed))
    assert second == pytest.approx(first, rel=0.1)


CONSOLE = re.findall(r"```console\n\$ python (.*?)\n(.*?)```", README, re.DOTALL)
CURLS = re.findall(r"```console\n\$ ([^\n]*curl [^\n]*)\n```\n```(json|csv)\n(.*?)```", README, re.DOTALL)


def test_the_tour_has_answers():
    assert len(CURLS) >= 8
    assert len(CONSOLE) >= 2
    assert README.count("curl -s") == sum(command.count("curl -s") for command, _, _ in CURLS)


@pytest.mark.parametrize(("command", "kind", "answer"), CURLS, ids=[str(i) for i in range(len(CURLS))])
def test_the_tours_requests_give_the_tours_answers(demo_home, demo_server, command, kind, answer):
    address = demo_server.url.removeprefix("http://")
    told = subprocess.run(
        ["bash", "-c", command.replace("localhost:8000", address)],
        cwd=demo_home,
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, f"{told.stderr} (is curl there?)"
    if kind == "json":
        assert_same(json.loads(answer), json.loads(told.stdout))
    else:
        shown, printed = (list(csv.reader(io.StringIO(text))) for text in (answer, told.stdout))
        assert_same([[as_number(c) for c in row] for row in shown], [[as_number(c) for c in row] for row in printed])


def assert_same(shown, printed, where="answer"):
    """The same shape and words; figures may differ a little from machine to machine."""
    if isinstance(shown, dict):
        assert list(shown) == list(printed), where
        for key in shown.keys() - {"request_id"}:
            assert_same(shown[key], printed[key], f"{where}.{key}")
    elif isinstance(shown, list):
        assert len(shown) == len(printed), where
        if where.endswith(".experts"):  # two that say about as much change places from machine to machine
            shown, printed = (sorted(experts, key=lambda one: one["feature"]) for experts in (shown, printed))
            shown, printed = (take_contributions(experts) for experts in (shown, printed))
            assert printed[0] == pytest.approx(shown[0], abs=0.25 * sum(map(abs, shown[0]))), where
            shown, printed = shown[1], printed[1]
        for i, pair in enumerate(zip(shown, printed, strict=True)):
            assert_same(*pair, f"{where}[{i}]")
    elif isinstance(shown, float | int) and not isinstance(shown, bool):
        assert printed == pytest.approx(shown, rel=0.15, abs=0.15), where
    else:
        assert shown == printed, where


def take_contributions(experts):
    """What each column added, and all else that is said of it. Columns that say nearly the same share it in another way
    on another processor: a single one may differ by a quarter of what all of them add.
    """
    rest = [{key: value for key, value in one.items() if key != "contribution"} for one in experts]
    return [one["contribution"] for one in experts if "contribution" in one], rest


def as_number(text):
    try:
        return float(text)
    except ValueError:
        return text


@pytest.mark.parametrize(("command", "answer"), CONSOLE)
def test_the_tours_commands_give_the_tours_answers(demo_home, command, answer):
    (demo_home / "cars.csv").write_text("wt,hp,cyl\n2.62,,6\n,110,6\n")
    printed = run(shlex.split(command), demo_home)
    if answer:
        assert_alike(answer, printed)


def test_the_tours_python_gives_the_tours_answer(demo_home):
    found = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", README, re.DOTALL)
    assert found is not None
    program, answer = found.groups()
    (demo_home / "tour.py").write_text(program)
    assert_alike(answer, run(["tour.py"], demo_home))


def test_the_readmes_family_file_is_understood(tmp_path):
    from training.family import read_family

    text = re.search(r"```toml\n(.*?)```", README, re.DOTALL)
    assert text is not None
    (tmp_path / "family.toml").write_text(text.group(1))
    family = read_family(tmp_path / "family.toml")
    assert family.kinds == {"cylinders": "ordinal"}
    assert family.tables[1].codes_of("hp") == ("0",)


def test_every_option_of_fit_is_in_the_readme():
    fit = _parser()._subparsers._group_actions[0].choices["fit"]
    options = {text for action in fit._actions for text in action.option_strings if text.startswith("--")}
    assert not [option for option in options - {"--help"} if f"`{option}" not in README]


def test_every_setting_is_in_the_document():
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    for item in fields(Settings):
        assert f"| `TABGLOT_{item.name.upper()}` |" in text
        assert item.metadata["about"] in text


def test_every_metric_is_in_the_document(client):
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    names = re.findall(r"^# TYPE (tabglot_\w+)", client.get("/metrics").text, re.MULTILINE)
    assert not [name for name in names if f"`{name}`" not in text and not name.endswith("_created")]


def test_every_address_is_in_the_document(client):
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert not [path for path in client.get("/openapi.json").json()["paths"] if path not in text]


def test_every_field_of_a_request_is_in_the_document():
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for kind in (PredictAsk, ImputeAsk, AuditAsk):
        assert not [name for name in kind.__struct_fields__ if f"`{name}`" not in text]


@pytest.mark.parametrize("command", ["serve", "publish", "impute", "predict", "audit"])
def test_every_option_of_the_service_is_in_the_document(command):
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    options = {text for action in service_parser(command)._actions for text in action.option_strings}
    assert not [option for option in options - {"--help", "-h"} if option not in text]


def test_every_input_and_output_of_the_network_is_in_the_bundles_document():
    text = (ROOT / "docs" / "bundle.md").read_text(encoding="utf-8")
    assert not [name for name in (*INPUTS, *CONTRACT[True]) if f"`{name}`" not in text]


def test_every_deviation_in_the_code_is_explained():
    text = (ROOT / "docs" / "model.md").read_text(encoding="utf-8")
    assert text.count("DEVIATION") >= sum(
        p.read_text(encoding="utf-8").count("DEVIATION:") for p in (ROOT / "model").glob("*.py")
    )


@pytest.mark.parametrize("path", sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]), ids=lambda p: p.name)
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\((?!http)([^)#]+)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target


def test_the_demo_writes_what_the_readme_says(tmp_path):
    folder = write_demo(tmp_path / "cars").parent
    assert len(list(folder.glob("*.csv"))) == 8


def test_the_example_of_estimators_and_pooling_prints_what_is_shown(tmp_path):
    text = (ROOT / "docs" / "imputation.md").read_text(encoding="utf-8")
    code, shown = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL).groups()
    (tmp_path / "example.py").write_text(code, encoding="utf-8")
    printed = run(["example.py"], tmp_path)
    assert NUMBER.sub("#", shown).split() == NUMBER.sub("#", printed).split()
    told, found = ([float(number) for number in NUMBER.findall(text)] for text in (shown, printed))
    assert found == pytest.approx(told, rel=0.1, abs=2.0)
