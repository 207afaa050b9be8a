"""From a bundle to a served model and back again: what is refused, what is switched, and who sees it when."""

import gzip
import hashlib
import io
import json
import shutil
import tarfile
import tempfile
import time
from pathlib import Path

import onnx
import pytest

from model.bundle import write_manifest
from model.runtime import Predictor
from service.__main__ import main
from tests.server import RunningServer, run_service, running

pytest_plugins = ["tests.postgres"]

TAR = {"content-type": "application/x-tar"}
ROW = {"cylinders": 8, "weight": 3504}
ASK = {"target": "mpg", "rows": [ROW]}
WITHIN_SECONDS = 1.0


# Ways to spoil a bundle. Each takes the bundle and another one; the words are what the refusal must say.


def _spoil(path: Path, old: bytes, new: bytes) -> None:
    content = (path / "bundle.json").read_bytes()
    assert old in content
    (path / "bundle.json").write_bytes(content.replace(old, new))


def edit(path: Path, **changes: object) -> None:
    """Change the manifest and seal it anew."""
    manifest = json.loads((path / "bundle.json").read_text())
    del manifest["seal"]
    (path / "bundle.json").write_bytes(write_manifest(manifest | changes))


def put_file(path: Path, name: str, content: bytes) -> None:
    """Another file in a file's place, with the hash in bundle.json adjusted."""
    (path / name).write_bytes(content)
    files = json.loads((path / "bundle.json").read_text())["files"]
    edit(path, files=files | {name: hashlib.sha256(content).hexdigest()})


def alter_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def alter_share(path: Path, _: Path) -> None:
    features = json.loads((path / "bundle.json").read_text())["features"]
    shares = features[0]["shares"]
    shares[0], shares[1] = shares[0] + 0.05, shares[1] - 0.05
    edit(path, features=features)


def alter_edge(path: Path, _: Path) -> None:
    features = json.loads((path / "bundle.json").read_text())["features"]
    features[0]["bins"]["values"][0] -= 1
    edit(path, features=features)


def alter_hash(path: Path, _: Path) -> None:
    files = json.loads((path / "bundle.json").read_text())["files"]
    digest = files["model.onnx"]
    edit(path, files=files | {"model.onnx": ("1" if digest[0] == "0" else "0") + digest[1:]})


def point_outside(path: Path, _: Path) -> None:
    """The largest weights in a file beside the network."""
    network = onnx.load_from_string((path / "model.onnx").read_bytes())
    largest = max(network.graph.initializer, key=lambda weights: len(weights.raw_data))
    (path / "weights.bin").write_bytes(largest.raw_data)
    onnx.external_data_helper.set_external_data(largest, "weights.bin")
    largest.ClearField("raw_data")
    put_file(path, "model.onnx", network.SerializeToString())


SPOILT = {
    "no manifest": (lambda path, _: (path / "bundle.json").unlink(), "no bundle here"),
    "no network": (lambda path, _: (path / "model.onnx").unlink(), "torn: model.onnx"),
    "no encodings": (lambda path, _: (path / "encodings.npy").unlink(), "torn: encodings.npy"),
    "half a manifest": (lambda path, _: _halve(path / "bundle.json"), "bundle.json is not JSON"),
    "a byte of the network": (lambda path, _: alter_byte(path / "model.onnx"), "altered: model.onnx"),
    "a byte of the encodings": (lambda path, _: alter_byte(path / "encodings.npy"), "altered: encodings.npy"),
    "a hash": (alter_hash, "altered: model.onnx"),
    "a share": (alter_share, "not made for the features"),
    "an edge": (alter_edge, "not made for the features"),
    "another's network": (lambda path, other: shutil.copy(other / "model.onnx", path), "altered: model.onnx"),
    "a newer format": (lambda path, _: edit(path, format=5), "format 5 is newer than 4"),
    "weights elsewhere": (point_outside, "model.onnx keeps weights in another file"),
    "no network at all": (lambda path, _: put_file(path, "model.onnx", b"nonsense"), "cannot be opened"),
    "not a number": (
        lambda path, _: _spoil(path, b'"seed": 0', b'"seed": NaN'),
        "bundle.json is not JSON",
    ),
    "another seed, unsealed": (lambda path, _: _spoil(path, b'"seed": 0', b'"seed": 1'), "seal"),
}


