"""A single row is answered without onnxruntime, and as onnxruntime answers it."""

from contextlib import suppress
from dataclasses import replace

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from model import row_network
from model.export import export_onnx
from model.folded import read_folded
from model.network import Shape
from model.row_network import RowNetwork, lay_out
from model.runtime import Predictor
from model.session import open_network
from model.weights import read_weights
from tests.conftest import make_positions, make_schema
from tests.test_beliefs import draw_beliefs
from tests.test_export import run
from tests.test_network import make_network

N = 10


@pytest.fixture(scope="module", params=["alike", "believing"])
def network(request):
    schema = make_schema(6, 4)
    fitted = make_network(schema, Shape(n_members=3, n_heads=2, d_head=4, half_additive=True))
    if request.param == "believing":
        fitted.beliefs.copy_(torch.from_numpy(draw_beliefs(N)))
    return schema, export_onnx(fitted, schema.digest())


def draw_requests(schema):
    """Columns, cells and questions; some rows hold what is asked, or hold a column twice, or one cell alone."""
    rng = np.random.default_rng(3)
    for row in make_positions(schema, 60):
        columns = rng.choice(np.flatnonzero(~np.isnan(row)), size=rng.integers(1, N), replace=True)
        yield columns, row[columns], rng.permutation(N)[: rng.integers(1, N + 1)]


def test_a_row_is_answered_as_onnxruntime_answers_it(network):
    schema, content = network
    row_network = RowNetwork(read_folded(content), schema.features)
    for columns, positions, asked in draw_requests(schema):
        told = run(content, columns, positions[None], asked)
        logits, point = row_network.answer(columns, positions, asked)
        assert (logits.shape, point.shape) == (told["logits"].shape, told["point"].shape)
        assert (logits.dtype, point.dtype) == (np.float32, np.float32)
        assert logits == pytest.approx(told["logits"], abs=1e-5)
        assert point == pytest.approx(told["point"], abs=1e-5)


def test_where_only_means_are_wanted_words_have_their_logits_all_the_same(network):
    schema, content = network
    row_network = RowNetwork(read_folded(content), schema.features)
    for columns, positions, asked in draw_requests(schema):
        logits, point = row_network.answer(columns, positions, asked)
        brief_logits, brief_point = row_network.answer(columns, positions, asked, means_only=True)
        assert np.array_equal(brief_point, point)
        words = [not schema.features[feature].is_number for feature in asked]
        assert np.array_equal(brief_logits[:, words], logits[:, words])


def test_the_last_value_of_the_last_feature_is_read_within_the_tables(network):
    schema, content = network
    last = np.asarray([N - 1])
    top = np.asarray([schema.features[-1].n_values - 1], np.float32)
    answer = RowNetwork(read_folded(content), schema.features).answer(last, top, np.asarray([0]))
    assert answer[0] == pytest.approx(run(content, last, top[None], np.asarray([0]))["logits"], abs=1e-5)


def test_a_row_alone_is_filled_and_predicted_as_among_others(predictor):
    assert predictor._network.row is not None
    row = {"weight": 3504.0, "cylinders": 8.0, "year": None, "origin": None, "mpg": None, "horsepower": None}
    one, two = ({name: [cell] * n for name, cell in row.items()} for n in (1, 2))
    for brief in (False, True):
        alone, among = (predictor.impute(rows, brief=brief) for rows in (one, two))
        assert list(alone.filled) == list(among.filled)
        for name, told in alone.filled.items():
            assert told.values[0] == pytest.approx(among.filled[name].values[0], rel=1e-5)
    for target in ("mpg", "origin", "year"):
        alone, among = (predictor.predict(rows, target, interval=0.9) for rows in (one, two))
        assert alone.mass[0] == pytest.approx(among.mass[0], abs=1e-5)


def test_tables_too_large_to_lay_out_are_left_to_onnxruntime(predictor, monkeypatch):
    row = {"weight": [3504.0], "mpg": [None]}
    before = predictor.impute(row, brief=True)
    monkeypatch.setattr(row_network, "MOST_FLOATS", 100)
    assert lay_out(predictor.bundle) is None
    wide = Predictor(predictor.bundle)
    assert wide._network.row is None
    assert wide.impute(row, brief=True).filled["mpg"].values == pytest.approx(before.filled["mpg"].values)


def test_a_file_whose_graph_says_other_than_its_tables_is_left_to_onnxruntime(predictor):
    model = onnx.load_model_from_string(predictor.bundle.network)
    doubled = onnx.helper.make_node("Add", ["point_once", "point_once"], ["point"])
    for i, node in enumerate(model.graph.node):
        if "point" in node.output:
            node.output[0] = "point_once"
            model.graph.node.insert(i + 1, doubled)
            break
    bundle = replace(predictor.bundle, network=model.SerializeToString())
    assert lay_out(bundle) is not None
    assert open_network(bundle, threads=1).row is None


def test_weights_are_read_as_the_onnx_package_reads_them(predictor):
    content = predictor.bundle.network
    known = {
        tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in onnx.load_from_string(content).graph.initializer
    }
    arrays = read_weights(content)
    assert arrays.keys() == known.keys()
    for name, array in arrays.items():
        assert array.dtype == known[name].dtype
        assert np.array_equal(array, known[name])


def test_other_kinds_of_arrays_are_passed_over():
    """Doubles, and floats that are not kept as raw bytes."""
    tensors = [
        onnx.numpy_helper.from_array(np.ones(2), "doubles"),
        onnx.helper.make_tensor("listed", onnx.TensorProto.FLOAT, [2], [1.0, 2.0]),
        onnx.numpy_helper.from_array(np.ones((2, 0), np.float32), "nothing"),
    ]
    graph = onnx.helper.make_graph([], "weights", [], [], initializer=tensors)
    arrays = read_weights(onnx.helper.make_model(graph).SerializeToString())
    assert {name: array.shape for name, array in arrays.items()} == {"nothing": (2, 0)}


def test_a_weight_that_is_not_whole_is_refused():
    tensor = onnx.numpy_helper.from_array(np.ones(4, np.float32), "query")
    tensor.dims[0] = 5
    graph = onnx.helper.make_graph([], "weights", [], [], initializer=[tensor])
    with pytest.raises(ValueError, match="'query' does not hold as many numbers"):
        read_weights(onnx.helper.make_model(graph).SerializeToString())


@given(st.binary(max_size=40))
@settings(max_examples=300, deadline=None)
def test_bytes_that_are_no_weights_are_refused(content):
    tensor = b"\x2a" + bytes([len(content)]) + content
    for message in (content, b"\x3a" + bytes([len(tensor)]) + tensor):
        with suppress(ValueError):  # and nothing else
            read_weights(message)
