"""The graph of model.onnx, in ONNX's own text form, and how weights are put into it.

Written by hand, not traced: a fitted network folds into a few lookup tables, the graph over them has
some forty nodes, building it takes milliseconds, and the same weights always give the same bytes. Tables that were
read back (model.folded) are written in the same way.

Axis letters: B rows, S columns, Q questions, K values, G heads (of all members), W width of a head.
"""

from collections.abc import Mapping

import numpy as np
import onnx
from numpy.typing import NDArray

from model.folded import Folded
from model.onnx_names import CONTRACT

OPSET = 20
IR_VERSION = 10

# Cells to keys and values, then the gates. A cell lies between its slot and the next one; a missing
# cell is read at slot 0 and then shut out. `pairs` (asked, heard, 2 G) holds the gate's bias less the masked
# cell's own score, and after it how much the presence of each column lowers that score: the masked cell's own
# gate closes as more is known. A cell of the very feature that is asked for is shut there too. Heads come last
# in it, since runs of numbers are gathered far quicker than single ones. Values end in a constant 1, so that
# what is mixed ends in the sum of the gates: with it the last product takes away what the masked cell would
# have said itself.
# Every node costs a microsecond of a single row: there are as few as can be.
ATTENTION = """
  missing = IsNaN(positions)
  filled = Where(missing, zero, positions)
  low = Floor(filled)
  part_2 = Sub(filled, low)
  part = Unsqueeze(part_2, at_end)
  low_int = Cast<to = 7>(low)
  first = Mul(columns, n_values)
  slot = Add(low_int, first)
  next = Add(slot, one_int)
  cell_low = Gather<axis = 0>(cell_slots, slot)
  cell_next = Gather<axis = 0>(cell_slots, next)
  cell_step = Sub(cell_next, cell_low)
  cell_part = Mul(cell_step, part)
  cell_flat = Add(cell_low, cell_part)
  cell_heads = Reshape(cell_flat, split_heads)
  cells = Transpose<perm = [0, 2, 1, 3]>(cell_heads)
  keys, values = Split<axis = -1>(cells, widths)
  keys_down = Transpose<perm = [0, 1, 3, 2]>(keys)
  query_g = Gather<axis = 1>(query, asked)
  scores_raw = MatMul(query_g, keys_down)
  pairs_q = Gather<axis = 0>(pairs, asked)
  pairs_s = Gather<axis = 1>(pairs_q, columns)
  pair_l, presence = Split<axis = -1>(pairs_s, halves)
  pair_g = Transpose<perm = [2, 0, 1]>(pair_l)
  scores = Add(scores_raw, pair_g)
  shut = Where(missing, floor, zero)
  shut_wide = Unsqueeze(shut, at_middle)
  scores_open = Add(scores, shut_wide)
  there = Where(missing, zero, one)
  own_l = MatMul(there, presence)
  own_g = Transpose<perm = [1, 2, 0]>(own_l)
  own_score = Unsqueeze(own_g, at_end)
  scores_all = Concat<axis = -1>(scores_open, own_score)
  gates_all = Softmax<axis = -1>(scores_all)
  heard = Slice(gates_all, zero_list, minus_one, minus_one)
  {BELIEVE}
  mixed = MatMul({HEARD}, values)
  mixed_q = Transpose<perm = [2, 0, 1, 3]>(mixed)
  state = Reshape(mixed_q, join_heads)
  gates_sum = ReduceSum<keepdims = 0>(heard, one_list)
  gates = Mul(gates_sum, per_member)
"""

# Where columns are believed more or less than their gates say, (asked, heard).
BELIEVE = """beliefs_q = Gather<axis = 0>(beliefs, asked)
  beliefs_s = Gather<axis = 1>(beliefs_q, columns)
  believed = Mul(heard, beliefs_s)"""

# The linear form: a constant per question plus what each column adds to it.
MOE = """
  rows_q = Gather<axis = 0>(rows, asked)
  base_q = Gather<axis = 0>(base_table, asked)
  added = MatMul(state, rows_q)
  out_q = Add(added, base_q)
  out = Transpose<perm = [1, 0, 2]>(out_q)
  logits = Slice(out, zero_list, minus_one, minus_one)
  point = Gather<axis = -1>(out, last)
  base_flat = Squeeze(base_q, one_list)
  base = Slice(base_flat, zero_list, minus_one, minus_one)
  point_base = Gather<axis = -1>(base_flat, last)
  values_wide = Unsqueeze(values, two_list)
  heard_wide = Unsqueeze({HEARD}, at_end)
  weighted = Mul(heard_wide, values_wide)
  weighted_q = Transpose<perm = [2, 0, 3, 1, 4]>(weighted)
  experts = Reshape(weighted_q, join_experts)
  rows_wide = Unsqueeze(rows_q, one_list)
  parts_q = MatMul(experts, rows_wide)
  parts = Transpose<perm = [1, 0, 2, 3]>(parts_q)
  contributions = Slice(parts, zero_list, minus_one, minus_one)
  point_contributions = Gather<axis = -1>(parts, last)
"""

