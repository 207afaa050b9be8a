"""A single row is answered without onnxruntime, and as onnxruntime answers it."""

from contextlib import suppress
from dataclasses import replace

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from model import row_network, session
from model.export import export_onnx
from model.folded import read_folded
from model.network import Shape
from model.row_network import RowNetwork, lay_out
from model.runtime import Predictor
from model.session import count_heads
from model.weights import read_weights
from model.wire import write_field
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
    """Columns, cells and questions; some rows hold what is asked, or hold a column twice, or one cell alone; some ask
    for a column twice.
    """
    rng = np.random.default_rng(3)
    for row in make_positions(schema, 60):
        columns = rng.choice(np.flatnonzero(~np.isnan(row)), size=rng.integers(1, N), replace=True)
        yield columns, row[columns], rng.choice(N, size=rng.integers(1, N + 1), replace=rng.random() < 0.2)


def test_a_row_is_answered_as_onnxruntime_answers_it(network):
    schema, content = network
    single = RowNetwork(read_folded(content), schema.features)
    for columns, positions, asked in draw_requests(schema):
        told = run(content, columns, positions[None], asked)
        logits, point = single.answer(columns, positions, asked)
        assert (logits.shape, point.shape) == (told["logits"].shape, told["point"].shape)
        assert (logits.dtype, point.dtype) == (np.float32, np.float32)
        assert logits == pytest.approx(told["logits"], abs=1e-5)
        assert point == pytest.approx(told["point"], abs=1e-5)


def test_where_only_means_are_wanted_words_have_their_logits_all_the_same(network):
    schema, content = network
    single = RowNetwork(read_folded(content), schema.features)
    for columns, positions, asked in draw_requests(schema):
        logits, point = single.answer(columns, positions, asked)
        brief_logits, brief_point = single.answer(columns, positions, asked, means_only=True)
        assert np.array_equal(brief_point, point)
        words = [not schema.features[feature].is_number for feature in asked]
        assert np.array_equal(brief_logits[:, words], logits[:, words])


def test_the_last_value_of_the_last_feature_is_read_within_the_tables(network):
    schema, content = network
    last = np.asarray([N - 1])
    top = np.asarray([schema.features[-1].n_values - 1], np.float32)
    answer = RowNetwork(read_folded(content), schema.features).answer(last, top, np.asarray([0]))
    assert answer[0] == pytest.approx(run(content, last, top[None], np.asarray([0]))["logits"], abs=1e-5)


def test_answering_writes_to_no_table(network):
    """Requests are answered in several threads."""
    schema, content = network
    single = RowNetwork(read_folded(content), schema.features)
    tables = [*single._rows, *(own for own in vars(single).values() if isinstance(own, np.ndarray))]
    assert len(tables) > len(schema.features)
    for table in tables:
        table.flags.writeable = False
    for columns, positions, asked in draw_requests(schema):
        for own in single.answer(columns, positions, asked):
            assert not any(np.shares_memory(own, table) for table in tables)


def test_a_row_alone_is_filled_and_predicted_as_among_others(predictor):
    assert predictor._network.row is not None
    row = {"weight": 3504.0, "cylinders": 8.0, "year": None, "origin": None, "mpg": None, "horsepower": None}
    one, two = ({name: [cell] * n for name, cell in row.items()} for n in (1, 2))
    alone, among = (predictor.impute(rows, brief=True) for rows in (one, two))
    assert list(alone.filled) == list(among.filled)
    for name, told in alone.filled.items():
        assert told.values[0] == pytest.approx(among.filled[name].values[0], rel=1e-5)
    for target in ("mpg", "origin", "year"):
        alone, among = (predictor.predict(rows, target, interval=0.9) for rows in (one, two))
        assert alone.mass[0] == pytest.approx(among.mass[0], abs=1e-5)


@pytest.fixture
def calls(predictor, monkeypatch):
    """How many rows were looked up instead of being run."""
    counted = []
    answer = RowNetwork.answer

    def count(self, *args, **options):
        counted.append(args)
        return answer(self, *args, **options)

    monkeypatch.setattr(RowNetwork, "answer", count)
    return counted


def test_single_rows_are_looked_up_and_all_others_are_run(predictor, calls):
    weight = {"weight": [3504.0]}
    predictor.predict(weight, "mpg")
    predictor.impute({**weight, "mpg": [None]}, brief=True)
    assert len(calls) == 2
    predictor.predict({"weight": [3504.0, 2000.0]}, "mpg")
    predictor.predict(weight, "mpg", explain=True)
    predictor.predict({"weight": [None]}, "mpg")
    predictor.impute({**weight, "mpg": [None], "origin": [None]})
    assert len(calls) == 2


