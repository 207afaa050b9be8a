"""The bundle: all that passes from training to serving. See docs/bundle.md for the format.

A directory is written aside, synced, and renamed: it is there whole or not at all.
"""

import glob
import hashlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from model.arrays import pack_arrays, unpack_arrays
from model.calibration import Calibration, calibration_of
from model.errors import BundleError, FamilyError
from model.linear import LinearExpert, expert_from_arrays
from model.portrait_files import Linking, linking_of
from model.schema import Schema, feature_from_json, features_to_json, table_from_json, table_to_json

Part = TypeVar("Part")
FORMAT = 4
MANIFEST, NETWORK, ENCODINGS = "bundle.json", "model.onnx", "encodings.npy"
# Only where there is a linear expert, and where rows were held out to calibrate on; older bundles have no linking.
EXPERT = "expert.npz"
CALIBRATION = "calibration.npz"
LINKING = "linking.npz"
SEAL, NO_SEAL = "seal", "0" * 64
MOST_MANIFEST_BYTES = 64 << 20  # a larger one is no manifest


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle in memory, verified: ``manifest`` is bundle.json as read."""

    manifest: Mapping[str, Any]
    schema: Schema
    network: bytes
    encodings: NDArray[np.float32]
    expert: LinearExpert | None = None
    calibration: Calibration | None = None
    linking: Linking | None = None

    @property
    def name(self) -> str:
        return str(self.manifest["name"])

    @property
    def is_additive(self) -> bool:
        """Whether every logit is exactly the sum of the columns' contributions."""
        return bool(self.manifest["additive"])

    def digest(self) -> str:
        """A fingerprint of the whole bundle: the manifest names the hashes of all else."""
        return hashlib.sha256(_dump(self.manifest)).hexdigest()


def check_free(out: Path, *, replace: bool = False) -> None:
    """Refuse an --out that is taken or cannot be written, before any work is done."""
    if os.path.lexists(out):
        is_bundle = not out.is_symlink() and (out / MANIFEST).is_file()
        if not replace:
            hint = ", or replace it with --force" if is_bundle else ""
            raise BundleError(f"{out} exists already; choose another --out{hint}")
        if not is_bundle:
            raise BundleError(f"{out} is no bundle: it will not be replaced; choose another --out")
    parent = next(p for p in out.absolute().parents if os.path.lexists(p))
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise BundleError(f"{out} cannot be written: {parent} is no directory that may be written to")


def write_bundle(
    out: Path,
    *,
    facts: Mapping[str, Any],
    schema: Schema,
    network: bytes,
    encodings: NDArray[np.float32],
    expert: LinearExpert | None = None,
    calibration: Calibration | None = None,
    linking: Linking | None = None,
    replace: bool = False,
) -> Bundle:
    """Write a bundle directory; ``facts`` are the manifest's own keys (name, created, seed, ...)."""
    _clear_leftovers(out)
    check_free(out, replace=replace)
    array = io.BytesIO()
    np.save(array, encodings.astype(np.float32), allow_pickle=False)
    files = {NETWORK: network, ENCODINGS: array.getvalue()}
    for name, part in ((EXPERT, expert), (CALIBRATION, calibration), (LINKING, linking)):
        if part is not None:
            files[name] = pack_arrays(part.to_arrays())
    manifest = {
        "format": FORMAT,
        **facts,
        "tables": [table_to_json(table) for table in schema.tables],
        "features": features_to_json(schema.features),
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
    }
    content = write_manifest(manifest)
    _write_aside(out, {**files, MANIFEST: content})
    return Bundle(json.loads(content), schema, network, encodings, expert, calibration, linking)


def write_manifest(manifest: Mapping[str, Any]) -> bytes:
    """The content of bundle.json, sealed: its last entry is the sha256 of the file with zeros in that place."""
    content = _dump({**manifest, SEAL: NO_SEAL})
    return content.replace(NO_SEAL.encode(), hashlib.sha256(content).hexdigest().encode())


def _is_sealed(content: bytes, seal: object) -> bool:
    """Whether not a byte of bundle.json was altered."""
    if not isinstance(seal, str) or len(seal) != len(NO_SEAL) or content.count(seal.encode()) != 1:
        return False
    return hashlib.sha256(content.replace(seal.encode(), NO_SEAL.encode())).hexdigest() == seal


def _dump(manifest: Mapping[str, Any]) -> bytes:
    return (json.dumps(manifest, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _write_aside(out: Path, files: Mapping[str, bytes]) -> None:
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=f".{out.name}.writing-{os.getpid()}-", dir=out.parent))
    except OSError as error:
        raise BundleError(f"{out} cannot be written: {error.strerror}") from error
    try:
        for name, content in files.items():
            _write_synced(aside / name, content)
        aside.chmod(0o755)
        _sync_directory(aside)
        _move_into_place(aside, out)
        _sync_directory(out.parent)
    except OSError as error:
        raise BundleError(f"{out} cannot be written: {error.strerror}") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _move_into_place(aside: Path, out: Path) -> None:
    """Rename; what stood at ``out`` steps aside first, and is put back if anything fails."""
    if not out.exists():
        aside.rename(out)
        return
    old = out.with_name(f".{out.name}.replaced-{os.getpid()}")
    out.rename(old)
    try:
        aside.rename(out)
    except OSError:
        old.rename(out)
        raise
    shutil.rmtree(old)


def _clear_leftovers(out: Path) -> None:
    """Killed runs leave things beside ``out``: half-written bundles go, a replaced one comes back if it was lost."""
    name = glob.escape(out.name)
    for replaced in out.parent.glob(f".{name}.replaced-*"):
        if _is_dead(replaced.name):
            shutil.rmtree(replaced) if out.exists() else replaced.rename(out)
    for stale in out.parent.glob(f".{name}.writing-*"):
        if _is_dead(stale.name):
            shutil.rmtree(stale, ignore_errors=True)


