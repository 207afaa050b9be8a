"""Ask a bundle on the command line: python -m model BUNDLE TARGET [COLUMN=VALUE ...]."""

import sys
from collections.abc import Sequence
from pathlib import Path

from model.answers import Prediction
from model.command_line import Parser
from model.errors import AskError, TabglotError
from model.runtime import Predictor
from model.schema import Feature


def main(argv: Sequence[str] | None = None) -> int:
    """Answer one question; 0 done, 2 the caller's mistake."""
    parser = Parser(prog="python -m model", description=__doc__)
    parser.add_argument("bundle", type=Path, help="a bundle directory")
    parser.add_argument("target", help="the column to predict")
    parser.add_argument("cells", nargs="*", default=[], metavar="COLUMN=VALUE", help="what is known of the row")
    parser.add_argument("--table", help="read names and units as those of this table (answers do not depend on it)")
    args = parser.parse_intermixed_args(argv)
    try:
        print(_answer(args.bundle, args.target, args.cells, args.table))
    except TabglotError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _answer(bundle: Path, target: str, cells: Sequence[str], table: str | None) -> str:
    predictor = Predictor.load(bundle)
    links = predictor.links(table)
    features = {name: predictor.schema.features[predictor.schema.index[k.feature]] for name, k in links.items()}
    row = {name: [_cell(text, features.get(name))] for name, text in _pairs(cells).items()} or {target: [None]}
    answer = predictor.predict(row, target, table=table, interval=0.9, explain=predictor.bundle.is_additive)
    return _format(answer)


def _pairs(cells: Sequence[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for cell in cells:
        name, equals, text = cell.partition("=")
        if not equals or name in pairs:
            fault = "it is given twice" if equals else "it has no value"
            raise AskError(f"{cell!r}: {fault}; write each column once, as COLUMN=VALUE")
        pairs[name] = text
    return pairs


def _cell(text: str, feature: Feature | None) -> object:
    """A number where the feature is one; anything else is left for the codec to judge."""
    if feature is None or feature.kind not in ("numeric", "ordinal"):
        return text or None
    try:
        return float(text)
    except ValueError:
        return text or None


def _format(answer: Prediction) -> str:
    first = f"{answer.target} = {_show(answer.values[0])}"
    if answer.probability is not None:
        first += f" (probability {answer.probability[0]:.2f})"
    elif answer.interval is not None:
        low, high = answer.interval[0]
        first += f" (90 % between {_show(low)} and {_show(high)})"
    lines = [first, *(_format_experts(answer) if answer.experts is not None else [])]
    return "\n".join([*lines, *(f"warning: {warning}" for warning in answer.warnings)])


def _format_experts(answer: Prediction) -> list[str]:
    """The sum, one line each: numbers in the column's unit, dates in days, categories as log odds."""
    experts = answer.experts
    assert experts is not None
    unit = 86_400.0 if answer.kind == "datetime" else 1.0
    start, end = (f"{x / unit:+,.4g}" if abs(x / unit) < 10_000 else f"{x / unit:+,.0f}" for x in (
        float(experts.base[0]), float(experts.score[0])
    ))  # fmt: skip
    parts = zip(experts.columns, experts.contributions[0] / unit, experts.weights[0], strict=True)
    middle = [
        f"  {part:+10,.4g}  {name} (heard {weight:.2f})"
        for name, part, weight in sorted(parts, key=lambda item: -abs(item[1]))
    ]
    heard = [] if not middle or experts.weights[0].any() else ["  nothing of this was ever seen beside it"]
    return [f"  {start:>10}  with nothing known", *middle, f"  {end:>10}  in all", *heard]


def _show(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


if __name__ == "__main__":
    sys.exit(main())
