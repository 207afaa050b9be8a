"""The place command: which features of a bundle the columns of a new table are, and where they lie among them."""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from model.bundle import Bundle, read_bundle
from model.errors import FamilyError
from model.known_tables import read_codes
from model.portraits import MOST_ROWS, Sample
from model.requests import nearest
from model.schema import Link
from model.table_matching import MOST_COLUMNS, Found, Matching, match_anywhere, match_samples
from training.family import TableSpec
from training.reading import RawColumn, read_table


def place_table(args: argparse.Namespace) -> None:
    """Read a table, match and place its columns, and say so.

    Of ``args``: table, bundle; left, schema (or None); names, least; json (a flag).
    """
    started = time.monotonic()
    bundle = read_bundle(args.bundle)
    links = _links_of(bundle, args.left)
    raw = read_table(TableSpec(args.table.stem, args.table), MOST_ROWS)
    samples = {column.name: sample_column(column) for column in raw.columns if not column.too_many_words}
    if len(samples) > MOST_COLUMNS:
        raise FamilyError(f"{args.table} has {len(samples)} columns; at most {MOST_COLUMNS} are placed at a time")
    if links is None:
        matching = match_anywhere(bundle, samples, read_names=args.names, least=args.least)
        features = {pair.left: pair.left for pair in matching.pairs}
    else:
        codes = read_codes(bundle, samples)
        matching = match_samples(bundle, links, codes, read_names=args.names, least=args.least)
        features = {column: link.feature for column, link in links.items()}
    columns = suggest(matching, features)
    if args.schema is not None:
        _write(args.schema, {"columns": columns})
    if args.json:
        print(json.dumps({"matches": [_show(pair, features) for pair in matching.pairs], "columns": columns}, indent=1))
        return
    print(_format(matching, features))
    print(f"{len(matching.pairs)} of {len(samples)} columns matched in {time.monotonic() - started:.1f} s")
    if args.schema is not None:
        print(f"wrote {args.schema}: what PUT /schemas/{raw.spec.name} takes to serve this table")


def suggest(matching: Matching, features: dict[str, str]) -> dict[str, dict[str, Any]]:
    """What PUT /schemas would take: every matched column whose cells can be read as the feature's."""
    return {
        pair.right: {"feature": features[pair.left], "scale": pair.unit[0], "offset": pair.unit[1]}
        for pair in matching.pairs
        if pair.unit is not None and pair.right
    }


def sample_column(column: RawColumn) -> Sample:
    """A column of a file as the matcher takes it."""
    if column.storage in ("number", "datetime"):
        return Sample(column.numbers)
    return Sample(np.where(column.codes < 0, np.nan, column.codes), tuple(column.words))


def _links_of(bundle: Bundle, table: str | None) -> dict[str, Link] | None:
    if table is None:
        return None
    tables = bundle.schema.by_table
    if table not in tables:
        raise FamilyError(f"the bundle has no table {table!r}{nearest(table, tables)}")
    return {link.column: link for link in tables[table].links}


def _show(pair: Found, features: dict[str, str]) -> dict[str, Any]:
    scale, offset = pair.unit or (None, None)
    return {
        "column": pair.right,
        "feature": features[pair.left],
        "similarity": pair.probability,
        "sign": pair.sign,
        "scale": scale,
        "offset": offset,
        "evidence": dict(pair.evidence),
    }


def _format(matching: Matching, features: dict[str, str]) -> str:
    lines = [("column", "feature", "sure", "read as", "evidence")]
    lines += [
        (pair.right, features[pair.left], f"{pair.probability:.2f}", _reading(pair), _evidence(pair))
        for pair in matching.pairs
    ]
    lines += [(column, "-", "", "", "no match") for column in matching.right]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def _reading(pair: Found) -> str:
    if pair.unit is None:
        return "turned over, no unit" if pair.sign < 0 else "no unit"
    scale, offset = pair.unit
    return "as it is" if pair.unit == (1.0, 0.0) else f"* {scale:g}" + (f" {offset:+g}" if offset else "")


def _evidence(pair: Found) -> str:
    return ", ".join(f"{name} {value:.2g}" for name, value in pair.evidence.items())


def _write(path: Path, content: dict[str, Any]) -> None:
    """Written aside, then renamed."""
    if path.is_dir():
        raise FamilyError(f"--schema {path} is a folder: name a file")
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
            aside = Path(folder) / path.name
            aside.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
            aside.replace(path)
    except OSError as error:
        raise FamilyError(f"{path} cannot be written: {error.strerror}") from error
