"""The Open Inference Protocol: a real client (Triton's) against a real server, and bodies no client would send."""

import json
import random
import shutil
from datetime import date, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from model.bundle import write_manifest
from model.errors import TabglotError
from model.runtime import Predictor
from service.errors import ProblemError
from service.payloads import decoder
from service.routes.open_inference import INFER_EXAMPLE
from service.shapes import InferAnswer, OpenModel, OpenServer, ProblemDetails
from service.tensors import read_ask
from tests.conftest import run_training
from tests.server import RunningServer, running

ROWS = {
    "cylinders": [8.0, 4.0, 6.0, np.nan],
    "weight": [3504.0, 2130.0, np.nan, 2900.0],
    "horsepower": [130.0, np.nan, 100.0, 90.0],
}
INFER = "/v2/models/small/infer"


@pytest.fixture(scope="module")
def days_bundle(tmp_path_factory):
    """Kinds that cars do not have: a boolean and a datetime; and words beyond ASCII."""
    folder = tmp_path_factory.mktemp("days")
    rng = random.Random(0)
    lines = ["day,sunny,town,degrees"]
    for i in range(300):
        sunny, town = rng.random() < 0.5, rng.choice(["Bern", "Zürich", "Genève"])
        lines.append(
            f"{date(2024, 1, 1) + timedelta(i)},{str(sunny).lower()},{town},{10 + 5 * sunny + rng.random():.2f}"
        )
    (folder / "days.csv").write_text("\n".join(lines), encoding="utf-8")
    answer = run_training("fit", str(folder / "days.csv"), "--out", str(folder / "days"), "--epochs", "2")
    assert answer.returncode == 0, answer.stderr
    return folder / "days"


@pytest.fixture(scope="module")
def server(small_bundle, days_bundle, tmp_path_factory):
    """A server with small@1, which is active, small@2 and days@1."""
    home = tmp_path_factory.mktemp("open")
    again = shutil.copytree(small_bundle, home / "again")
    manifest = json.loads((again / "bundle.json").read_text())
    del manifest["seal"]
    (again / "bundle.json").write_bytes(write_manifest({**manifest, "created": "2030-01-01T00:00:00+00:00"}))
    bundles = map(str, (small_bundle, again, days_bundle))
    with running(home, "--bundle", *bundles, TABGLOT_MAX_ROWS="5000") as server:
        yield server


@pytest.fixture(scope="module")
def days(days_bundle):
    return Predictor.load(days_bundle)


@pytest.fixture
def triton(server):
    """Triton's own client."""
    from tritonclient.http import InferenceServerClient

    with InferenceServerClient(server.url.removeprefix("http://"), network_timeout=30) as client:
        yield client


def tensor(name: str, cells: list[Any], datatype: str = "FP64", **more: Any) -> dict[str, Any]:
    return {"name": name, "shape": [len(cells)], "datatype": datatype, "data": cells, **more}


def triton_input(name, cells, datatype="FP64", binary=True):
    from tritonclient.http import InferInput
    from tritonclient.utils import triton_to_np_dtype

    array = np.asarray(cells, dtype=triton_to_np_dtype(datatype))
    return InferInput(name, list(array.shape), datatype).set_data_from_numpy(array, binary_data=binary)


def infer(server, inputs, *, path=INFER, outputs=None, **parameters):
    body = {"inputs": inputs, "parameters": parameters, "outputs": outputs}
    return server.client.post(path, json={key: value for key, value in body.items() if value is not None})


def outputs_of(answer):
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    decoder(InferAnswer).read(answer.content)
    return {output["name"]: output for output in answer.json()["outputs"]}


def check_problem(answer, status, *texts):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = decoder(ProblemDetails).read(answer.content)
    for text in texts:
        assert text in problem.detail, problem.detail
    return problem


