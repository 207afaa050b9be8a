"""Network to model.onnx: folded into lookup tables, self-contained, checked against torch on real rows.

Keys and values depend on a cell's (feature, value) slot alone and are linear between slots, so both are
tabulated. The mean of M members with H heads each is one network with G = M * H heads.
Axis letters as in model.network, and G.
"""

import copy
from collections.abc import Iterable

import numpy as np
import onnxruntime
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from model.attention import CLOSED, split_heads
from model.codec import Positions
from model.graphs import MOE, PAPER, build_model
from model.network import MoeNetwork
from model.onnx_names import CONTRACT
from model.paper import PaperNetwork

# The largest difference between torch and onnxruntime that rounding can explain, of values up to 1.
TOLERANCE = 1e-5


@torch.no_grad()
def export_onnx(network: MoeNetwork | PaperNetwork, digest: str) -> bytes:
    """The content of model.onnx; ``digest``, the schema's fingerprint, travels in its metadata."""
    # Folded in double precision: products of products would lose a digit in single.
    network = copy.deepcopy(network).cpu().double().eval()
    is_moe = isinstance(network, MoeNetwork)
    weights = _fold_moe(network) if isinstance(network, MoeNetwork) else _fold_paper(network)
    sizes = {
        "n_values": network.layout.word.shape[1],
        "n_heads": network.shape.n_members * network.shape.n_heads,
        "d_head": network.shape.d_head,
        "n_members": network.shape.n_members,
    }
    arrays = {name: tensor.numpy().astype(np.float32) for name, tensor in weights.items()}
    return build_model(MOE if is_moe else PAPER, CONTRACT[is_moe], arrays, sizes, digest)


def _fold_attention(
    network: MoeNetwork | PaperNetwork,
    projected: tuple[Tensor, Tensor, Tensor, Tensor],
    pair: Tensor,
    presence: Tensor,
) -> dict[str, Tensor]:
    """Tables for the part both networks share; ``projected``: keys and values of all slots
    (M, F, K, D), then query and key of all masked cells (M, F, D); ``pair``, ``presence`` (M, H, F, F).
    """
    h = network.shape.n_heads
    keys, values = (split_heads(p, h).flatten(0, 1).movedim(0, 2).flatten(0, 1) for p in projected[:2])  # (F K, G, W)
    cells = torch.cat([keys, values, torch.ones_like(values[..., :1])], dim=-1).flatten(1)  # (F K, G (2 W + 1))
    query, own_key = (split_heads(p, h).flatten(0, 1) for p in projected[2:])  # (G, F, W)
    query = query * network.shape.d_head**-0.5
    own_score = (query * own_key).sum(-1)  # (G, F)
    n_features = own_score.shape[1]
    heard = network.layout.heard & ~torch.eye(n_features, dtype=torch.bool)
    gate_bias = (pair.flatten(0, 1) - own_score.unsqueeze(-1)).masked_fill(~heard, CLOSED)
    # A row after the last slot: the last value's cells look one further, with weight 0.
    end = torch.zeros_like(cells[:1])
    # To open all gates of a question is to close the masked cell's own: its score goes down instead.
    pairs = torch.cat([gate_bias, -presence.flatten(0, 1)]).movedim(0, -1)  # (F, F, 2 G)
    return {"cell_slots": torch.cat([cells, end]), "query": query, "pairs": pairs}


def _less_own(weights: Tensor, own_value: Tensor, n_heads: int, opened: Tensor | None = None) -> Tensor:
    """Weights (M, F, D, N) over mixed values, and below each head's the row that takes away, by the sum of
    its gates, what the masked cell's own value (M, F, D) would have given: (F, G (W + 1), N).
    ``opened`` (M, F, N): what the heads of a member add by the same sums, together.
    """
    by_head = split_heads(weights.transpose(-1, -2), n_heads)  # (M, H, F, N, W)
    own = (by_head * split_heads(own_value, n_heads).unsqueeze(-2)).sum(-1, keepdim=True)  # (M, H, F, N, 1)
    if opened is not None:
        own = own - opened[:, None, ..., None] / n_heads
    both = torch.cat([by_head, -own], dim=-1)  # (M, H, F, N, W + 1)
    return both.permute(2, 0, 1, 4, 3).flatten(1, 3)


