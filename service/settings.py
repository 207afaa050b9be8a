"""Settings: one frozen object, read once from the environment (prefix TABGLOT_) and passed on."""

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from model.errors import TabglotError

PREFIX = "TABGLOT_"
MIB = 1 << 20
STORE = Path("var/bundles")
HASHED_KEY = re.compile(r"sha256:[0-9a-fA-F]{64}")
LEVELS = ("debug", "info", "warning", "error")


class SettingsError(TabglotError):
    """A setting that cannot be."""


def _about(default: Any, text: str) -> Any:
    return field(default=default, metadata={"about": text})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the service can be told; every field is also an environment variable."""

    registry: str = _about("sqlite:///var/registry.db", "URL of the registry: sqlite:///FILE or postgresql://...")
    store: Path = _about(STORE, "folder in which published bundles are kept")  # noqa: RUF009
    host: str = _about("127.0.0.1", "address to listen on")
    port: int = _about(8000, "port to listen on")
    workers: int = _about(1, "processes that serve")
    api_keys: tuple[str, ...] = _about(
        (), "keys, comma separated, in plain or as sha256:HEX; none: no key is asked for"
    )
    cors_origins: tuple[str, ...] = _about((), "origins whose pages may call the service, comma separated, or *")
    max_body_bytes: int = _about(16 * MIB, "most bytes of a JSON body")
    max_file_bytes: int = _about(1024 * MIB, "most bytes of a CSV, Parquet or Arrow body, or of a bundle")
    max_file_rows: int = _about(10_000_000, "most rows of a CSV, Parquet or Arrow body")
    max_rows: int = _about(100_000, "most rows of a JSON request")
    max_draws: int = _about(100, "most draws of a request")
    inline_rows: int = _about(16, "requests of more rows are worked on beside the event loop, in pieces")
    models_kept: int = _about(8, "models that stay loaded beside the active one")
    poll_seconds: float = _about(0.25, "how often changes by other processes are looked for")
    drain_seconds: float = _about(25.0, "how long requests under way may take after SIGTERM")
    log_level: str = _about("info", "debug, info, warning or error; info logs every request")

    @classmethod
    def from_environment(cls, environ: Mapping[str, str], **given: Any) -> "Settings":
        """The environment's settings; those ``given`` (on the command line) come before them."""
        values: dict[str, Any] = {}
        for item in fields(cls):
            text = environ.get(PREFIX + item.name.upper())
            if text is not None:
                if item.name == "api_keys" and text.strip() and not text.strip(", "):
                    raise SettingsError(f"{PREFIX}API_KEYS has no key in it; unset it to ask for none")
                values[item.name] = _parse(item.name, item.default, text)
        values |= {name: value for name, value in given.items() if value is not None}
        settings = cls(**values)
        settings.check()
        return settings

    def check(self) -> None:
        for name in ("workers", "max_body_bytes", "max_file_bytes", "max_file_rows", "max_rows", "inline_rows"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("max_draws", "models_kept", "drain_seconds", "port"):
            if getattr(self, name) < 0:
                raise SettingsError(f"{name} must not be negative, as {getattr(self, name)} is")
        if not self.poll_seconds > 0:
            raise SettingsError(f"poll_seconds must be more than 0, not {self.poll_seconds}")
        if self.port > 65_535:
            raise SettingsError(f"port must be at most 65535, not {self.port}")
        if self.log_level not in LEVELS:
            raise SettingsError(f"log_level must be one of {', '.join(LEVELS)}, not {self.log_level!r}")

    def key_digests(self) -> tuple[bytes, ...]:
        """What presented keys are compared with: the keys themselves are not kept."""
        return tuple(
            bytes.fromhex(key.removeprefix("sha256:")) if HASHED_KEY.fullmatch(key) else digest_key(os.fsencode(key))
            for key in self.api_keys
        )

    def to_environment(self) -> dict[str, str]:
        """The same settings as variables, for worker processes."""
        return {PREFIX + item.name.upper(): _show(getattr(self, item.name)) for item in fields(self)}


def digest_key(key: bytes) -> bytes:
    """The fingerprint under which an API key is known."""
    return hashlib.sha256(key).digest()


def _parse(name: str, default: Any, text: str) -> Any:
    try:
        if isinstance(default, tuple):
            return tuple(part.strip() for part in text.split(",") if part.strip())
        return type(default)(text)
    except ValueError:
        wanted = "a whole number" if isinstance(default, int) else "a number"
        raise SettingsError(f"{PREFIX}{name.upper()} must be {wanted}, not {text!r}") from None


def _show(value: Any) -> str:
    return ",".join(value) if isinstance(value, tuple) else str(value)