def test_a_client_finds_the_server_alive_and_its_models_ready(triton):
    from tritonclient.utils import InferenceServerException

    assert triton.is_server_live()
    assert triton.is_server_ready()
    assert triton.is_model_ready("small")
    assert triton.is_model_ready("small", "1")
    assert triton.is_model_ready("days")
    assert not triton.is_model_ready("small", "3")
    assert not triton.is_model_ready("smal")
    assert triton.get_server_metadata()["extensions"] == ["binary_tensor_data"]
    with pytest.raises(InferenceServerException, match="did you mean 'small'"):
        triton.get_model_metadata("smal")


def test_metadata_has_a_tensor_per_feature(triton, server, predictor):
    metadata = triton.get_model_metadata("small")
    assert metadata["name"] == "small"
    assert metadata["versions"] == ["1", "2"]
    assert metadata["platform"] == "tabglot"
    found = {one["name"]: (one["datatype"], one["shape"]) for one in metadata["inputs"]}
    assert list(found) == [feature.name for feature in predictor.schema.features]
    assert found["weight"] == found["cylinders"] == ("FP64", [-1])
    assert found["origin"] == ("BYTES", [-1])
    assert triton.get_model_metadata("small", "2") == metadata
    days_found = {one["name"]: one["datatype"] for one in triton.get_model_metadata("days")["inputs"]}
    assert days_found == {"day": "BYTES", "sunny": "BOOL", "town": "BYTES", "degrees": "FP64"}
    decoder(OpenModel).read(server.client.get("/v2/models/small").content)
    decoder(OpenServer).read(server.client.get("/v2").content)


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "json"])
@pytest.mark.parametrize("datatype", ["FP64", "FP32"])
def test_a_client_predicts_what_the_predictor_predicts(triton, predictor, binary, datatype):
    from tritonclient.http import InferRequestedOutput

    inputs = [triton_input(name, cells, datatype, binary) for name, cells in ROWS.items()]
    names = ("value", "median", "low", "high")
    wanted = None if binary else [InferRequestedOutput(name, binary_data=False) for name in names]
    answer = triton.infer(
        "small", inputs, outputs=wanted, request_id="a1", parameters={"target": "mpg", "interval": 0.8}
    )
    expected = predictor.predict(ROWS, "mpg", interval=0.8)
    assert answer.get_response()["id"] == "a1"
    assert (answer.get_response()["model_name"], answer.get_response()["model_version"]) == ("small", "1")
    assert [one["name"] for one in answer.get_response()["outputs"]] == list(names)
    newer = triton.infer("small", inputs, model_version="2", parameters={"target": "mpg"})
    assert newer.get_response()["model_version"] == "2"
    low, high = zip(*expected.interval, strict=True)
    for name, values in zip(names, (expected.values, expected.median, low, high), strict=True):
        assert answer.as_numpy(name).dtype == np.float64
        np.testing.assert_allclose(answer.as_numpy(name), values, atol=1e-6)


def test_numbers_may_come_in_any_datatype_and_as_a_column_vector(triton, predictor):
    weights, cylinders = [3504, 2130, 2900], [8, 4, 6]
    inputs = [triton_input("weight", weights, "INT64"), triton_input("cylinders", [[c] for c in cylinders], "UINT8")]
    answer = triton.infer("small", [*inputs, triton_input("mpg", [1, 2, 3], "FP16")], parameters={"target": "mpg"})
    expected = predictor.predict({"weight": weights, "cylinders": cylinders}, "mpg")
    np.testing.assert_allclose(answer.as_numpy("value"), expected.values, atol=1e-6)


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "json"])
def test_texts_come_and_go_as_bytes(triton, days, binary):
    towns, moments = ["Zürich", "", "Genève"], ["2024-05-01", "2024-07-09", ""]
    inputs = [triton_input("day", [m.encode() for m in moments], "BYTES", binary),
              triton_input("sunny", [True, False, True], "BOOL", binary)]  # fmt: skip
    answer = triton.infer("days", inputs, parameters={"target": "town"})
    rows = {"day": [m or None for m in moments], "sunny": [True, False, True]}
    expected = days.predict(rows, "town")
    assert [text.decode() for text in answer.as_numpy("value")] == expected.values
    np.testing.assert_allclose(answer.as_numpy("probability"), expected.probability, atol=1e-6)
    inputs.append(triton_input("town", [t.encode() for t in towns], "BYTES", binary))
    answer = triton.infer("days", inputs, parameters={"target": "degrees"})
    expected = days.predict({**rows, "town": [t or None for t in towns]}, "degrees")
    np.testing.assert_allclose(answer.as_numpy("value"), expected.values, atol=1e-6)


