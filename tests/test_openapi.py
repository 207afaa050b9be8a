"""The OpenAPI document: every route is in it, whole, and its examples are true."""

import msgspec
import pytest

from service import match_shapes, shapes, table_shapes


@pytest.fixture(scope="module")
def document(client):
    return client.get("/openapi.json").json()


@pytest.fixture(scope="module")
def operations(document):
    return {
        (method, path): operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


def test_every_operation_has_an_id_a_summary_a_tag_and_declares_its_errors(operations):
    ids = [operation["operationId"] for operation in operations.values()]
    assert len(set(ids)) == len(ids)
    for (method, path), operation in operations.items():
        assert operation["summary"], path
        assert operation["tags"], path
        assert {"401", "500"} <= set(operation["responses"]), path
        problems = {status for status in operation["responses"] if int(status) >= 400}
        for status in problems:
            assert "application/problem+json" in operation["responses"][status]["content"], (method, path, status)


ADDRESSES = """
/ /predict /impute /audit /encodings /encodings/similar /encodings/matches /encodings/map /encodings/analogy
/models /models/{model} /models/active /schemas /schemas/{table} /columns /health/live /health/ready /metrics /limits
/v2 /v2/health/live /v2/health/ready /v2/models/{name} /v2/models/{name}/ready /v2/models/{name}/infer
/v2/models/{name}/versions/{version} /v2/models/{name}/versions/{version}/ready
/v2/models/{name}/versions/{version}/infer
"""


def test_the_contracts_addresses_are_all_there(document):
    assert set(document["paths"]) == set(ADDRESSES.split())


def test_every_reference_leads_somewhere(document):
    def references(node):
        if isinstance(node, dict):
            if "$ref" in node:
                yield node["$ref"]
            node = list(node.values())
        if isinstance(node, list):
            for item in node:
                yield from references(item)

    for reference in set(references(document)):
        name = reference.removeprefix("#/components/schemas/")
        assert name in document["components"]["schemas"], reference


def test_request_examples_get_an_answer(client, operations):
    asked = 0
    for (method, path), operation in operations.items():
        content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
        if "example" not in content or path.startswith("/v2"):
            continue
        example = content["example"]
        if path == "/models/active":
            example = {"model": "small@1"}
        answer = client.request(method, path.replace("{table}", "example"), json=example)
        assert answer.status_code == 200, (path, answer.text)
        asked += 1
    assert asked >= 6


def test_answer_examples_have_the_declared_shape(operations):
    for (_, path), operation in operations.items():
        for status, answer in operation["responses"].items():
            content = answer.get("content", {}).get("application/json", {})
            if int(status) < 300 and "example" in content and "$ref" in content["schema"]:
                name = content["schema"]["$ref"].rpartition("/")[2]
                kind = next(vars(m)[name] for m in (shapes, match_shapes, table_shapes) if name in vars(m))
                assert msgspec.convert(content["example"], kind), path


def test_with_keys_the_document_says_so(tmp_path):
    from service.app import create_app
    from service.settings import Settings

    app = create_app(Settings(registry=f"sqlite:///{tmp_path / 'r.db'}", store=tmp_path / "b", api_keys=("secret",)))
    schema = app.api.openapi()
    assert schema["security"] == [{"key": []}]
    assert "secret" not in str(schema)
