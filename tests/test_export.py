"""model.onnx against torch: the same answers, and contributions that add up."""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from model.export import check_parity, export_onnx
from model.layout import Layout
from model.network import Shape
from model.paper import PaperNetwork
from tests.conftest import make_positions, make_schema
from tests.test_network import make_network, shake


@pytest.fixture(scope="module")
def moe():
    schema = make_schema(6, 4)
    n = len(schema.features)
    company = (np.random.default_rng(3).random((n, n)) < 0.8).astype(np.float32)
    shape = Shape(n_members=3, n_heads=4, d_head=4, half_additive=True, half_steady=True)
    network = make_network(schema, shape, company)
    network.voices.uniform_(0.5, 1.5)
    network.steadied[:3] = True
    return schema, network, export_onnx(network, schema.digest())


def run(content: bytes, columns, positions, asked) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    feed = {"columns": np.asarray(columns), "positions": positions, "asked": np.asarray(asked)}
    return dict(zip(names, session.run(None, feed), strict=True))


@pytest.mark.parametrize(("n_rows", "columns"), [(1, [0]), (1, [9, 2, 4]), (17, [0, 1, 2, 3]), (5, list(range(10)))])
def test_onnx_equals_torch_for_any_rows_columns_and_questions(moe, n_rows, columns):
    schema, network, content = moe
    positions = make_positions(schema, n_rows)[:, columns]
    for asked in ([3], [0, 9, 5], list(range(10))):
        got = run(content, columns, positions, asked)
        rows = torch.from_numpy(positions).expand(3, -1, -1)
        want = network(torch.tensor(columns), rows, torch.tensor(asked))
        real = network.layout.real[asked].numpy()
        assert np.abs(got["logits"] - want.logits.mean(0).permute(2, 0, 1).detach().numpy())[:, real].max() < 1e-5
        assert np.abs(got["point"] - want.point.mean(0).T.detach().numpy()).max() < 1e-5
        gates = want.gates[:, :, :, :-1].sum(1).mean(0).permute(2, 0, 1).detach().numpy()
        assert np.abs(got["gates"] - gates).max() < 1e-5


def test_contributions_and_constant_add_up_to_the_logits(moe):
    schema, network, content = moe
    positions = make_positions(schema, 20, missing=0.4)
    every = list(range(10))
    got = run(content, every, positions, every)
    real = network.layout.real.numpy()
    total = got["base"] + got["contributions"].sum(axis=2)
    assert np.abs(total - got["logits"])[:, real].max() < 1e-5
    assert np.abs(got["point_base"] + got["point_contributions"].sum(axis=2) - got["point"]).max() < 1e-5
    missing = np.isnan(positions)[:, None, :, None] & np.ones((1, 10, 1, schema.n_values), bool)
    assert np.abs(got["contributions"][missing]).max() == 0.0


def test_a_row_with_nothing_observed_gives_the_constant_alone(moe):
    _, network, content = moe
    got = run(content, [0, 1], np.full((2, 2), np.nan, np.float32), [4, 7])
    real = network.layout.real[[4, 7]].numpy()
    assert np.isfinite(got["logits"]).all()
    assert np.abs(got["logits"] - got["base"])[:, real].max() < 1e-6


def test_the_reference_network_is_exported_too():
    schema = make_schema(4, 3)
    torch.manual_seed(0)
    network = PaperNetwork(Layout([schema], 1), Shape(n_members=1, n_heads=5, d_head=4)).eval()
    shake(network)
    content = export_onnx(network, schema.digest())
    assert check_parity(network, content, [(np.arange(7), make_positions(schema, 12))]) < 1e-5


def test_the_file_is_self_contained_and_the_same_for_the_same_weights(moe):
    schema, network, content = moe
    model = onnx.load_from_string(content)
    assert all(tensor.data_location != onnx.TensorProto.EXTERNAL for tensor in model.graph.initializer)
    assert export_onnx(network, schema.digest()) == content


def test_parity_check_refuses_a_file_of_other_weights(moe):
    schema, _, content = moe
    other = make_network(schema, Shape(n_members=3, n_heads=4, d_head=4))
    shake(other)
    with pytest.raises(RuntimeError, match="differ by"):
        check_parity(other, content, [(np.arange(10), make_positions(schema, 3))])
