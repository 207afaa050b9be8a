"""Cut an ONNX network down to some of its outputs, so that nothing is computed that nobody asked for.

Works on the file's bytes, because serving has no onnx package: fields that are not looked into are passed on untouched.
"""

from collections.abc import Collection

from model.wire import read_fields, write_field

# Field numbers of onnx.proto: ModelProto.graph; GraphProto.node, .initializer, .output;
# NodeProto.input, .output; TensorProto.name; ValueInfoProto.name.
GRAPH = 7
NODE, INITIALIZER, OUTPUT = 1, 5, 12
NODE_INPUT, NODE_OUTPUT = 1, 2
TENSOR_NAME, VALUE_NAME = 8, 1

# Where weights can be: the kind of message that a field of a message holds.
HOLDS = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {},
}
EXTERNAL_DATA = 13


def points_outside(message: bytes | memoryview, kind: str = "model") -> bool:
    """Whether any weights are to be read from another file, which would be looked for in the working directory."""
    holds = HOLDS[kind]
    for number, content, _ in read_fields(memoryview(message)):
        if kind == "tensor" and number == EXTERNAL_DATA:
            return True
        if number in holds and content is not None and points_outside(content, holds[number]):
            return True
    return False


def keep_outputs(network: bytes, wanted: Collection[str]) -> bytes:
    """The same network with only the ``wanted`` outputs, and only the nodes and weights these need."""
    return b"".join(
        write_field(GRAPH, _prune_graph(content, wanted)) if number == GRAPH and content is not None else raw
        for number, content, raw in read_fields(memoryview(network))
    )


def _prune_graph(graph: memoryview, wanted: Collection[str]) -> bytes:
    fields = list(read_fields(graph))
    needed = {name.encode() for name in wanted}
    kept: set[int] = set()
    for i in range(len(fields) - 1, -1, -1):  # nodes come in the order in which they run
        number, content, _ = fields[i]
        if number == NODE and content is not None and needed.intersection(_strings(content, NODE_OUTPUT)):
            kept.add(i)
            needed.update(_strings(content, NODE_INPUT))
    return b"".join(
        raw for i, (number, content, raw) in enumerate(fields) if i in kept or _stays(number, content, needed)
    )


def _stays(number: int, content: memoryview | None, needed: Collection[bytes]) -> bool:
    """Weights and outputs stay if they are needed, nodes were judged before, all else stays."""
    if number in (INITIALIZER, OUTPUT) and content is not None:
        name = TENSOR_NAME if number == INITIALIZER else VALUE_NAME
        return any(text in needed for text in _strings(content, name))
    return number != NODE


def _strings(message: memoryview, wanted: int) -> list[bytes]:
    return [bytes(content) for number, content, _ in read_fields(message) if number == wanted and content is not None]