def _halve(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


@pytest.fixture(scope="module")
def spoilt(small_bundle, other_bundle, cars_like, tmp_path_factory):
    """Every spoilt bundle, by what is wrong with it."""
    home = tmp_path_factory.mktemp("spoilt")
    bundles = {}
    for i, (name, (spoil, _)) in enumerate(SPOILT.items()):
        bundles[name] = shutil.copytree(small_bundle, home / f"bundle{i}")
        spoil(bundles[name], other_bundle)
    bundles["another's network with its hash"] = shutil.copytree(small_bundle, home / "swapped")
    put_file(home / "swapped", "model.onnx", (cars_like / "model.onnx").read_bytes())
    bundles["nothing"] = home / "nothing"
    return bundles


@pytest.fixture(scope="module")
def cars_like(small_bundle, tmp_path_factory):
    """A bundle of other features."""
    from model.bundle import read_bundle, write_bundle
    from model.export import export_onnx
    from model.network import Shape
    from tests.conftest import make_schema
    from tests.test_network import make_network

    schema = make_schema(4, 2)
    network = export_onnx(make_network(schema, Shape(n_members=1)), schema.digest())
    manifest = read_bundle(small_bundle).manifest
    facts = {key: manifest[key] for key in ("name", "created", "seed", "preset", "additive", "network")}
    encodings = read_bundle(small_bundle).encodings[: len(schema.features)]
    out = tmp_path_factory.mktemp("other-features") / "bundle"
    write_bundle(out, facts=facts, schema=schema, network=network, encodings=encodings)
    return out


REASONS = {name: reason for name, (_, reason) in SPOILT.items()}
REASONS |= {"another's network with its hash": "not made for the features", "nothing": "no bundle here"}


# python -m service publish


@pytest.mark.parametrize("name", REASONS)
def test_a_spoilt_bundle_is_refused_in_one_sentence_and_leaves_nothing_in_the_store(spoilt, name, tmp_path, capsys):
    """The command's own function, here: a process for each would take a second for each."""
    store = tmp_path / "store"
    code = main(["publish", str(spoilt[name]), "--registry", f"sqlite:///{tmp_path / 'r.db'}", "--store", str(store)])
    said = capsys.readouterr()
    assert (code, said.out) == (2, "")
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1
    assert REASONS[name] in said.err
    assert list(store.iterdir()) == []


def test_the_command_ends_with_exit_code_2_and_its_sentence_on_stderr(spoilt, tmp_path):
    for name in ("a byte of the network", "another's network with its hash"):
        answer = run_service(tmp_path, "publish", str(spoilt[name]))
        assert (answer.returncode, answer.stdout) == (2, "")
        assert answer.stderr.count("\n") == 1
        assert REASONS[name] in answer.stderr


def test_publishing_says_what_became_of_it_and_the_same_again_is_no_new_version(small_bundle, other_bundle, tmp_path):
    told = [
        run_service(tmp_path, "publish", str(small_bundle)),
        run_service(tmp_path, "publish", str(small_bundle)),
        run_service(tmp_path, "publish", str(other_bundle), "--no-activate"),
        run_service(tmp_path, "publish", str(small_bundle), "--name", "trucks"),
    ]
    store = tmp_path / "store"
    assert [answer.returncode for answer in told] == [0, 0, 0, 0]
    assert [answer.stdout for answer in told] == [
        f"small@1: published, active, in {store / 'small@1'}\n",
        f"small@1: was published already, active, in {store / 'small@1'}\n",
        f"small@2: published, not active, in {store / 'small@2'}\n",
        f"trucks@1: published, active, in {store / 'trucks@1'}\n",
    ]
    assert {path.name for path in store.iterdir()} == {"small@1", "small@2", "trucks@1"}


def test_a_name_that_cannot_be_is_refused(small_bundle, tmp_path):
    answer = run_service(tmp_path, "publish", str(small_bundle), "--name", "../cars")
    assert (answer.returncode, answer.stderr.count("\n")) == (2, 1)
    assert "'../cars' cannot be a model's name" in answer.stderr


# POST /models


def tar_of(bundle: Path, folder: str = ".") -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        archive.add(bundle, folder)
    return content.getvalue()


def tar_with(bundle: Path, *members: tarfile.TarInfo) -> bytes:
    """The whole bundle, and more."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for path in sorted(bundle.iterdir()):
            archive.add(path, path.name)
        for member in members:
            archive.addfile(member, io.BytesIO(b"x" * member.size) if member.isreg() else None)
    return content.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", size: int = 0) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, size
    return info


def value_of(bundle: Path) -> float:
    answer = Predictor.load(bundle).predict({name: [cell] for name, cell in ROW.items()}, "mpg")
    return float(answer.values[0])


@pytest.fixture(scope="module")
def registry_home(tmp_path_factory):
    return tmp_path_factory.mktemp("publishing")


@pytest.fixture(scope="module")
def served(small_bundle, registry_home):
    with running(registry_home, "--bundle", str(small_bundle), TABGLOT_MAX_FILE_BYTES=str(64 << 20)) as server:
        yield server
        server.client.close()  # a connection that is kept open would be waited for


@pytest.fixture
def first(served):
    """The server with small@1 active, whatever a test before has done."""
    served.client.put("/models/active", json={"model": "small@1"})
    return served


def ask(server: RunningServer, **more: object):
    answer = server.client.post("/predict", json=ASK | more)
    assert answer.status_code == 200, answer.text
    return answer.json()["model"], answer.json()["predictions"][0]["value"]


def refused(server: RunningServer, answer, status: int, reason: str) -> None:
    """A problem with the reason in it, no path of the server, and the old model goes on."""
    assert answer.status_code == status, answer.text
    problem = answer.json()
    assert reason in problem["detail"]
    assert tempfile.gettempdir() not in problem["detail"]
    assert ask(server)[0] == "small@1"
    assert server.client.get("/health/ready").json() == {"status": "ready", "model": "small@1"}


def test_a_bundle_given_at_the_start_is_published_and_active(first, small_bundle):
    assert first.client.get("/models").json()["active"] == "small@1"
    assert ask(first) == ("small@1", pytest.approx(value_of(small_bundle), rel=1e-5))


@pytest.mark.parametrize("name", [name for name in REASONS if name != "nothing"])
def test_a_spoilt_upload_is_refused_with_the_reason_and_the_old_model_goes_on(first, spoilt, name):
    answer = first.client.post("/models", content=tar_of(spoilt[name]), headers=TAR)
    refused(first, answer, 422, REASONS[name])


@pytest.mark.parametrize("content", [b"", b"not a tar", b"\x1f\x8b\x08nonsense", b"\x00" * 10_240])
def test_an_upload_that_is_no_tar_is_refused(first, content):
    answer = first.client.post("/models", content=content, headers=TAR)
    refused(first, answer, 422, "no bundle here" if content.startswith(b"\x00") else "no whole tar archive")


def test_an_upload_cut_short_or_damaged_on_the_way_is_refused(first, small_bundle):
    content = tar_of(small_bundle)
    damaged = bytearray(gzip.compress(content, 1))
    damaged[len(damaged) // 2 : len(damaged) // 2 + 64] = bytes(64)
    for upload in (content[: len(content) // 2], gzip.compress(content, 1)[:-2000], bytes(damaged)):
        answer = first.client.post("/models", content=upload, headers=TAR)
        refused(first, answer, 422, "the upload")


HOSTILE = {
    "a path upwards": (member("../../evil", size=3), "leads out"),
    "a bundle file upwards": (member("../encodings.npy", size=3), "leads out"),
    "an absolute path": (member("/evil/bundle.json", size=3), "leads out"),
    "the same file twice": (member("sub/model.onnx", size=3), "'model.onnx' twice"),
    "a symbolic link": (member("sub/bundle.json", tarfile.SYMTYPE, "/etc/passwd"), "not as a plain file"),
    "a hard link": (member("sub/bundle.json", tarfile.LNKTYPE, "model.onnx"), "not as a plain file"),
    "a device": (member("sub/bundle.json", tarfile.CHRTYPE), "not as a plain file"),
    "a pipe": (member("sub/bundle.json", tarfile.FIFOTYPE), "not as a plain file"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_tar_is_refused_and_writes_nothing_elsewhere(first, small_bundle, name):
    hostile, reason = HOSTILE[name]
    answer = first.client.post("/models", content=tar_with(small_bundle, hostile), headers=TAR)
    refused(first, answer, 422, reason)
    assert not list(first.home.rglob("evil"))
    assert not Path("/evil").exists()


def test_links_and_devices_of_other_names_are_never_made(first, small_bundle):
    strays = [member("evil", tarfile.SYMTYPE, "/etc"), member("evil/x", size=3), member("null", tarfile.CHRTYPE)]
    answer = first.client.post("/models", content=tar_with(small_bundle, *strays), headers=TAR)
    assert answer.status_code == 201
    assert sorted(path.name for path in (first.home / "store" / "small@1").iterdir()) == [
        "bundle.json", "calibration.npz", "encodings.npy", "expert.npz", "linking.npz", "model.onnx",
    ]  # fmt: skip


def test_what_is_too_large_packed_or_unpacked_is_refused(first, small_bundle):
    packed = first.client.post("/models", content=bytes((64 << 20) + 1), headers=TAR)
    assert packed.status_code == 413
    bomb = gzip.compress(tar_with(small_bundle, member("zeros", size=65 << 20)), 1)
    assert len(bomb) < 32 << 20
    refused(first, first.client.post("/models", content=bomb, headers=TAR), 422, "unpacks to more than")


def test_a_media_type_that_is_no_tar_is_refused(first):
    answer = first.client.post("/models", content=b"x", headers={"content-type": "text/plain"})
    refused(first, answer, 415, "send the .tar")
    answer = first.client.post("/models", files={}, data={"a": "b"}, headers={"content-type": "multipart/form-data"})
    assert answer.status_code in (400, 422)


def test_a_tar_a_compressed_tar_and_a_form_are_all_taken(first, small_bundle):
    content = tar_of(small_bundle, "some/folder")
    ways = [
        {"content": content, "headers": TAR},
        {"content": gzip.compress(content, 1), "headers": {"content-type": "application/gzip"}},
        {"files": {"bundle": ("bundle.tar", content, "application/x-tar")}},
    ]
    for way in ways:
        answer = first.client.post("/models", params={"name": "uploaded", "activate": "false"}, **way)
        assert answer.status_code == 201, answer.text
        assert (answer.json()["model"], answer.json()["active"]) == ("uploaded@1", False)
    assert ask(first)[0] == "small@1"
    assert ask(first, model="uploaded")[0] == "uploaded@1"


# PUT /models/active, GET /models


@pytest.fixture
def both(first, other_bundle):
    """small@1 active, small@2 published."""
    answer = first.client.post("/models", content=tar_of(other_bundle), params={"activate": "false"}, headers=TAR)
    assert answer.status_code == 201, answer.text
    return first


def activate(server: RunningServer, ref: str):
    answer = server.client.put("/models/active", json={"model": ref})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_active_model_is_switched_and_rolled_back(both, small_bundle, other_bundle):
    old, new = pytest.approx(value_of(small_bundle), rel=1e-5), pytest.approx(value_of(other_bundle), rel=1e-5)
    assert old != new
    assert ask(both) == ("small@1", old)
    assert activate(both, "small@2")["active"]
    assert ask(both) == ("small@2", new)
    assert ask(both, model="small@1") == ("small@1", old)
    activate(both, "small@1")
    assert ask(both) == ("small@1", old)


def test_a_name_alone_means_the_newest_version(both):
    assert activate(both, "small")["model"] == "small@2"
    assert both.client.get("/models/active").json()["model"] == "small@2"


@pytest.mark.parametrize(
    ("ref", "hint"),
    [("smal", "small"), ("small@9", "known are small@2, small@1"), ("active", ""), ("", ""), ("@1", "")],
)
def test_an_unknown_model_is_404_with_what_there_is(both, ref, hint):
    answer = both.client.put("/models/active", json={"model": ref})
    refused(both, answer, 404, hint)
    assert both.client.post("/predict", json=ASK | {"model": ref}).status_code == 404


def test_models_can_be_listed_and_looked_at(both, small_bundle):
    listed = both.client.get("/models").json()
    assert listed["active"] == "small@1"
    assert {"small@1", "small@2"} <= {entry["model"] for entry in listed["models"]}
    newest, exact, active = (both.client.get(f"/models/{ref}").json() for ref in ("small", "small@1", "active"))
    assert newest["model"] == "small@2"
    assert exact == active
    assert (exact["version"], exact["active"], exact["status"]) == (1, True, "ready")
    features = json.loads((small_bundle / "bundle.json").read_text())["features"]
    assert exact["features"] == [{"feature": f["name"], "kind": f["kind"]} for f in features]
    assert both.client.get("/models/smal").status_code == 404


@pytest.mark.parametrize("ref", ["small@2", "never-loaded"])
def test_a_model_that_was_altered_in_the_store_is_not_activated_until_published_again(both, other_bundle, ref):
    """Though it may be in memory still: other processes, and this one after a restart, would fail."""
    if ref == "small@2":
        activate(both, "small@2")
        activate(both, "small@1")
        upload = {}
    else:
        upload = {"name": ref, "activate": "false"}
        both.client.post("/models", content=tar_of(other_bundle), params=upload, headers=TAR)
        ref = f"{ref}@1"
    alter_byte(both.home / "store" / ref / "model.onnx")
    refused(both, both.client.put("/models/active", json={"model": ref}), 422, f"{ref} in the store: altered")
    again = both.client.post("/models", content=tar_of(other_bundle), params=upload, headers=TAR)
    assert (again.status_code, again.json()["model"]) == (201, ref)
    assert activate(both, ref)["active"]


# Several processes on one registry


def seconds_until(condition) -> float:
    """How long it takes until something is so."""
    begun = time.monotonic()
    while not condition():
        assert time.monotonic() - begun < 10, "it never was"
        time.sleep(0.005)
    return time.monotonic() - begun


def see_each_other(one: RunningServer, two: RunningServer) -> list[float]:
    """Switch, roll back and register through one; how soon the other follows."""
    lags = []
    for ref in ("small@2", "small@1"):
        activate(one, ref)
        lags.append(seconds_until(lambda ref=ref: ask(two)[0] == ref))
    columns = {"wt": {"feature": "weight", "scale": 1000}, "cyl": {"feature": "cylinders"}}
    assert one.client.put("/schemas/mine", json={"columns": columns}).status_code == 200
    mine = {"target": "mpg", "rows": [{"wt": 3.504, "cyl": 8}], "table": "mine"}
    lags.append(seconds_until(lambda: two.client.post("/predict", json=mine).status_code == 200))
    assert two.client.post("/predict", json=mine).json()["predictions"][0]["value"] == pytest.approx(ask(two)[1])
    return lags


def test_a_change_made_by_one_process_is_seen_by_the_other_within_a_second_and_outlives_both(both, tmp_path):
    shared = {name: both.environment[name] for name in ("TABGLOT_REGISTRY", "TABGLOT_STORE")}
    with running(tmp_path, **shared) as second:
        lags = see_each_other(both, second) + see_each_other(second, both)
        print(f"seen after {max(lags):.3f} s at most")
        assert max(lags) < WITHIN_SECONDS
        activate(second, "small@2")
    with running(tmp_path, **shared) as again:
        assert ask(again)[0] == "small@2"
        assert set(again.client.get("/schemas/mine").json()["columns"]) == {"wt", "cyl"}
        assert len(again.client.get("/models").json()["models"]) == len(both.client.get("/models").json()["models"])
        assert again.client.delete("/schemas/mine").status_code == 200


def test_all_of_it_on_postgres_too(postgres_url, small_bundle, other_bundle, tmp_path):
    homes = [tmp_path / "one", tmp_path / "two"]
    shared = {"TABGLOT_REGISTRY": postgres_url, "TABGLOT_STORE": str(tmp_path / "store")}
    bundles = ["--bundle", str(small_bundle), str(other_bundle)]
    with running(homes[0], *bundles, **shared) as one, running(homes[1], **shared) as two:
        assert ask(one)[0] == "small@1"
        lags = see_each_other(one, two)
        print(f"seen after {max(lags):.3f} s at most")
        assert max(lags) < WITHIN_SECONDS
        refused(one, one.client.put("/models/active", json={"model": "smal"}), 404, "small")