def test_booleans_and_datetimes_are_predicted_too(triton, server, days):
    inputs = [triton_input("degrees", [10.2, 15.7])]
    answer = triton.infer("days", inputs, parameters={"target": "sunny"})
    assert answer.as_numpy("value").dtype == np.bool_
    assert answer.as_numpy("value").tolist() == days.predict({"degrees": [10.2, 15.7]}, "sunny").values
    answer = triton.infer("days", inputs, model_version="1", parameters={"target": "day", "interval": 0.5})
    expected = days.predict({"degrees": [10.2, 15.7]}, "day", interval=0.5)
    assert [text.decode() for text in answer.as_numpy("value")] == expected.values
    assert [text.decode() for text in answer.as_numpy("high")] == [high for _, high in expected.interval]
    path = "/v2/models/days/infer"
    found = outputs_of(infer(server, [tensor("degrees", [10.2, 15.7])], path=path, target="sunny"))
    assert all(type(value) is bool for value in found["value"]["data"])
    with_nan = np.asarray([np.nan, np.nan], np.float32)
    answer = triton.infer("days", [triton_input("day", with_nan, "FP32")], parameters={"target": "sunny"})
    assert len(answer.as_numpy("value")) == 2


def test_whole_numbers_are_categories_both_ways(server, predictor):
    found = outputs_of(infer(server, [tensor("weight", [3504.0, 1900.0])], target="origin"))
    expected = predictor.predict({"weight": [3504.0, 1900.0]}, "origin")
    assert found["value"]["datatype"] == "BYTES"
    assert found["value"]["data"] == [str(value) for value in expected.values]
    known = [1, 3]
    for datatype, cells in (("INT32", known), ("BYTES", [str(word) for word in known]), ("FP32", [1.0, 3.0])):
        answer = infer(server, [tensor("origin", cells, datatype)], target="mpg")
        assert "parameters" not in answer.json(), "no category may be unknown"
        np.testing.assert_allclose(
            outputs_of(answer)["value"]["data"], predictor.predict({"origin": known}, "mpg").values, atol=1e-6
        )


def test_null_nan_and_nothing_are_all_missing(server, predictor):
    expected = predictor.predict({"weight": [3504.0, None], "cylinders": [None, 4]}, "mpg").values
    cells = [tensor("weight", [3504, None]), tensor("cylinders", [None, 4], "INT8")]
    np.testing.assert_allclose(outputs_of(infer(server, cells, target="mpg"))["value"]["data"], expected, atol=1e-6)
    body = json.dumps({"inputs": [tensor("weight", [3504, float("nan")]), tensor("cylinders", [None, 4])],
                       "parameters": {"target": "mpg"}})  # fmt: skip
    assert "NaN" in body
    found = outputs_of(server.client.post(INFER, content=body))
    np.testing.assert_allclose(found["value"]["data"], expected, atol=1e-6)
    nested = {"name": "weight", "shape": [2, 1], "datatype": "FP64", "data": [[3504], [None]]}
    found = outputs_of(infer(server, [nested, cells[1]], target="mpg"))
    np.testing.assert_allclose(found["value"]["data"], expected, atol=1e-6)


def test_a_table_names_columns_and_units(server, predictor):
    found = outputs_of(infer(server, [tensor("wt", [3.5])], target="mpg", table="mtcars", interval=0.9))
    expected = predictor.predict({"wt": [3.5]}, "mpg", table="mtcars", interval=0.9)
    ends = [(low, high) for low, high in zip(found["low"]["data"], found["high"]["data"], strict=True)]
    np.testing.assert_allclose(found["value"]["data"], expected.values, atol=1e-6)
    np.testing.assert_allclose(ends, expected.interval, atol=1e-6)