# The reference network: projection and residual, norm, feed-forward, norm, shared head.
PAPER = """
  rest_q = Gather<axis = 0>(rest, asked)
  rest_down = Unsqueeze(rest_q, one_list)
  out_weight_q = Gather<axis = 0>(out_weight, asked)
  projected = MatMul(state, out_weight_q)
  residual = Add(projected, rest_down)
  normal = LayerNormalization<axis = -1, epsilon = 1e-6>(residual, norm_scale_0, norm_shift_0)
  feed_1 = MatMul(normal, feed_in_weight)
  feed_2 = Add(feed_1, feed_in_bias)
  feed_3 = Relu(feed_2)
  feed_4 = MatMul(feed_3, feed_out_weight)
  feed_5 = Add(feed_4, feed_out_bias)
  fed = Add(normal, feed_5)
  final = LayerNormalization<axis = -1, epsilon = 1e-6>(fed, norm_scale_1, norm_shift_1)
  rows_q = Gather<axis = 0>(rows, asked)
  bias_q = Gather<axis = 0>(head_bias, asked)
  bias_down = Unsqueeze(bias_q, one_list)
  read = MatMul(final, rows_q)
  logits_q = Add(read, bias_down)
  logits = Transpose<perm = [1, 0, 2]>(logits_q)
  probabilities = Softmax<axis = -1>(logits)
  standard_q = Gather<axis = 0>(standard, asked)
  expected = Mul(probabilities, standard_q)
  point = ReduceSum<keepdims = 0>(expected, minus_one)
"""

SIGNATURE = "(int64[columns] columns, float[rows,columns] positions, int64[questions] asked)"
OUTPUTS = {
    "logits": "float[rows,questions,{k}] logits",
    "point": "float[rows,questions] point",
    "gates": "float[rows,questions,columns] gates",
    "contributions": "float[rows,questions,columns,{k}] contributions",
    "point_contributions": "float[rows,questions,columns] point_contributions",
    "base": "float[questions,{k}] base",
    "point_base": "float[questions] point_base",
}


def build_model(
    body: str,
    outputs: tuple[str, ...],
    weights: Mapping[str, NDArray[np.float32]],
    sizes: Mapping[str, int],
    digest: str,
) -> bytes:
    """A complete model.onnx: ATTENTION, then ``body``, over the given weights, ``beliefs`` among them if need be."""
    names = {"BELIEVE": BELIEVE, "HEARD": "believed"} if "beliefs" in weights else {"BELIEVE": "", "HEARD": "heard"}
    nodes = (ATTENTION + body).format(**names)
    given = ", ".join(OUTPUTS[name].format(k=sizes["n_values"]) for name in outputs)
    text = (
        f'<ir_version: {IR_VERSION}, opset_import: ["" : {OPSET}], producer_name: "tabglot">\n'
        f"answer {SIGNATURE} => ({given}) {{{nodes}}}"
    )
    model = onnx.parser.parse_model(text)
    used = {name for node in model.graph.node for name in node.input}
    constants = {name: array for name, array in _constants(sizes).items() if name in used}
    for name, array in {**constants, **weights}.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(array, order="C"), name))
    onnx.helper.set_model_props(model, {"schema": digest})
    onnx.checker.check_model(model, full_check=True)
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def write_folded(folded: Folded, digest: str) -> bytes:
    """The content of model.onnx; ``digest``, the schema's fingerprint, travels in its metadata."""
    f, k, g, w = folded.n_features, folded.n_values, folded.n_heads, folded.d_head
    cells = np.concatenate([folded.cells, np.ones((f, k, g, 1), np.float32)], axis=-1).reshape(f * k, -1)
    arrays = {
        # A row after the last slot: the last value's cells look one further, with weight 0.
        "cell_slots": np.concatenate([cells, np.zeros_like(cells[:1])]),
        "query": folded.query,
        "pairs": np.moveaxis(np.concatenate([folded.pair, folded.presence]), 0, -1),
        "rows": folded.rows.reshape(f, g * (w + 1), k + 1),
        "base_table": folded.base[:, None],
        **({"beliefs": folded.beliefs} if (folded.beliefs != 1.0).any() else {}),
    }
    sizes = {"n_values": k, "n_heads": g, "d_head": w, "n_members": folded.n_members}
    return build_model(MOE, CONTRACT[True], arrays, sizes, digest)


def _constants(sizes: Mapping[str, int]) -> dict[str, NDArray[np.generic]]:
    heads, width = sizes["n_heads"], sizes["d_head"]
    integers = {
        "n_values": sizes["n_values"],
        "one_int": 1,
        "last": sizes["n_values"],
        "at_end": [-1],
        "at_middle": [1, 2],
        "zero_list": [0],
        "one_list": [1],
        "two_list": [2],
        "minus_one": [-1],
        "halves": [heads, heads],
        "split_heads": [0, 0, heads, 2 * width + 1],
        "widths": [width, width + 1],
        "join_heads": [0, 0, heads * (width + 1)],
        "join_experts": [0, 0, 0, heads * (width + 1)],
    }
    floats = {"zero": 0.0, "one": 1.0, "floor": -1e9, "per_member": 1.0 / sizes["n_members"]}
    return {
        **{name: np.asarray(value, dtype=np.int64) for name, value in integers.items()},
        **{name: np.asarray(value, dtype=np.float32) for name, value in floats.items()},
    }
