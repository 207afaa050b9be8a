"""A bundle with a new table's features to a bundle on disk: check, score, calibrate what is new, write."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.bundle import Bundle, write_bundle
from model.calibration import GROUPS, LEVELS, Calibration, calibration_of, log_shares_of
from model.portrait_files import Linking
from model.runtime import Predictor
from model.schema import Schema
from model.straying import no_straying
from training.calibrating import calibrate
from training.extending import Extended
from training.joining import Joined
from training.left_out import Teller
from training.linking import link_one_more
from training.parallel import n_cores
from training.report import Score, score_tables

# What write_bundle itself puts into a manifest.
WRITTEN = ("format", "tables", "features", "files", "seal")


def bundle_extended(
    old: Bundle, joined: Joined, extended: Extended, out: Path, *, seed: int = 0, force: bool = False
) -> tuple[Bundle, list[Score]]:
    """Score and calibrate the extended model on the new table's held-out rows, then write its bundle."""
    dataset = joined.dataset(old.name)
    linking, encodings = _link(old, joined)
    facts = {key: value for key, value in old.manifest.items() if key not in WRITTEN}
    if extended.sizes is not None:
        facts["network"] = extended.sizes
    # Old features are scored as they are served; new ones before they are calibrated on the same rows.
    before = merge_calibrations(old.calibration, None, joined.schema, n_old=joined.n_old)
    draft = Bundle(facts, joined.schema, extended.network, encodings, extended.expert, before)
    predictor = Predictor(draft, threads=n_cores())
    teller = Teller([predictor])
    scores = score_tables(teller, dataset)
    found = calibrate(teller, dataset, seed=seed)
    calibration = merge_calibrations(old.calibration, found, joined.schema, n_old=joined.n_old)
    facts["metrics"] = [*facts.get("metrics", ()), *(score.to_json() for score in scores)]
    facts["extended"] = [*facts.get("extended", ()), _say_added(joined, seed)]
    bundle = write_bundle(
        out,
        facts=facts,
        schema=joined.schema,
        network=extended.network,
        encodings=encodings,
        expert=extended.expert,
        calibration=calibration,
        linking=linking,
        replace=force,
    )
    return bundle, scores


def _link(old: Bundle, joined: Joined) -> tuple[Linking | None, NDArray[np.float32]]:
    """The new table's portrait beside the others, and all encodings, (F, D): the old ones stay where they are."""
    if old.linking is None:  # an older bundle: nothing is said of the new features, like nothing and unlike nothing
        nothing = np.zeros((len(joined.new), old.encodings.shape[1]), dtype=np.float32)
        return None, np.concatenate([old.encodings, nothing])
    linking, placed = link_one_more(old.linking, joined.dataset(old.name), joined.n_old)
    return linking, np.concatenate([old.encodings, placed])


def _say_added(joined: Joined, seed: int) -> dict[str, Any]:
    return {
        "table": joined.table.name,
        "rows": len(joined.table.positions),
        "features": [feature.name for feature in joined.new],
        "seed": seed,
        "created": _now(),
    }


def merge_calibrations(old: Calibration | None, new: Calibration | None, schema: Schema, *, n_old: int) -> Calibration:
    """The old features' calibration as it is, the new features' as found; neutral where there is none."""
    neutral = _no_calibration(schema)
    before, after = (old or neutral).to_arrays(), (new or neutral).to_arrays()
    return calibration_of(
        schema, {name: np.concatenate([array[:n_old], after[name][n_old:]]) for name, array in before.items()}
    )


def _no_calibration(schema: Schema) -> Calibration:
    """A calibration that leaves every answer as it is."""
    n, n_groups = len(schema.features), len(GROUPS) + 1
    parts = np.tile(np.asarray(LEVELS), (n, n_groups, 1))
    return Calibration(np.ones(n), np.ones(n), parts, parts, log_shares_of(schema), no_straying(n, n_groups))


def _now() -> str:
    """The time, or the one the environment fixes for reproducible builds."""
    fixed = os.environ.get("SOURCE_DATE_EPOCH")
    moment = datetime.fromtimestamp(int(fixed), UTC) if fixed else datetime.now(UTC)
    return moment.isoformat(timespec="seconds")