def test_many_rows_are_answered_in_pieces(triton, predictor):
    rng = np.random.default_rng(0)
    rows = {"weight": rng.uniform(1700, 5000, 5000), "horsepower": rng.uniform(50, 220, 5000)}
    inputs = [triton_input(name, cells) for name, cells in rows.items()]
    answer = triton.infer("small", inputs, parameters={"target": "cylinders"})
    expected = predictor.predict(rows, "cylinders")
    assert answer.as_numpy("value").tolist() == expected.values
    np.testing.assert_allclose(answer.as_numpy("probability"), expected.probability, atol=1e-6)
    assert {one["name"] for one in answer.get_response()["outputs"]} == {"value", "probability", "median"}


def test_no_rows_have_no_answers(server, triton):
    for datatype in ("FP64", "BYTES"):
        for target in ("mpg", "origin"):
            inputs = [tensor("weight", []), tensor("car_truck", [], "BYTES"), tensor("cylinders", [], datatype)]
            found = outputs_of(infer(server, inputs, target=target, interval=0.9))
            assert {tuple(one["shape"]) for one in found.values()} == {(0,)}
    answer = triton.infer("small", [triton_input("weight", [])], parameters={"target": "mpg"})
    assert answer.as_numpy("value").shape == (0,)


def test_only_the_outputs_that_were_asked_for_come_back_each_as_wanted(server):
    wanted = [{"name": "high", "parameters": {"binary_data": True}}, {"name": "value"}]
    answer = infer(server, [tensor("weight", [3504.0])], outputs=wanted, target="mpg", interval=0.9)
    size = int(answer.headers["inference-header-content-length"])
    assert answer.headers["content-type"] == "application/octet-stream"
    high, value = json.loads(answer.content[:size])["outputs"]
    assert (high["name"], high["parameters"]["binary_data_size"], value["name"]) == ("high", 8, "value")
    assert np.frombuffer(answer.content[size:], "<f8")[0] >= value["data"][0]


def test_warnings_come_as_a_parameter(server):
    inputs = [tensor("weight", [99999.0, 3000.0]), tensor("colour", ["red", "blue"], "BYTES")]
    answer = infer(server, inputs, target="mpg", unknown="ignore")
    shown = " ".join(answer.json()["parameters"]["warnings"])
    assert "'colour' ignored" in shown
    assert "clamped" in shown


def test_the_documented_example_is_answered(server):
    found = outputs_of(server.client.post(INFER, json=INFER_EXAMPLE))
    assert list(found) == ["value", "low"]
    document = server.client.get("/openapi.json").json()
    operations = [o for path, item in document["paths"].items() if path.startswith("/v2") for o in item.values()]
    assert len({o["operationId"] for o in operations}) == len(operations) == 9
    assert all(o["tags"] == ["open inference"] and o["summary"] for o in operations)


def test_rows_are_counted_under_the_declared_route(server):
    outputs_of(infer(server, [tensor("weight", [1.0e3])], target="mpg"))
    assert 'tabglot_rows_total{route="/v2/models/{name}/infer"}' in server.client.get("/metrics").text


WEIGHT = tensor("weight", [3504.0])


