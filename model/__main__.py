"""Ask a bundle on the command line: python -m model BUNDLE TARGET [COLUMN=VALUE ...]."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from model.answers import Prediction
from model.errors import TabglotError
from model.runtime import Predictor
from model.schema import Feature


def main(argv: Sequence[str] | None = None) -> int:
    """Answer one question; 0 done, 2 the caller's mistake."""
    parser = argparse.ArgumentParser(prog="python -m model", description=__doc__)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("target", help="the column to predict")
    parser.add_argument("cells", nargs="*", metavar="COLUMN=VALUE", help="what is known of the row")
    parser.add_argument("--table", help="read names and units as those of this table")
    args = parser.parse_intermixed_args(argv)
    try:
        predictor = Predictor.load(args.bundle)
        links = predictor.links(args.table)
        features = {name: predictor.schema.features[predictor.schema.index[k.feature]] for name, k in links.items()}
        cells = dict(cell.partition("=")[::2] for cell in args.cells) or {args.target: ""}
        row = {name: [_cell(text, features.get(name))] for name, text in cells.items()}
        explain = predictor.bundle.is_additive
        print(_format(predictor.predict(row, args.target, table=args.table, interval=0.9, explain=explain)))
    except TabglotError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _cell(text: str, feature: Feature | None) -> object:
    """A number where the feature is one; anything else is left for the codec to judge."""
    if feature is None or feature.kind not in ("numeric", "ordinal"):
        return text or None
    try:
        return float(text)
    except ValueError:
        return text or None


def _format(answer: Prediction) -> str:
    value = answer.values[0]
    lines = [f"{answer.target} = {value:.4g}" if isinstance(value, float) else f"{answer.target} = {value}"]
    if answer.probability is not None:
        lines[0] += f" (probability {answer.probability[0]:.2f})"
    elif answer.interval is not None and isinstance(value, float):
        low, high = answer.interval[0]
        lines[0] += f" (90 % between {low:.4g} and {high:.4g})"
    if answer.experts is not None:
        experts = answer.experts
        lines.append(f"  {experts.base[0]:+10.4g}  with nothing known")
        parts = zip(experts.columns, experts.contributions[0], experts.weights[0], strict=True)
        for name, part, weight in sorted(parts, key=lambda item: -abs(item[1])):
            lines.append(f"  {part:+10.4g}  {name} (heard {weight:.2f})")
        lines.append(f"  {experts.score[0]:+10.4g}  in all")
    return "\n".join([*lines, *(f"warning: {warning}" for warning in answer.warnings)])


if __name__ == "__main__":
    sys.exit(main())
