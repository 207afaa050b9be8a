"""A fitted network to a verified bundle: export, check, score, write."""

import copy
import os
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from model.bundle import Bundle, write_bundle
from model.export import check_parity, export_onnx
from model.network import MoeNetwork
from model.runtime import Predictor
from training.calibrating import calibrate
from training.fit import Fitted, Network
from training.left_out import tell_held_out, tell_in_turn
from training.linking import link_tables
from training.parallel import n_cores
from training.report import Score, score_tables
from training.tables import N_FOLDS, Dataset

# Rows of each table on which torch and onnxruntime must agree before a bundle is written.
PARITY_ROWS = 64


def bundle_fitted(fitted: Fitted, dataset: Dataset, out: Path, *, force: bool = False) -> tuple[Bundle, list[Score]]:
    """Export, check and score a fitted network, then write its bundle."""
    network, schema = fitted.network, dataset.schema
    content = export_onnx(network, schema.digest())
    check_parity(network, content, [(t.columns, t.positions[:PARITY_ROWS]) for t in dataset.tables])
    # What the network keeps of a feature serves its answers; what features have in common is found by itself.
    linking, encodings = link_tables(dataset)
    facts = _facts(fitted, dataset)
    draft = Bundle(facts, schema, content, encodings, fitted.expert)
    predictor = Predictor(draft, threads=n_cores())
    tell = tell_in_turn(fitted) if dataset.is_folded else tell_held_out(predictor)
    scores = score_tables(tell, dataset)  # before it is calibrated on the same rows
    if not dataset.is_folded:
        tell = tell_held_out(_set_doubts_aside(predictor, network))
    calibration = calibrate(tell, dataset, seed=fitted.seed) if draft.is_additive else None
    facts["metrics"] = [score.to_json() for score in scores]
    bundle = write_bundle(
        out,
        facts=facts,
        schema=schema,
        network=content,
        encodings=encodings,
        expert=fitted.expert,
        calibration=calibration,
        linking=linking,
        replace=force,
    )
    return bundle, scores


def _facts(fitted: Fitted, dataset: Dataset) -> dict[str, Any]:
    shape = fitted.settings.shape
    return {
        "name": dataset.name,
        "created": _now(),
        "seed": fitted.seed,
        "preset": fitted.settings.preset,
        "target": dataset.target,
        "additive": isinstance(fitted.network, MoeNetwork),
        "network": {"heads": shape.n_heads * shape.n_members, "width": shape.d_model, "members": shape.n_members},
        "training": {
            "rows": dataset.n_rows,
            "folds": N_FOLDS if dataset.is_folded else 0,
            "settings": asdict(fitted.settings),
            "steps": fitted.checks[-1].step,
            "validation": min(check.score for check in fitted.checks),
            "voices": _tell_members(fitted, dataset, "voices", usual=1.0),
            "doubts": _tell_members(fitted, dataset, "doubts", usual=0.0),
        },
    }


def _tell_members(fitted: Fitted, dataset: Dataset, buffer: str, usual: float) -> dict[str, list[float]]:
    """What a buffer (M, F) holds for each member, of the features for which it is not as usual: how loud members are
    (training.weighing), how far they doubt shares (training.doubting).
    """
    if not isinstance(fitted.network, MoeNetwork):
        return {}
    columns = zip(dataset.schema.features, getattr(fitted.network, buffer).T.tolist(), strict=True)
    return {feature.name: held for feature, held in columns if any(value != usual for value in held)}


def _set_doubts_aside(predictor: Predictor, network: Network) -> Predictor:
    """The predictor of a network that believes all shares: held-out rows have them, and would temper what columns say
    to make up for a doubt.
    """
    if not isinstance(network, MoeNetwork) or not network.doubts.any():
        return predictor
    sure = copy.deepcopy(network)
    sure.doubts.zero_()
    bundle = predictor.bundle
    return Predictor(replace(bundle, network=export_onnx(sure, bundle.schema.digest())), threads=n_cores())


def _now() -> str:
    """The time, or the one the environment fixes for reproducible builds."""
    fixed = os.environ.get("SOURCE_DATE_EPOCH")
    moment = datetime.fromtimestamp(int(fixed), UTC) if fixed else datetime.now(UTC)
    return moment.isoformat(timespec="seconds")