@pytest.mark.parametrize(
    ("inputs", "more", "text"),
    [
        ([WEIGHT], {}, "name the column to predict"),
        ([WEIGHT], {"target": 3}, "parameters.target"),
        ([WEIGHT], {"target": "mgp"}, "did you mean 'mpg'"),
        ([WEIGHT], {"target": "mpg", "tabel": "auto"}, "tabel"),
        ([WEIGHT], {"target": "mpg", "table": "autos"}, "did you mean 'auto'"),
        ([WEIGHT], {"target": "mpg", "interval": 1.5}, "interval must be"),
        ([WEIGHT], {"target": "mpg", "outputs": [{"name": "valu"}]}, "did you mean 'value'"),
        ([WEIGHT], {"target": "mpg", "outputs": [{"name": "low"}]}, "give parameters.interval"),
        ([WEIGHT], {"target": "origin", "outputs": [{"name": "median"}]}, "for a categorical target"),
        ([WEIGHT], {"target": "mpg", "outputs": [{"name": "value"}] * 2}, "twice"),
        ([WEIGHT], {"target": "mpg", "outputs": [{"name": "value", "parameters": {"classification": 2}}]}, "classific"),
        ([], {"target": "mpg"}, "inputs is empty"),
        ([WEIGHT, WEIGHT], {"target": "mpg"}, "two tensors of this name"),
        ([WEIGHT, tensor("horsepower", [1.0, 2.0])], {"target": "mpg"}, "'weight' has 1, 'horsepower' has 2"),
        ([tensor("wieght", [1.0])], {"target": "mpg"}, "did you mean 'weight'"),
        ([tensor("weight", [1.0], "FP46")], {"target": "mpg"}, "did you mean 'FP64'"),
        ([{**WEIGHT, "shape": [2]}], {"target": "mpg"}, "does not fit the 1 cells"),
        ([{**WEIGHT, "shape": []}], {"target": "mpg"}, "expected shape [N]"),
        ([{**WEIGHT, "shape": [-1]}], {"target": "mpg"}, "expected shape [N]"),
        ([{**WEIGHT, "shape": [1, 2], "data": [1, 2]}], {"target": "mpg"}, "expected shape [N]"),
        ([{**WEIGHT, "shape": [2], "data": [[1], [2]]}], {"target": "mpg"}, "got a list"),
        ([{**WEIGHT, "data": [[1, 2]]}], {"target": "mpg"}, "row 0, column 'weight': expected a number"),
        ([{**WEIGHT, "data": None}], {"target": "mpg"}, "either in data or as binary"),
        ([{**WEIGHT, "parameters": {"binary_data_size": 8}}], {"target": "mpg"}, "either in data or as binary"),
        ([{**WEIGHT, "parameters": {"binary_data_size": -8}}], {"target": "mpg"}, "binary_data_size"),
        ([{**WEIGHT, "parameters": {"shared_memory_region": "x"}}], {"target": "mpg"}, "shared memory"),
        ([tensor("weight", ["12"])], {"target": "mpg"}, "got text"),
        ([tensor("weight", ["12"], "BYTES")], {"target": "mpg"}, "which is text"),
        ([tensor("weight", [True], "BOOL")], {"target": "mpg"}, "expected a number"),
        ([tensor("weight", [1.5], "INT64")], {"target": "mpg"}, "got a fraction"),
        ([tensor("weight", [1, 128, None], "INT8")], {"target": "mpg"}, "row 1, column 'weight': beyond the range"),
        ([tensor("weight", [10**400])], {"target": "mpg"}, "not a finite number"),
        ([tensor("weight", [0.0] * 5001)], {"target": "mpg"}, "more than the 5000"),
    ],
)  # fmt: skip
def test_what_cannot_be_answered_is_said(server, inputs, more, text):
    check_problem(infer(server, inputs, **more), 422, text)


def send_binary(server, inputs, tail, length=None):
    head = json.dumps({"inputs": inputs, "parameters": {"target": "mpg"}}).encode()
    length = str(len(head)) if length is None else length
    return server.client.post(INFER, content=head + tail, headers={"Inference-Header-Content-Length": length})


def binary_tensor(name, n_rows, datatype, size):
    return {"name": name, "shape": [n_rows], "datatype": datatype, "parameters": {"binary_data_size": size}}


