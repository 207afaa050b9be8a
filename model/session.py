"""The network, opened by onnxruntime and held to its bundle: names, widths, features, and a canary row."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
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
from model.row_network import MOST_PAIRS, RowNetwork, lay_out
from model.schema import Feature

# The canary asks for so many features at most: a wide bundle must not take long to open.
MOST_ASKED = 64
# In so many rows the tables for single rows must say what the network says.
N_COMPARED = 4


@dataclass(frozen=True, slots=True)
class Network:
    """The network thrice: with all outputs, cut down to the answers, which is what most requests need, and laid out
    for single rows.
    """

    whole: onnxruntime.InferenceSession
    brief: onnxruntime.InferenceSession
    row: RowNetwork | None = None
    expert: LinearExpert | None = None
    calibration: Calibration | None = None

    def run(
        self, names: Sequence[str], feed: Mapping[str, NDArray[Any]], *, means_only: bool = False
    ) -> list[NDArray[np.float32]]:
        """The outputs of these names. ``means_only``: nobody will look at the logits of numbers."""
        is_brief = len(names) == len(ANSWERS)
        outputs = self._answer(feed, means_only=means_only) if is_brief else self.whole.run(names, feed)
        if "base" in names:  # with an expert it depends on which cells a row has
            at = names.index("base")
            outputs[at] = np.broadcast_to(outputs[at], (len(feed["positions"]), *outputs[at].shape))
        if self.expert is not None:
            outputs = self.expert.join(names, feed, outputs, means_only=means_only)
        return outputs if self.calibration is None else self.calibration.apply(names, feed, outputs)

    def _answer(self, feed: Mapping[str, NDArray[Any]], *, means_only: bool) -> list[NDArray[np.float32]]:
        """Logits and point. Of a single row only the cells that are there are looked at, which are all that answers
        depend on: half the cells, half the time.
        """
        columns, positions, asked = feed["columns"], feed["positions"], feed["asked"]
        if len(positions) == 1:
            there = np.flatnonzero(positions[0] == positions[0])  # not NaN
            if len(there):
                columns, positions = columns[there], positions[:, there]
                # Whole distributions of many features are one product to onnxruntime.
                if self.row is not None and (means_only or len(asked) == 1) and len(there) * len(asked) <= MOST_PAIRS:
                    return self.row.answer(columns, positions[0], asked, means_only=means_only)
        answers: list[NDArray[np.float32]] = self.brief.run(
            ANSWERS, {"columns": columns, "positions": positions, "asked": asked}
        )
        return answers


def open_network(bundle: Bundle, threads: int) -> Network:
    """Open the network from bytes, hold it to its bundle.json, and have it answer a canary row."""
    _check_whole(bundle)
    whole = _open(bundle.name, bundle.network, threads)
    _check(bundle, whole)
    try:
        brief = _open(bundle.name, keep_outputs(bundle.network, ANSWERS), threads)
    except ValueError as error:
        raise BundleError(f"bundle {bundle.name!r}: model.onnx cannot be read: {error}") from error
    network = Network(whole, brief, None, bundle.expert, bundle.calibration)
    run_canary(bundle, network)
    row = lay_out(bundle, count_heads(bundle))
    return replace(network, row=row) if row is not None and _is_same(row, brief, bundle) else network


def _is_same(row: RowNetwork, brief: onnxruntime.InferenceSession, bundle: Bundle) -> bool:
    """Whether it says of some rows, and some features, what model.onnx says, whose word counts."""
    features = bundle.schema.features
    ends = np.asarray([feature.n_values - 1 for feature in features])
    is_word = np.asarray([not feature.is_number for feature in features])
    rng = np.random.default_rng(0)
    for _ in range(N_COMPARED):
        asked, columns = (np.sort(rng.permutation(len(features))[:MOST_ASKED]) for _ in range(2))
        columns = columns[np.sort(rng.permutation(len(columns))[: rng.integers(1, len(columns) + 1)])]
        positions = rng.uniform(0.0, ends).astype(np.float32)
        positions = np.where(is_word, positions.round(), positions)[None, columns]
        feed = {"columns": columns, "positions": positions, "asked": asked}
        told = _ask(bundle, partial(brief.run, ANSWERS, feed))
        with np.errstate(all="ignore"):  # weights may be any; what is not finite is not the same
            own = row.answer(columns, positions[0], asked)
        if not all(np.allclose(one, other, atol=1e-3) for one, other in zip(own, told, strict=True)):
            return False
    return True


def _ask(bundle: Bundle, ask: Callable[[], list[NDArray[np.float32]]]) -> list[NDArray[np.float32]]:
    try:
        return ask()
    except Exception as error:  # onnxruntime raises types of its own that it does not export
        raise BundleError(f"bundle {bundle.name!r}: model.onnx fails on a row of its own features: {error}") from error


def _middle_row(features: Sequence[Feature]) -> NDArray[np.float32]:
    """A row with the middle of each number, and the first of its words, (1, S)."""
    middle = [0.5 * (feature.n_values - 1) if feature.is_number else 0.0 for feature in features]
    return np.asarray([middle], dtype=np.float32)


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
    middle = _middle_row(features)
    positions = np.concatenate([np.full_like(middle, np.nan), middle])
    every = np.arange(len(features))
    feed = {"columns": every, "positions": positions, "asked": every}
    logits, point = _ask(bundle, partial(network.run, ANSWERS, feed))
    if not (np.isfinite(logits).all() and np.isfinite(point).all()):
        raise BundleError(f"bundle {bundle.name!r}: model.onnx gives no finite answer to a row of its own features")
    if not bundle.is_additive:
        return
    for feature, row in zip(features, logits[0].astype(np.float64), strict=True):
        mass = np.exp(row[: feature.n_values] - row[: feature.n_values].max())
        if np.abs(mass / mass.sum() - feature.shares).max() > 1e-3:
            raise BundleError(f"bundle {bundle.name!r}: model.onnx was fitted to other rows than bundle.json says")
