"""A network cut down to its answers gives the same answers, and bad bytes are refused."""

from contextlib import suppress

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.onnx_names import ANSWERS
from model.prune import keep_outputs


def run(content, names, feed):
    return onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"]).run(list(names), feed)


def test_the_answers_are_the_same_and_nothing_else_is_computed(predictor):
    network = predictor.bundle.network
    brief = keep_outputs(network, ANSWERS)
    assert len(brief) < len(network)
    session = onnxruntime.InferenceSession(brief, providers=["CPUExecutionProvider"])
    assert [output.name for output in session.get_outputs()] == list(ANSWERS)
    positions = np.asarray([[0.0, np.nan, 1.5], [np.nan, 2.0, 0.25]], np.float32)
    feed = {"columns": np.arange(3), "asked": np.asarray([4, 1]), "positions": positions}
    for whole, cut in zip(run(network, ANSWERS, feed), run(brief, ANSWERS, feed), strict=True):
        assert np.array_equal(whole, cut)


def test_keeping_everything_changes_nothing(predictor):
    session = onnxruntime.InferenceSession(predictor.bundle.network, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    assert keep_outputs(predictor.bundle.network, names) == predictor.bundle.network


@given(st.binary(max_size=60))
@settings(max_examples=300, deadline=None)
def test_bytes_that_are_no_message_are_refused(content):
    with suppress(ValueError):  # and nothing else
        keep_outputs(content, ANSWERS)


def test_a_cut_off_message_is_refused():
    with pytest.raises(ValueError, match="no whole protobuf message"):
        keep_outputs(b"\x3a\x7f\x01", ANSWERS)