def _fold_moe(network: MoeNetwork) -> dict[str, Tensor]:
    m = network.shape.n_members
    every = torch.arange(network.layout.word.shape[0])
    masked = network.masked_cells(every)
    keys, values = network.cell_slots(every).chunk(2, dim=-1)
    pair, presence = network.pair_bias(every, every), network.presence_bias(every, every)
    tables = _fold_attention(
        network, (keys, values, masked @ network.query, masked @ network.gate_key()), pair, presence
    )
    real = torch.cat([network.layout.real, torch.ones(len(every), 1, dtype=torch.bool)], dim=1)  # (F, K + 1)
    rows = network.head_rows(every) * real.unsqueeze(-1)  # (M, F, K + 1, D)
    # With nothing observed: the feature's own distribution, and its mean.
    base = torch.cat([network.layout.log_shares[0], torch.zeros(len(every), 1)], dim=1)
    own_value = masked @ network.value
    rarity = nn.functional.pad(network.doubt_rows(every), (0, 1))  # (M, F, K + 1): the point has no shares
    weights = _less_own(rows.transpose(-1, -2), own_value, network.shape.n_heads, rarity)
    return {
        **tables,
        "rows": weights / m,  # (F, G (W + 1), K + 1)
        "base_table": base.masked_fill(~real, CLOSED).unsqueeze(1),  # (F, 1, K + 1)
        **({"beliefs": network.beliefs} if network.believes else {}),  # (F, F)
    }


def _fold_paper(network: PaperNetwork) -> dict[str, Tensor]:
    assert network.shape.n_members == 1, "the reference network is exported one at a time"
    every = torch.arange(network.layout.word.shape[0])
    table = network.word[:, network.slot] + network.encoding.unsqueeze(2)  # (1, F, K, D)
    masked = network.mask.unsqueeze(1) + network.encoding
    own_value = network.value(masked)
    slots = (network.key(table), network.value(table))
    pair = torch.zeros(1, network.shape.n_heads, len(every), len(every))
    tables = _fold_attention(network, (*slots, network.query(masked), network.key(masked)), pair, pair)
    bias = network.head.bias[0, 0][network.slot]
    out_weight = network.out.weight.unsqueeze(1).expand(-1, len(every), -1, -1)  # (1, F, D, D)
    return {
        **tables,
        "rest": (masked + network.out(own_value))[0],  # (F, D): what stands there whatever is heard
        "out_weight": _less_own(out_weight, own_value, network.shape.n_heads),  # (F, G (W + 1), D)
        **{f"{n}_weight": getattr(network, n).weight[0] for n in ("feed_in", "feed_out")},
        **{f"{n}_bias": getattr(network, n).bias[0, 0] for n in ("feed_in", "feed_out")},
        **{f"norm_scale_{i}": network.norm_scale[0, i, 0, 0] for i in range(2)},
        **{f"norm_shift_{i}": network.norm_shift[0, i, 0, 0] for i in range(2)},
        "rows": network.head.weight[0][:, network.slot].movedim(0, 1),  # (F, D, K)
        "head_bias": bias.masked_fill(~network.layout.real, CLOSED),
        "standard": network.layout.standard[0],
    }


@torch.no_grad()
def check_parity(
    network: MoeNetwork | PaperNetwork, content: bytes, samples: Iterable[tuple[NDArray[np.int64], Positions]]
) -> float:
    """The largest difference between file and network over (columns, positions) of real rows.

    Raises if it is more than rounding: the file must then not be used.
    """
    network = copy.deepcopy(network).cpu().double().eval()
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    worst = 0.0
    for columns, positions in samples:
        feed = {"columns": columns, "positions": positions, "asked": columns}
        got = dict(zip(names, session.run(names, feed), strict=True))
        worst = max(worst, _difference(network, got, columns, positions))
    if worst > TOLERANCE:
        raise RuntimeError(f"model.onnx and the fitted network differ by {worst:.2g}: this is a bug")
    return worst


def _difference(
    network: MoeNetwork | PaperNetwork,
    got: dict[str, NDArray[np.float32]],
    columns: NDArray[np.int64],
    positions: Positions,
) -> float:
    index = torch.from_numpy(columns)
    rows = torch.from_numpy(positions).double().expand(network.shape.n_members, -1, -1)
    want = network(index, rows, index)
    real = network.layout.real[index].numpy()
    logits = got["logits"][:, real]
    wanted = want.logits.mean(0).permute(2, 0, 1).numpy()  # (B, Q, K)
    pairs = [(logits, wanted[:, real]), (got["point"], want.point.mean(0).T.numpy())]
    if "contributions" in got:
        pairs.append((logits, (got["base"] + got["contributions"].sum(2))[:, real]))
        pairs.append((got["point"], got["point_base"] + got["point_contributions"].sum(2)))
    return max(float(np.max(np.abs(a - b) / np.maximum(1.0, np.abs(b)))) for a, b in pairs)
