"""From a bundle to a published model: verified, copied into the store, registered. All or nothing."""

import gzip
import io
import os
import re
import shutil
import tarfile
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from model.bundle import CALIBRATION, ENCODINGS, EXPERT, LINKING, MANIFEST, NETWORK, read_bundle
from model.errors import BundleError
from model.runtime import Predictor
from service.registry import ModelRecord, Registry

FILES = (MANIFEST, NETWORK, ENCODINGS, EXPERT, CALIBRATION, LINKING)
# A name is also a folder and a part of addresses.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
ASIDE = ".publishing-"
GZIP = b"\x1f\x8b"
MOST_READ = 1 << 20
# What a killed process left beside the store's bundles goes after so many seconds.
STALE_SECONDS = 3600.0


def publish(
    registry: Registry,
    store: Path,
    source: Path,
    *,
    name: str | None = None,
    activate: bool = True,
    called: str | None = None,
) -> tuple[ModelRecord, bool]:
    """Publish the bundle at ``source``; the second value says whether it is a new version.

    What is verified is the copy, so what is verified is what will be served. ``called`` is what
    messages call the source.
    """
    with _aside(store) as aside:
        try:
            _copy(source, aside)
            bundle = read_bundle(aside)
            _check_name(name or bundle.name)
            _check_seed(bundle.manifest["seed"])
            Predictor(bundle)  # opens the network and runs the canary
        except BundleError as error:
            text = str(error).replace(str(aside), str(source))
            raise BundleError(text.replace(str(source), called) if called else text) from error
        facts = bundle.manifest
        record, is_new = registry.add_model(
            name=name or bundle.name,
            sha256=bundle.digest(),
            created=str(facts["created"]),
            preset=str(facts["preset"]),
            seed=int(facts["seed"]),
            metrics={"held_out": facts.get("metrics") or []},
            features=[(feature.name, feature.kind) for feature in bundle.schema.features],
            tables=bundle.schema.tables,
            place=lambda ref: _place(aside, store / ref),
            activate=activate,
        )
        if not is_new and not _holds(store / record.ref, record.sha256):  # lost or spoilt in the store: put back
            _place(aside, store / record.ref)
        return record, is_new


def unpack(upload: Path, folder: Path, most_bytes: int) -> None:
    """Take the bundle's files out of a tar: nothing else, nowhere else, and no more than allowed."""
    try:
        with _open_plain(upload, most_bytes) as plain, tarfile.open(fileobj=plain, mode="r:") as archive:
            for member in archive:
                path = PurePosixPath(member.name)
                if path.is_absolute() or ".." in path.parts:
                    raise BundleError(f"the upload has {member.name[:200]!r}, which leads out of the bundle")
                name = path.name
                if member.isdir() or name not in FILES:
                    continue
                content = archive.extractfile(member) if member.isreg() else None
                if content is None or (folder / name).exists():
                    raise BundleError(f"the upload has {name!r} twice, or not as a plain file")
                with (folder / name).open("wb") as file:
                    shutil.copyfileobj(content, file, MOST_READ)
    except (tarfile.TarError, EOFError, OSError, ValueError, zlib.error) as error:
        raise BundleError("the upload is no whole tar archive; make it with: tar -cf B.tar -C BUNDLE_DIR .") from error


def _open_plain(upload: Path, most_bytes: int) -> "_Careful":
    """The archive itself; a compressed one is laid out beside it first, as far as allowed."""
    with upload.open("rb") as file:
        if file.read(2) != GZIP:
            return _Careful(io.FileIO(upload))
    plain = upload.with_suffix(".plain")
    left = most_bytes
    with gzip.open(upload) as packed, plain.open("wb") as file:
        while chunk := packed.read(MOST_READ):
            left -= len(chunk)
            if left < 0:
                raise BundleError(f"the upload unpacks to more than {most_bytes} bytes")
            file.write(chunk)
    return _Careful(io.FileIO(plain))


class _Careful(io.BufferedReader):
    """A file that is only read in small pieces: a header that claims to be huge is not taken into memory."""

    def read(self, size: int | None = -1, /) -> bytes:
        """So many bytes, a few at most."""
        if size is None or not 0 <= size <= MOST_READ:
            raise tarfile.ReadError("a header of that size is none of a bundle")
        return super().read(size)


def _holds(place: Path, digest: str) -> bool:
    """Whether this very bundle, whole, is there."""
    try:
        return read_bundle(place).digest() == digest
    except BundleError:
        return False


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise BundleError(
            f"{name!r} cannot be a model's name: letters, digits, '.', '_' and '-' can, 64 at most; give another name"
        )


def _check_seed(seed: object) -> None:
    if not isinstance(seed, int) or abs(seed) >= 1 << 63:
        raise BundleError("bundle.json is not complete: its seed is no whole number of 64 bits")


@contextmanager
def _aside(store: Path) -> Iterator[Path]:
    try:
        store.mkdir(parents=True, exist_ok=True)
        for stale in store.glob(f"{ASIDE}*"):
            with suppress(FileNotFoundError):  # another publisher may clear it at the same time
                if time.time() - stale.stat().st_mtime > STALE_SECONDS:
                    shutil.rmtree(stale, ignore_errors=True)
        aside = Path(tempfile.mkdtemp(prefix=ASIDE, dir=store))
    except OSError as error:
        raise BundleError(f"the store {store} cannot be written: {error.strerror}") from error
    try:
        yield aside
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _copy(source: Path, aside: Path) -> None:
    if not (source / MANIFEST).is_file():
        raise BundleError(f"{source}: no bundle here: there is no {MANIFEST}")
    for name in FILES:
        try:
            shutil.copyfile(source / name, aside / name)
        except FileNotFoundError:
            continue  # read_bundle says which file is missing
        except OSError as error:
            raise BundleError(f"{source / name} cannot be copied to the store: {error.strerror}") from error


def _place(aside: Path, place: Path) -> None:
    """Rename the copy to its place. What stands there was left by a publication that never was registered."""
    try:
        for path in (*aside.iterdir(), aside):
            _sync(path)
        shutil.rmtree(place, ignore_errors=True)
        aside.chmod(0o755)
        aside.rename(place)
        _sync(place.parent)
    except OSError as error:
        raise BundleError(f"{place} cannot be written: {error.strerror}") from error


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
