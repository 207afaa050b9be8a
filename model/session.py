"""The network, opened by onnxruntime and held to its bundle: names, widths, features, and a canary row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from model.bundle import Bundle
from model.calibration import Calibration
from model.errors import BundleError
from model.linear import LinearExpert
from model.onnx_names import ANSWERS, CONTRACT, INPUTS
from model.prune import keep_outputs, points_outside

# The canary asks for so many features at most: a wide bundle must not take long to open.
MOST_ASKED = 64


@dataclass(frozen=True, slots=True)
class Network:
    """The network twice: with all outputs, and cut down to the answers, which is what most requests need."""

    whole: onnxruntime.InferenceSession
    brief: onnxruntime.InferenceSession
    expert: LinearExpert | None = None
    calibration: Calibration | None = None

    def run(
        self, names: Sequence[str], feed: Mapping[str, NDArray[Any]], *, means_only: bool = False
    ) -> list[NDArray[np.float32]]:
        """The outputs of these names. ``means_only``: nobody will look at the logits of numbers."""
        is_brief = len(names) == len(ANSWERS)
        session, fed = (self.brief, _without_holes(feed)) if is_brief else (self.whole, feed)
        outputs: list[NDArray[np.float32]] = session.run(names, fed)
        if "base" in names:  # with an expert it depends on which cells a row has
            at = names.index("base")
            outputs[at] = np.broadcast_to(outputs[at], (len(feed["positions"]), *outputs[at].shape))
        if self.expert is not None:
            outputs = self.expert.join(names, feed, outputs, means_only=means_only)
        return outputs if self.calibration is None else self.calibration.apply(names, feed, outputs)


def _without_holes(feed: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
    """Of a single row the cells that are there, which are all that answers depend on: half the cells, half the time."""
    positions = feed["positions"]
    if len(positions) != 1:
        return feed
    there = np.flatnonzero(positions[0] == positions[0])  # not NaN
    if len(there) in (0, positions.shape[1]):
        return feed
    return {**feed, "columns": feed["columns"][there], "positions": positions[:, there]}


def open_network(bundle: Bundle, threads: int) -> Network:
    """Open the network from bytes, hold it to its bundle.json, and have it answer a canary row."""
    _check_whole(bundle)
    whole = _open(bundle.name, bundle.network, threads)
    _check(bundle, whole)
    try:
        brief = _open(bundle.name, keep_outputs(bundle.network, ANSWERS), threads)
    except ValueError as error:
        raise BundleError(f"bundle {bundle.name!r}: model.onnx cannot be read: {error}") from error
    network = Network(whole, brief, bundle.expert, bundle.calibration)
    run_canary(bundle, network)
    return network


def _check_whole(bundle: Bundle) -> None:
    """No second file may be pulled in: not even one that is there."""
    try:
        is_torn = points_outside(bundle.network)
    except (ValueError, RecursionError) as error:
        raise BundleError(f"bundle {bundle.name!r}: model.onnx cannot be opened: {error}") from error
    if is_torn:
        raise BundleError(f"bundle {bundle.name!r}: model.onnx keeps weights in another file; it must hold all of them")


def _open(name: str, content: bytes, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime raises types of its own that it does not export
        raise BundleError(f"bundle {name!r}: model.onnx cannot be opened: {error}") from error


def _check(bundle: Bundle, session: onnxruntime.InferenceSession) -> None:
    """Inputs, outputs and widths as this program knows them, made for the features of this bundle.json."""
    names = [value.name for value in session.get_inputs()]
    given = [value.name for value in session.get_outputs()]
    if names != list(INPUTS) or given != list(CONTRACT[bundle.is_additive]):
        raise BundleError(
            f"bundle {bundle.name!r}: model.onnx takes {names} and gives {given}: not what is served here"
        )
    width = session.get_outputs()[0].shape[-1]
    digest = session.get_modelmeta().custom_metadata_map.get("schema")
    if width != bundle.schema.n_values or digest != bundle.schema.digest():
        raise BundleError(f"bundle {bundle.name!r}: model.onnx was not made for the features of this bundle.json")


def count_heads(bundle: Bundle) -> int:
    """How many heads the network has, all members together."""
    try:
        return max(1, int(bundle.manifest["network"]["heads"]))
    except (KeyError, TypeError, ValueError) as error:
        raise BundleError(f"bundle {bundle.name!r}: bundle.json does not say how many heads there are") from error


def run_canary(bundle: Bundle, network: Network) -> None:
    """Ask two rows, one empty and one full; refuse a network that cannot answer them.

    Of an empty row an additive network must say exactly how often each value occurs: a network with
    other weights than those of this bundle.json fails here.
    """
    features = bundle.schema.features[:MOST_ASKED]
    middle = [0.5 * (feature.n_values - 1) if feature.is_number else 0.0 for feature in features]
    positions = np.asarray([[np.nan] * len(features), middle], dtype=np.float32)
    every = np.arange(len(features))
    try:
        logits, point = network.run(ANSWERS, {"columns": every, "asked": every, "positions": positions})
    except Exception as error:  # onnxruntime raises types of its own that it does not export
        raise BundleError(f"bundle {bundle.name!r}: model.onnx fails on a row of its own features: {error}") from error
    if not (np.isfinite(logits).all() and np.isfinite(point).all()):
        raise BundleError(f"bundle {bundle.name!r}: model.onnx gives no finite answer to a row of its own features")
    if not bundle.is_additive:
        return
    for feature, row in zip(features, logits[0].astype(np.float64), strict=True):
        mass = np.exp(row[: feature.n_values] - row[: feature.n_values].max())
        if np.abs(mass / mass.sum() - feature.shares).max() > 1e-3:
            raise BundleError(f"bundle {bundle.name!r}: model.onnx was fitted to other rows than bundle.json says")