def test_rows_of_many_holes_and_many_cells_are_run(predictor, calls, monkeypatch):
    rows = {"weight": [3504.0], "cylinders": [8.0], "mpg": [None]}
    monkeypatch.setattr(session, "MOST_PAIRS", 2)
    predictor.impute(rows, brief=True)
    assert len(calls) == 1
    monkeypatch.setattr(session, "MOST_PAIRS", 1)
    predictor.impute(rows, brief=True)
    assert len(calls) == 1


@pytest.mark.parametrize(("limit", "value"), [("MOST_FLOATS", 100), ("FEWEST_HEADS", 1000)])
def test_networks_too_large_to_lay_out_or_with_few_heads_are_left_to_onnxruntime(predictor, monkeypatch, limit, value):
    row = {"weight": [3504.0], "mpg": [None]}
    before = predictor.impute(row, brief=True)
    monkeypatch.setattr(row_network, limit, value)
    left = Predictor(predictor.bundle)
    assert left._network.row is None
    assert left.impute(row, brief=True).filled["mpg"].values == pytest.approx(before.filled["mpg"].values)


def test_bundles_of_before_had_heads_first_and_are_looked_up_all_the_same(predictor):
    model = onnx.load_model_from_string(predictor.bundle.network)
    tensor = next(tensor for tensor in model.graph.initializer if tensor.name == "pairs")
    heads_first = np.moveaxis(onnx.numpy_helper.to_array(tensor), -1, 0)
    tensor.CopyFrom(onnx.numpy_helper.from_array(np.ascontiguousarray(heads_first), "pair"))
    older = lay_out(replace(predictor.bundle, network=model.SerializeToString()), count_heads(predictor.bundle))
    every = np.arange(5)
    cells = np.asarray([0.5, 1.0, 0.0, 1.0, 0.25], np.float32)
    own = predictor._network.row.answer(every, cells, every)
    for one, other in zip(older.answer(every, cells, every), own, strict=True):
        assert np.array_equal(one, other)


def put_beside(bundle, name, array):
    """A graph that goes on with what it had under this name, where another array now has it."""
    model = onnx.load_model_from_string(bundle.network)
    for node in model.graph.node:
        node.input[:] = [f"own_{name}" if of == name else of for of in node.input]
    for tensor in model.graph.initializer:
        tensor.name = f"own_{name}" if tensor.name == name else tensor.name
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array), name))
    return replace(bundle, network=model.SerializeToString())


@pytest.mark.parametrize(
    ("name", "array"),
    [("query", np.ones(3, np.float32)), ("cell_slots", np.float32(1.0)), ("n_values", np.arange(2))],
)
def test_weights_of_another_form_are_left_to_onnxruntime(predictor, name, array):
    bundle = put_beside(predictor.bundle, name, array)
    assert lay_out(bundle, count_heads(bundle)) is None
    assert Predictor(bundle)._network.row is None


def test_a_file_whose_graph_says_other_than_its_tables_is_left_to_onnxruntime(predictor):
    """Even if only of words other than the first."""
    slots = read_weights(predictor.bundle.network)["cell_slots"].copy()
    k = predictor.schema.n_values
    for i, feature in enumerate(predictor.schema.features):
        if not feature.is_number:
            slots[i * k + 1 : (i + 1) * k] += 1.0
    bundle = put_beside(predictor.bundle, "cell_slots", slots)
    assert lay_out(bundle, count_heads(bundle)) is not None
    assert Predictor(bundle)._network.row is None
    row = {"weight": [3504.0], "origin": ["Japan"]}
    assert Predictor(bundle).predict(row, "mpg").values == pytest.approx(predictor.predict(row, "mpg").values)


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


@pytest.mark.parametrize(
    "dims",
    [b"\x08\x01" * 9, b"\x0a\x09" + b"\x01" * 9, b"\x09" + b"\x01" * 8],
    ids=["one by one", "packed", "no integers"],
)
def test_sizes_that_are_not_worth_multiplying_are_refused(dims):
    """A million large sizes took minutes."""
    tensor = onnx.numpy_helper.from_array(np.ones(1, np.float32), "query")
    tensor.ClearField("dims")
    message = dims + tensor.SerializeToString()
    for number in (5, 7):  # an initializer of a graph
        message = write_field(number, message)
    with pytest.raises(ValueError, match=r"dimensions|integers"):
        read_weights(message)


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
