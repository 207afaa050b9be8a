"""The names of model.onnx's inputs and outputs: what export writes and runtime expects."""

INPUTS = ("columns", "positions", "asked")
ANSWERS = ("logits", "point")
EXPLANATIONS = ("contributions", "point_contributions", "base", "point_base")

# Whether a network is additive -> what it gives.
CONTRACT = {True: (*ANSWERS, "gates", *EXPLANATIONS), False: (*ANSWERS, "gates")}
