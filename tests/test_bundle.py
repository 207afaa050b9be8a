"""What reading a bundle refuses, and what writing one promises."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from model.bundle import check_free, read_bundle, write_bundle, write_manifest
from model.errors import BundleError
from model.runtime import Predictor
from tests.conftest import make_schema
from tests.test_network import make_network


@pytest.fixture
def copy(small_bundle: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(small_bundle, tmp_path / "copy"))


def edit(path: Path, **changes: object) -> None:
    """Change the manifest and seal it anew."""
    manifest = json.loads((path / "bundle.json").read_text())
    del manifest["seal"]
    (path / "bundle.json").write_bytes(write_manifest(manifest | changes))


def test_the_manifest_says_all_that_the_contract_lists(small_bundle):
    manifest = json.loads((small_bundle / "bundle.json").read_text())
    for key in ("format", "name", "created", "seed", "preset", "tables", "features", "training", "metrics", "files"):
        assert key in manifest
    assert set(manifest["files"]) == {"model.onnx", "encodings.npy", "expert.npz", "calibration.npz", "linking.npz"}
    for name, digest in manifest["files"].items():
        assert hashlib.sha256((small_bundle / name).read_bytes()).hexdigest() == digest
    feature = manifest["features"][0]
    assert {"edges", "values"} <= set(feature["bins"])
    encodings = np.load(small_bundle / "encodings.npy", allow_pickle=False)
    assert encodings.dtype == np.float32
    assert len(encodings) == len(manifest["features"])


def test_reading_gives_back_the_schema_that_was_written(small_bundle):
    bundle = read_bundle(small_bundle)
    assert set(bundle.schema.by_table) == {"auto", "mtcars", "epa2021"}
    assert bundle.schema.tables_of("weight") == ("auto", "mtcars")
    assert bundle.digest() == read_bundle(small_bundle).digest()


def test_one_altered_byte_is_found_in_any_file(copy):
    for name in ("model.onnx", "encodings.npy"):
        content = bytearray((copy / name).read_bytes())
        content[len(content) // 2] ^= 1
        (copy / name).write_bytes(content)
        with pytest.raises(BundleError, match=f"altered: {name}"):
            read_bundle(copy)
        content[len(content) // 2] ^= 1
        (copy / name).write_bytes(content)
    read_bundle(copy)


@pytest.mark.parametrize("name", ["model.onnx", "encodings.npy", "bundle.json"])
def test_a_torn_bundle_is_refused(copy, name):
    (copy / name).unlink()
    with pytest.raises(BundleError, match=r"torn|no bundle here"):
        read_bundle(copy)


def test_a_newer_format_says_update(copy):
    edit(copy, format=5)
    with pytest.raises(BundleError, match="format 5 is newer than 4"):
        read_bundle(copy)


@pytest.mark.parametrize("content", ["", "[]", "null", "{", '{"format": "1"}', '{"format": 1}', "[" * 100_000])
def test_a_manifest_that_is_none_is_refused(copy, content):
    (copy / "bundle.json").write_text(content)
    with pytest.raises(BundleError, match=r"bundle\.json"):
        read_bundle(copy)


@pytest.mark.parametrize("key", ["features", "tables", "files", "name", "additive"])
def test_a_manifest_without_a_key_is_refused(copy, key):
    manifest = json.loads((copy / "bundle.json").read_text())
    del manifest[key]
    del manifest["seal"]
    (copy / "bundle.json").write_bytes(write_manifest(manifest))
    with pytest.raises(BundleError, match="not complete"):
        read_bundle(copy)


def test_another_bundles_network_is_refused_even_with_its_hash(copy):
    from model.export import export_onnx
    from model.network import Shape

    other = make_schema(3)
    content = export_onnx(make_network(other, Shape(n_members=1)), other.digest())
    (copy / "model.onnx").write_bytes(content)
    files = json.loads((copy / "bundle.json").read_text())["files"]
    edit(copy, files=files | {"model.onnx": hashlib.sha256(content).hexdigest()})
    with pytest.raises(BundleError, match="not made for the features"):
        Predictor.load(copy)


def test_bytes_that_are_no_network_are_refused(copy):
    (copy / "model.onnx").write_bytes(b"nonsense")
    files = json.loads((copy / "bundle.json").read_text())["files"]
    edit(copy, files=files | {"model.onnx": hashlib.sha256(b"nonsense").hexdigest()})
    with pytest.raises(BundleError, match="cannot be opened"):
        Predictor.load(copy)


def test_a_pickle_in_the_arrays_place_is_refused(copy):
    np.save(copy / "encodings.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    content = (copy / "encodings.npy").read_bytes()
    files = json.loads((copy / "bundle.json").read_text())["files"]
    edit(copy, files=files | {"encodings.npy": hashlib.sha256(content).hexdigest()})
    with pytest.raises(BundleError, match="not an array file"):
        read_bundle(copy)


def test_writing_refuses_what_exists_and_replaces_on_request(copy):
    bundle = read_bundle(copy)
    facts = {k: bundle.manifest[k] for k in ("name", "created", "seed", "preset", "additive", "network")}
    parts = {"facts": facts, "schema": bundle.schema, "network": bundle.network, "encodings": bundle.encodings}
    with pytest.raises(BundleError, match="exists already"):
        write_bundle(copy, **parts)
    write_bundle(copy, **parts, replace=True)
    assert read_bundle(copy).name == bundle.name
    assert [p.name for p in copy.parent.iterdir()] == ["copy"]


def rewrite(path: Path, *, replace: bool = False) -> None:
    bundle = read_bundle(path if (path / "bundle.json").is_file() else path.with_name("copy"))
    facts = {k: bundle.manifest[k] for k in ("name", "created", "seed", "preset", "additive", "network")}
    network, encodings, expert = bundle.network, bundle.encodings, bundle.expert
    write_bundle(
        path,
        facts=facts,
        schema=bundle.schema,
        network=network,
        encodings=encodings,
        expert=expert,
        replace=replace,
    )


def test_replacing_is_for_bundles_only(copy):
    home = copy.with_name("home")
    home.mkdir()
    (home / "thesis.txt").write_text("years of work")
    link = copy.with_name("link")
    link.symlink_to(copy)
    for out in (home, link):
        with pytest.raises(BundleError, match="is no bundle"):
            rewrite(out, replace=True)
    assert (home / "thesis.txt").read_text() == "years of work"


def test_a_bundle_killed_while_being_replaced_comes_back(copy):
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    pid = dead.stdout.decode().strip()
    lost = copy.with_name("lost")
    shutil.copytree(copy, copy.with_name(f".lost.replaced-{pid}"))
    copy.with_name(f".lost.writing-{pid}-abc").mkdir()
    with pytest.raises(BundleError, match="exists already"):
        rewrite(lost)  # the old one is back, so its place is taken
    assert read_bundle(lost).name == "small"
    assert sorted(p.name for p in copy.parent.iterdir()) == ["copy", "lost"]


def test_another_process_that_writes_is_left_alone(copy):
    writing = copy.with_name(f".other.writing-{os.getppid()}-abc")
    writing.mkdir()
    rewrite(copy.with_name("other"))
    assert writing.exists()


@pytest.mark.parametrize("out", ["bundle.json/x", "bundle.json"])
def test_a_place_that_cannot_be_written_is_told_before_any_work(copy, out):
    with pytest.raises(BundleError, match=r"cannot be written|exists already"):
        check_free(copy / out)


def test_a_manifest_without_heads_is_refused(copy):
    edit(copy, network={})
    with pytest.raises(BundleError, match="how many heads"):
        Predictor.load(copy)


def test_no_byte_of_the_manifest_can_be_altered(copy):
    """A thousand flipped bits, all over the file: each is found."""
    file = copy / "bundle.json"
    content = file.read_bytes()
    rng = np.random.default_rng(0)
    for place, bit in zip(rng.integers(0, len(content), 1000), rng.integers(0, 8, 1000), strict=True):
        spoilt = bytearray(content)
        spoilt[place] ^= 1 << bit
        file.write_bytes(bytes(spoilt))
        with pytest.raises(BundleError):
            read_bundle(copy)