def _is_dead(leftover: str) -> bool:
    """Whether the process that a leftover's name ends with is gone."""
    try:
        number = leftover.split("-")[-2 if ".writing-" in leftover else -1]
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except (ValueError, PermissionError):
        return False
    return int(number) == os.getpid()


def _write_synced(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_bundle(path: Path) -> Bundle:
    """Read and verify a bundle directory; refuses one that is torn, altered or of a newer format."""
    manifest = _read_manifest(path)
    try:
        files = {name: _read_checked(path, name, manifest["files"][name]) for name in (NETWORK, ENCODINGS)}
        features = tuple(feature_from_json(raw) for raw in manifest["features"])
        schema = Schema(features, tuple(table_from_json(raw) for raw in manifest["tables"]))
        _check_schema(schema, path)
    except (KeyError, TypeError, ValueError, AttributeError, FamilyError) as error:
        raise BundleError(f"{path}: {MANIFEST} is not complete: {type(error).__name__}: {error}") from error
    encodings = _read_array(path, files[ENCODINGS])
    if len(encodings) != len(features):
        raise BundleError(f"{path}: {ENCODINGS} has {len(encodings)} rows for {len(features)} features")
    expert = _read_part(path, manifest, schema, EXPERT, expert_from_arrays)
    calibration = _read_part(path, manifest, schema, CALIBRATION, calibration_of)
    linking = _read_part(path, manifest, schema, LINKING, linking_of)
    if linking is not None and linking.space.width != encodings.shape[1]:
        raise BundleError(f"{path}: {LINKING} and {ENCODINGS} are of different spaces")
    return Bundle(manifest, schema, files[NETWORK], encodings, expert, calibration, linking)


def _read_part(
    path: Path,
    manifest: Mapping[str, Any],
    schema: Schema,
    name: str,
    make: Callable[[Schema, Mapping[str, NDArray[Any]]], Part],
) -> Part | None:
    """A part of arrays that not every bundle has."""
    if name not in manifest["files"]:
        return None
    content = _read_checked(path, name, manifest["files"][name])
    try:
        return make(schema, unpack_arrays(content))
    except ValueError as error:
        raise BundleError(f"{path}: {name} cannot be used: {error}") from error


def _read_manifest(path: Path) -> dict[str, Any]:
    file = path / MANIFEST
    if not file.is_file():
        raise BundleError(f"{path}: no bundle here: there is no {MANIFEST}")
    if file.stat().st_size > MOST_MANIFEST_BYTES:
        raise BundleError(f"{path}: {MANIFEST} is larger than {MOST_MANIFEST_BYTES >> 20} MiB")
    try:
        content = file.read_bytes()
        manifest = json.loads(content)
        _dump(manifest)  # NaN, 1e999 and half a character can be read, but are no JSON
    except OSError as error:
        raise BundleError(f"{path}: {MANIFEST} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{path}: {MANIFEST} is not JSON: {error}") from error
    version = manifest.get("format") if isinstance(manifest, dict) else None
    if not isinstance(version, int):
        raise BundleError(f"{path}: {MANIFEST} has no format version")
    if version > FORMAT:
        raise BundleError(f"{path}: format {version} is newer than {FORMAT}, the newest known here; update Tabglot")
    for key in ("name", "seed", "preset", "additive", "created"):
        if key not in manifest:
            raise BundleError(f"{path}: {MANIFEST} is not complete: it has no {key!r}")
    if not _is_sealed(content, manifest.get(SEAL)):
        raise BundleError(f"{path}: altered: {MANIFEST} is not as it was written (its seal does not fit)")
    return dict(manifest)


def _read_checked(path: Path, name: str, digest: str) -> bytes:
    try:
        content = (path / name).read_bytes()
    except OSError as error:
        raise BundleError(f"{path}: torn: {name} cannot be read: {error.strerror}") from error
    if hashlib.sha256(content).hexdigest() != digest:
        raise BundleError(f"{path}: altered: {name} is not the file that {MANIFEST} was written with (sha256 differs)")
    return content


def _read_array(path: Path, content: bytes) -> NDArray[np.float32]:
    try:
        array = np.load(io.BytesIO(content), allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise BundleError(f"{path}: {ENCODINGS} is not an array file: {error}") from error
    if array.ndim != 2 or array.dtype != np.float32 or not np.isfinite(array).all():
        raise BundleError(f"{path}: {ENCODINGS} must be a finite float32 matrix")
    return np.asarray(array, dtype=np.float32)


def _check_schema(schema: Schema, path: Path) -> None:
    if not schema.features or len(schema.index) != len(schema.features):
        raise BundleError(f"{path}: {MANIFEST} has no features, or two of one name")
    for feature in schema.features:
        shares = np.asarray(feature.shares)
        if len(shares) != feature.n_values or not (np.isfinite(shares) & (shares > 0.0)).all():
            raise BundleError(f"{path}: feature {feature.name!r} has {feature.n_values} values but other shares")
    if len(schema.by_table) != len(schema.tables):
        raise BundleError(f"{path}: {MANIFEST} has two tables of one name")
    for table in schema.tables:
        for link in table.links:
            if link.scale == 0.0 or not np.isfinite([link.scale, link.offset]).all():
                raise BundleError(f"{path}: table {table.name!r}, column {link.column!r}: a unit that cannot be")
            if link.feature not in schema.index:
                raise BundleError(f"{path}: table {table.name!r} links to the unknown feature {link.feature!r}")
