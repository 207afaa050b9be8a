"""What is served now: the active model, others that were asked for, and the tables that users registered.

All of it is one immutable state that is swapped whole: a request takes the state once, so it finishes on
the model it began with and never sees half a change. Nothing is looked up in the database per request;
a poll of the registry's revision brings in what other processes changed.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from model.bundle import Bundle, read_bundle
from model.errors import AskError, BundleError, TabglotError
from model.requests import nearest
from model.runtime import Predictor
from model.schema import Link
from service import metrics
from service.errors import ProblemError
from service.registry import ModelRecord, Registry, TableVersion

log = logging.getLogger("tabglot")

# So often an active model that was refused is tried again.
RETRY_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Served:
    """A published model, loaded and proven by its canary row."""

    ref: str
    name: str
    predictor: Predictor
    record: ModelRecord


@dataclass(frozen=True, slots=True)
class State:
    """What stands at one revision of the registry. ``loaded`` is by name as asked: cars or cars@1."""

    revision: int
    active: Served | None
    registered: Mapping[str, TableVersion]
    loaded: Mapping[str, Served]
    _links: dict[tuple[str, str], Mapping[str, Link]] = field(default_factory=dict)

    def links(self, served: Served, table: str | None) -> Mapping[str, Link]:
        """What names mean to this model: a registered table comes before the bundle's own of that name."""
        if table is None:
            return served.predictor.links(None)
        key = (served.ref, table)
        found = self._links.get(key)
        if found is None:
            found = self._links[key] = self._read_links(served, table)
        return found

    def _read_links(self, served: Served, table: str) -> Mapping[str, Link]:
        version = self.registered.get(table)
        if version is None:
            known = dict.fromkeys([*self.registered, *served.predictor.schema.by_table])
            if table not in known:
                raise AskError(f"there is no table {table!r}{nearest(table, known)}")
            return served.predictor.links(table)
        strangers = [link for link in version.columns if link.feature not in served.predictor.schema.index]
        if len(strangers) == len(version.columns):
            raise AskError(f"model {served.ref} knows none of the features of table {table!r}")
        return {link.column: link for link in version.columns if link not in strangers}


def read_published(registry: Registry, store: Path, ref: str) -> tuple[ModelRecord, Bundle]:
    """A published model as it is in the store; it must be the very bundle that was published."""
    record = registry.model(ref)
    place = store / record.ref
    try:
        bundle = read_bundle(place)
    except BundleError as error:  # callers need not learn where the store is
        raise BundleError(str(error).replace(str(place), f"{record.ref} in the store")) from error
    if bundle.digest() != record.sha256:
        raise BundleError(f"{record.ref} in the store is not the bundle that was published (sha256 differs)")
    return record, bundle


def open_model(registry: Registry, store: Path, ref: str) -> Served:
    """Load a published model from the store."""
    record, bundle = read_published(registry, store, ref)
    return Served(record.ref, record.name, Predictor(bundle), record)


class Live:
    """Holds the state and renews it. Methods that touch disk or database are to be run beside the loop."""

    def __init__(self, registry: Registry, store: Path, *, models_kept: int, poll_seconds: float) -> None:
        self._registry = registry
        self._store = store
        self._models_kept = models_kept
        self._poll_seconds = poll_seconds
        self._lock = asyncio.Lock()
        self.state = State(-1, None, {}, {})
        self.fault: str | None = None
        self._retry_at = 0.0

    def find(self, ref: str | None) -> Served | None:
        """A model that is loaded already; None: ``load`` it."""
        state = self.state
        if ref is None:
            if state.active is None:
                raise ProblemError(503, self.fault or NO_MODEL, headers={"retry-after": "1"})
            return state.active
        active = state.active
        return active if active is not None and ref in (active.ref, active.name) else state.loaded.get(ref)

    async def load(self, ref: str) -> Served:
        """A model other than the active one, for requests that name it; kept for the next."""
        async with self._lock:
            found = self.find(ref)
            if found is None:
                found = await asyncio.to_thread(open_model, self._registry, self._store, ref)
                known = self._reuse(self.state, found.ref) or found
                self.state = replace(self.state, loaded=self._keep({**self.state.loaded, ref: known}))
            return found

    async def get(self, ref: str | None) -> Served:
        """The model of that name, or the active one."""
        return self.find(ref) or await self.load(str(ref))

    async def refresh(self) -> None:
        """Bring in what changed. On any failure the old model goes on being served."""
        async with self._lock:
            revision = await asyncio.to_thread(self._registry.revision)
            if revision != self.state.revision or self._is_retry_due():
                self.state = await asyncio.to_thread(self._renew)

    def _is_retry_due(self) -> bool:
        """A model that was refused may be mended in the store: that changes no revision."""
        return self.fault is not None and time.monotonic() >= self._retry_at

    def _renew(self) -> State:
        snapshot = self._registry.snapshot()
        old = self.state
        active = old.active
        fault = None
        if snapshot.active is not None and (active is None or active.ref != snapshot.active):
            try:
                active = self._reuse(old, snapshot.active) or open_model(self._registry, self._store, snapshot.active)
            except TabglotError as error:
                fault = f"model {snapshot.active} cannot be served: {error}"
                self._retry_at = time.monotonic() + RETRY_SECONDS
                if fault != self.fault:
                    log.error("model refused", extra={"model": snapshot.active, "reason": str(error)})
            else:
                metrics.SWITCHES.inc()
                log.info("model active", extra={"model": active.ref})
        self.fault = fault
        # A bare name may mean another version now: those are looked up anew.
        loaded = {ref: served for ref, served in old.loaded.items() if ref == served.ref}
        if old.active is not None and active is not old.active:
            loaded[old.active.ref] = old.active
        if active is not None:
            loaded.pop(active.ref, None)
        metrics.REVISION.set(snapshot.revision)
        return State(snapshot.revision, active, snapshot.registered, self._keep(loaded))

    def _keep(self, loaded: dict[str, Served]) -> dict[str, Served]:
        """The models loaded last, no more than allowed."""
        return dict(list(loaded.items())[-self._models_kept :]) if self._models_kept else {}

    def _reuse(self, old: State, ref: str) -> Served | None:
        return next((served for served in old.loaded.values() if served.ref == ref), None)

    async def watch(self) -> None:
        """Poll for ever; a registry that cannot be reached is said once and tried again."""
        reachable = True
        while True:
            await asyncio.sleep(self._poll_seconds)
            try:
                await self.refresh()
                reachable = True
            except TabglotError as error:
                if reachable:
                    log.warning("registry unreachable", extra={"reason": str(error)})
                reachable = False
            except Exception:  # or nothing that other processes change would ever be seen again
                log.exception("unexpected error")


NO_MODEL = "no model is active yet; publish one: python -m service publish BUNDLE_DIR, or POST /models"
