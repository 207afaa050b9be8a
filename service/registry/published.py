"""Published models and their versions, in a session that is given."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session, selectinload

from model.errors import AskError, list_some
from model.requests import nearest
from service.registry.errors import UnknownModelError
from service.registry.records import ModelRecord
from service.registry.rows import FeatureRow, ModelRow
from service.registry.tables import is_storable

# Nine digits at most: more would not fit the database's integers.
REF = re.compile(r"(?P<name>[^@]+)(@(?P<version>[1-9][0-9]{0,8}))?")


def check_name(name: str) -> None:
    """Refuse a name that NAME@VERSION, a path of the store or an address could not hold."""
    if not name or not name.isprintable() or set(name) & set("@/\\") or name.startswith("."):
        raise AskError(
            f"model name {name!r}: expected printable text without '@', '/' and '\\' that does not begin with a dot"
        )


def list_models(session: Session) -> list[ModelRow]:
    """All models, newest published first."""
    newest = select(ModelRow).order_by(ModelRow.published.desc(), ModelRow.id.desc())
    return list(session.scalars(newest.options(selectinload(ModelRow.features))))


def find_model(session: Session, ref: str) -> ModelRow:
    """The model that NAME@VERSION names; NAME alone means its newest version."""
    match = REF.fullmatch(ref)
    if match is None or not is_storable(ref):
        raise _unknown_model(session, ref)
    query = select(ModelRow).where(ModelRow.name == match["name"])
    if match["version"]:
        query = query.where(ModelRow.version == int(match["version"]))
    row = session.scalar(query.order_by(ModelRow.version.desc()).limit(1))
    if row is None:
        raise _unknown_model(session, ref)
    return row


def find_published(session: Session, name: str, sha256: str) -> ModelRow | None:
    """The version that this very bundle was published as."""
    return session.scalar(select(ModelRow).where(ModelRow.name == name, ModelRow.sha256 == sha256))


def add_version(
    session: Session,
    *,
    name: str,
    sha256: str,
    created: str,
    published: datetime,
    preset: str,
    seed: int,
    metrics: Mapping[str, Any],
    features: Sequence[tuple[str, str]],
) -> ModelRow:
    """Add the next version of a model."""
    highest = session.scalar(select(func.max(ModelRow.version)).where(ModelRow.name == name))
    row = ModelRow(
        name=name,
        version=(highest or 0) + 1,
        sha256=sha256,
        created=created,
        published=published,
        preset=preset,
        seed=seed,
        metrics=dict(metrics),
        status="ready",
        features=[FeatureRow(position=i, name=feature, kind=kind) for i, (feature, kind) in enumerate(features)],
    )
    session.add(row)
    session.flush()
    return row


def to_record(row: ModelRow, active_id: int | None) -> ModelRecord:
    """A model as the registry answers it."""
    return ModelRecord(
        name=row.name,
        version=row.version,
        sha256=row.sha256,
        created=row.created,
        published=row.published,
        preset=row.preset,
        seed=row.seed,
        metrics=row.metrics,
        status=row.status,
        active=row.id == active_id,
        features=tuple((feature.name, feature.kind) for feature in row.features),
    )


def _unknown_model(session: Session, ref: str) -> UnknownModelError:
    versions: dict[str, list[str]] = {}
    newest_first = select(ModelRow.name, ModelRow.version).order_by(ModelRow.version.desc())
    for known, version in session.execute(newest_first):
        versions.setdefault(known, []).append(f"{known}@{version}")
    name = ref.partition("@")[0]
    if not versions:
        end = "; none is published yet, use: python -m service publish BUNDLE_DIR"
    elif name in versions:
        end = f"; known are {list_some(versions[name], ', ')}"
    else:
        end = nearest(name, versions)
    return UnknownModelError(f"no model {ref!r} in the registry{end}")