@pytest.mark.parametrize(
    ("given_tensor", "tail", "status", "text"),
    [
        (("weight", 1, "FP64", 8), b"1234", 400, "only 4 came"),
        (("weight", 1, "FP64", 4), b"1234", 400, "takes 8 bytes"),
        (("weight", 1, "FP64", 8), b"12345678910", 400, "3 bytes came after the last"),
        (("weight", 10**15, "FP64", 8), b"12345678", 422, "rows are more than"),
        (("car_truck", 1, "BYTES", 3), b"\1\0\0", 400, "end within the text of row 0"),
        (("car_truck", 2, "BYTES", 9), b"\1\0\0\0a\xff\xff\xff\xff", 400, "end within the text of row 1"),
        (("car_truck", 1, "BYTES", 6), b"\1\0\0\0ab", 400, "1 bytes are left"),
        (("car_truck", 1, "BYTES", 5), b"\1\0\0\0\xff", 422, "not UTF-8"),
        (("car_truck", 2, "BOOL", 2), b"\1\2", 422, "row 1, column 'car_truck': expected a byte 0 or 1"),
        (("weight", 1, "FP64", 8), np.float64(np.inf).tobytes(), 422, "not a finite number"),
    ],
)
def test_binary_tensors_that_cannot_be_read_are_named(server, given_tensor, tail, status, text):
    check_problem(send_binary(server, [binary_tensor(*given_tensor)], tail), status, text)


@pytest.mark.parametrize("length", ["-1", "x", "", "1e3", "99999999", "9" * 40])
def test_a_header_length_that_cannot_be_is_refused(server, length):
    check_problem(send_binary(server, [WEIGHT], b"", length), 400)


UNKNOWN_VERSIONS = [("small", "3"), ("small", "x"), ("small", "01"), ("small@1", "1")]


def test_bodies_that_are_not_the_protocol_are_refused(server):
    check_problem(send_binary(server, [WEIGHT], b"", "5"), 400, "not JSON")
    check_problem(server.client.post(INFER, content=b"{"), 400, "not JSON")
    check_problem(server.client.post(INFER, content=b"[]"), 422)
    check_problem(server.client.post(INFER, content=b'{"inputs": ' + b"[" * 100_000), 422)
    deep = b'{"inputs": [{"name": "a", "shape": [1], "datatype": "FP64", "data": ' + b"[" * 100_000
    check_problem(server.client.post(INFER, content=deep), 400)
    half = {"inputs": [WEIGHT], "parameters": {"target": "mpg"}, "id": "\ud800"}
    check_problem(server.client.post(INFER, content=json.dumps(half)), 400, "not Unicode")
    check_problem(server.client.post(INFER, content=b"a", headers={"content-type": "text/csv"}), 415, "text/csv")
    check_problem(server.client.post(INFER, content=b"a", headers={"content-encoding": "gzip"}), 415, "gzip")


@pytest.mark.parametrize("path", ["smal", *(f"{name}/versions/{v}" for name, v in UNKNOWN_VERSIONS)])
def test_unknown_models_are_not_found(server, path):
    check_problem(server.client.get(f"/v2/models/{path}"), 404, "no model")
    check_problem(server.client.get(f"/v2/models/{path}/ready"), 404)
    check_problem(infer(server, [WEIGHT], path=f"/v2/models/{path}/infer", target="mpg"), 404)


def test_an_empty_server_is_alive_but_not_ready(tmp_path):
    empty = RunningServer(tmp_path)
    try:
        assert empty.client.get("/v2/health/live").json() == {"live": True}
        check_problem(empty.client.get("/v2/health/ready"), 503, "no model is active")
        check_problem(empty.client.get("/v2/models/small/ready"), 404, "none is published yet")
    finally:
        empty.stop()


def test_a_model_whose_bundle_was_damaged_is_not_ready(tmp_path, days_bundle, small_bundle):
    with running(tmp_path, "--bundle", str(small_bundle), str(days_bundle)) as server:
        (tmp_path / "store" / "days@1" / "model.onnx").unlink()
        check_problem(server.client.get("/v2/models/days/ready"), 503, "model.onnx")
        assert server.client.get("/v2/models/small/ready").json() == {"name": "small", "ready": True}
        assert server.client.get("/v2/health/ready").json() == {"ready": True}


