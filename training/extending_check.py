"""An extended model.onnx against the network that was learnt: the same answers on rows of the new table."""

import copy

import numpy as np
import onnxruntime
import torch

from model.extension import ExtendedNetwork
from training.joining import Joined

N_ROWS = 64
# The largest difference that rounding can explain, of values up to 1; what calibration will draw back is told louder.
TOLERANCE = 1e-4


@torch.no_grad()
def check_extension(network: ExtendedNetwork, content: bytes, joined: Joined) -> float:
    """The largest difference between the file and the network over the table's first rows, every cell asked.

    Raises if it is more than rounding: the file must then not be used.
    """
    table = joined.table
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    positions = table.positions[:N_ROWS]
    feed = {"columns": table.columns, "positions": positions, "asked": table.columns}
    logits, point, gates = session.run(["logits", "point", "gates"], feed)
    # In double precision: what differs then is the rounding of the file alone.
    network = copy.deepcopy(network).double()
    every = torch.arange(len(table.columns))
    rows = torch.from_numpy(positions).double().expand(network.shape.n_members, -1, -1)
    want = network(every, rows, every)
    real = network.layout.real.numpy()
    said = [logits[..., : real.shape[1]][:, real], point, gates]
    meant = [
        want.logits.mean(0).permute(2, 0, 1).numpy()[:, real],
        want.point.mean(0).T.numpy(),
        want.gates[:, :, :, :-1].sum(1).mean(0).permute(2, 0, 1).numpy(),
    ]
    worst = max(float(np.max(np.abs(a - b) / np.maximum(1.0, np.abs(b)))) for a, b in zip(said, meant, strict=True))
    if worst > TOLERANCE:
        raise RuntimeError(f"model.onnx and the extended network differ by {worst:.2g}: this is a bug")
    return worst
