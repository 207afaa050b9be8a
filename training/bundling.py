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
from training.believing import believe, find_beliefs
from training.calibrating import calibrate
from training.fit import Fitted, Network
from training.folds import count_groups
from training.left_out import Teller, tell_in_turn
from training.linking import link_tables
from training.parallel import n_cores
from training.report import Score, score_tables
from training.tables import Dataset

# Rows of each table on which torch and onnxruntime must agree before a bundle is written.
PARITY_ROWS = 64


def bundle_fitted(fitted: Fitted, dataset: Dataset, out: Path, *, force: bool = False) -> tuple[Bundle, list[Score]]:
    """Export, check, score and calibrate a fitted network, then write its bundle."""
    facts = _facts(fitted, dataset)
    # What the network keeps of a feature serves its answers; what features have in common is found by itself.
    linking, encodings = link_tables(dataset)
    draft = Bundle(facts, dataset.schema, _export(fitted.network, dataset), encodings, fitted.expert)
    teller = _find_teller(draft, fitted, dataset)
    scores = score_tables(teller, dataset)  # before it is calibrated on the same rows
    facts["metrics"] = [score.to_json() for score in scores]
    final = _calibrate(draft, fitted, dataset, teller) if draft.is_additive else draft
    bundle = write_bundle(
        out,
        facts=facts,
        schema=dataset.schema,
        network=final.network,
        encodings=encodings,
        expert=final.expert,
        calibration=final.calibration,
        linking=linking,
        replace=force,
    )
    return bundle, scores


def _export(network: Network, dataset: Dataset) -> bytes:
    """The content of model.onnx, held against the network itself."""
    content = export_onnx(network, dataset.schema.digest())
    check_parity(network, content, [(t.columns, t.positions[:PARITY_ROWS]) for t in dataset.tables])
    return content


def _find_teller(draft: Bundle, fitted: Fitted, dataset: Dataset) -> Teller:
    """Who tells of rows without having learnt from them."""
    return tell_in_turn(draft, fitted) if dataset.is_folded else Teller([Predictor(draft, threads=n_cores())])


def _calibrate(draft: Bundle, fitted: Fitted, dataset: Dataset, teller: Teller) -> Bundle:
    """The bundle with what left-out rows say of its probabilities and intervals, and of what columns say of words."""
    network = fitted.network
    assert isinstance(network, MoeNetwork)
    if network.doubts.any():  # left-out rows have all shares, and would temper what columns say to make up for a doubt
        teller = Teller([_set_doubts_aside(draft, network)])
    calibration = calibrate(teller, dataset, seed=fitted.seed)
    if calibration is None:
        return draft
    beliefs = find_beliefs(teller, dataset, calibration, seed=fitted.seed)
    if beliefs is None:
        return replace(draft, calibration=calibration)
    expert, calibration = believe(network, fitted.expert, calibration, beliefs, dataset)
    return replace(draft, network=_export(network, dataset), expert=expert, calibration=calibration)


def _facts(fitted: Fitted, dataset: Dataset) -> dict[str, Any]:
    return {
        "name": dataset.name,
        "created": _now(),
        "seed": fitted.seed,
        "preset": fitted.settings.preset,
        "target": dataset.target,
        "additive": isinstance(fitted.network, MoeNetwork),
        "network": fitted.network.shape.sizes,
        "training": {
            "rows": dataset.n_rows,
            "folds": count_groups(fitted.network.shape.n_members) if dataset.is_folded else 0,
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


def _set_doubts_aside(draft: Bundle, network: MoeNetwork) -> Predictor:
    """The predictor of a network that believes all shares."""
    sure = copy.deepcopy(network)
    sure.doubts.zero_()
    return Predictor(replace(draft, network=export_onnx(sure, draft.schema.digest())), threads=n_cores())


def _now() -> str:
    """The time, or the one the environment fixes for reproducible builds."""
    fixed = os.environ.get("SOURCE_DATE_EPOCH")
    moment = datetime.fromtimestamp(int(fixed), UTC) if fixed else datetime.now(UTC)
    return moment.isoformat(timespec="seconds")