DATATYPES = st.sampled_from(["FP16", "FP32", "FP64", "INT8", "UINT16", "INT64", "BOOL", "BYTES", "FP8", ""])
NUMBERS = st.integers() | st.floats()
CELLS = st.none() | st.booleans() | NUMBERS | st.text(max_size=5) | st.lists(st.none(), max_size=2)
TENSORS = st.fixed_dictionaries(
    {"name": st.sampled_from(["weight", "origin", "cylinders", "car_truck", "?"]),
     "shape": st.lists(st.integers(-1, 3), max_size=3) | st.just([1]) | st.just([2, 1]), "datatype": DATATYPES},
    optional={"data": st.lists(CELLS, max_size=3),
              "parameters": st.fixed_dictionaries({"binary_data_size": st.integers(-1, 20)})},
)  # fmt: skip
BODIES = st.fixed_dictionaries(
    {"inputs": st.lists(TENSORS, max_size=3),
     "parameters": st.fixed_dictionaries({"target": st.sampled_from(["mpg", "origin"])})},
    optional={"outputs": st.lists(st.fixed_dictionaries({"name": st.sampled_from(["value", "low", "x"])}), max_size=2),
              "id": st.text(max_size=3) | st.integers()},
)  # fmt: skip


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=BODIES, tail=st.binary(max_size=40))
def test_no_request_breaks_the_server(server, body, tail):
    head = json.dumps(body).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))}
    answer = server.client.post(INFER, content=head + tail, headers=headers)
    assert answer.status_code in (200, 400, 422), answer.text
    if answer.status_code != 200:
        check_problem(answer, answer.status_code)


CELLS_OF = {
    "FP32": st.none() | st.floats(width=32),
    "INT16": st.none() | st.integers(-(2**15), 2**15 - 1),
    "BOOL": st.none() | st.booleans(),
    "BYTES": st.none() | st.text(max_size=5) | st.sampled_from(["1", "3", "car", " "]),
}
COLUMNS = st.dictionaries(
    st.sampled_from(["weight", "origin", "cylinders", "car_truck", "mpg"]),
    st.one_of(*[st.tuples(st.lists(cells, min_size=2, max_size=2), st.just(name)) for name, cells in CELLS_OF.items()]),
    min_size=1,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(columns=COLUMNS, target=st.sampled_from(["mpg", "origin", "cylinders"]))
def test_well_formed_tensors_are_answered_or_their_cells_named(server, columns, target):
    inputs = [tensor(name, *column) for name, column in columns.items()]
    body = json.dumps({"inputs": inputs, "parameters": {"target": target}})
    answer = server.client.post(INFER, content=body)
    if answer.status_code == 200:
        assert {len(one["data"]) for one in outputs_of(answer).values()} == {2}
    else:
        problem = check_problem(answer, 422)
        assert {fault.column for fault in problem.errors} <= set(columns)
        assert {fault.row for fault in problem.errors} <= {0, 1}


@settings(max_examples=300, deadline=None)
@given(tail=st.binary(max_size=60), sizes=st.lists(st.integers(0, 30), min_size=1, max_size=3),
       n_rows=st.integers(0, 6), datatypes=st.lists(DATATYPES, min_size=3, max_size=3))  # fmt: skip
@example(tail=b"\2\0\0\0ab" + b"\0" * 4, sizes=[10], n_rows=2, datatypes=["BYTES"] * 3)
def test_any_bytes_are_read_or_refused(tail, sizes, n_rows, datatypes):
    inputs = [binary_tensor(f"c{i}", n_rows, datatypes[i], size) for i, size in enumerate(sizes)]
    head = json.dumps({"inputs": inputs}).encode()
    try:
        _, columns, found = read_ask(head + tail, len(head), 100)
    except (ProblemError, TabglotError):
        return
    assert found == n_rows
    assert {len(cells) for cells in columns.values()} == {n_rows}
