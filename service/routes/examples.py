"""Examples in the OpenAPI document; a test sends every request to a real server."""

from typing import Any

PREDICT: dict[str, Any] = {
    "target": "mpg",
    "rows": [{"cylinders": 8, "weight": 3504}],
    "interval": 0.9,
    "explain": True,
}
PREDICTED: dict[str, Any] = {
    "model": "cars@1",
    "target": "mpg",
    "kind": "numeric",
    "predictions": [
        {
            "value": 14.9,
            "median": 15.0,
            "interval": [12.1, 18.0],
            "distribution": [{"low": 9.0, "high": 13.0, "probability": 0.2}],
            "score": 14.9,
            "base": 20.1,
            "experts": [{"feature": "weight", "column": "weight", "weight": 3.4, "contribution": -5.2}],
        }
    ],
    "warnings": [],
}
IMPUTE: dict[str, Any] = {"rows": [{"weight": 3504, "horsepower": None}], "columns": ["horsepower"], "interval": 0.9}
IMPUTED: dict[str, Any] = {
    "model": "cars@1",
    "rows": [{"weight": 3504, "horsepower": 168.2}],
    "imputed": [{"row": 0, "column": "horsepower", "value": 168.2, "probability": None, "interval": [140.0, 198.0]}],
    "warnings": [],
}
AUDIT: dict[str, Any] = {"rows": [{"cylinders": 8, "weight": 1900, "mpg": 39}], "limit": 5}
AUDITED: dict[str, Any] = {
    "model": "cars@1",
    "cells": [
        {
            "row": 0,
            "column": "cylinders",
            "value": 8,
            "surprise": 6.4,
            "expected": 4.0,
            "interval": [4.0, 4.0],
            "probability": 0.98,
            "experts": [{"feature": "weight", "column": "weight", "weight": 3.4, "contribution": 2.1}],
        }
    ],
    "warnings": [],
}
SCHEMA: dict[str, Any] = {
    "columns": {"wt": {"feature": "weight", "scale": 1000, "offset": 0}, "cyl": {"feature": "cylinders"}}
}
_COLUMNS = {
    "wt": {"feature": "weight", "scale": 1000.0, "offset": 0.0, "missing": [], "kind": "numeric"},
    "cyl": {"feature": "cylinders", "scale": 1.0, "offset": 0.0, "missing": [], "kind": "ordinal"},
}
SCHEMA_GIVEN: dict[str, Any] = {
    "table": "garage",
    "version": 1,
    "origin": "registered",
    "created": "2026-01-01T00:00:00+00:00",
    "columns": _COLUMNS,
}
MODEL: dict[str, Any] = {
    "model": "cars@1",
    "name": "cars",
    "version": 1,
    "active": True,
    "status": "ready",
    "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "created": "2026-01-01T00:00:00+00:00",
    "published": "2026-01-01T00:00:00+00:00",
    "preset": "moe",
    "seed": 0,
    "features": [{"feature": "mpg", "kind": "numeric"}],
    "metrics": {"held_out": []},
}
MATCH: dict[str, Any] = {"left": "auto", "rows": [{"kilos": 3504, "cyls": 8}, {"kilos": 2100, "cyls": 4}]}
_PAIR = {
    "left": "weight",
    "right": "kilos",
    "similarity": 0.97,
    "sign": 1,
    "evidence": {
        "encoding": 0.93,
        "values": -0.4,
        "equal": 0.0,
        "repeats": 2.1,
        "shared": 9.5,
        "company": 14.2,
        "names": -0.8,
    },
    "scale": 2.204623,
    "offset": 0.0,
}
MATCHES: dict[str, Any] = {
    "model": "cars@1",
    "matches": [_PAIR],
    "unmatched": {"left": ["origin"], "right": []},
    "placed": [{"column": "kilos", "encoding": [0.4, -0.1]}],
    "schema": {"columns": {"kilos": {"feature": "weight", "scale": 2.204623, "offset": 0.0}}},
}
_FEATURE = {"feature": "weight", "kind": "numeric", "tables": ["auto", "mtcars"]}
ENCODINGS: dict[str, Any] = {"model": "cars@1", "dimension": 2, "features": [{**_FEATURE, "encoding": [0.1, -0.2]}]}
SIMILAR: dict[str, Any] = {
    "model": "cars@1",
    "feature": "weight",
    "similar": [{"feature": "displacement", "tables": ["auto"], "similarity": 0.7, "sign": 1}],
}
MAP: dict[str, Any] = {"model": "cars@1", "points": [{**_FEATURE, "x": 0.3, "y": -1.2}]}
ANALOGY: dict[str, Any] = {
    "model": "cars@1",
    "answers": [{"feature": "weight", "value": 4464.0, "similarity": 0.9}],
}
LIMITS: dict[str, Any] = {
    "body_bytes": 16_777_216,
    "file_bytes": 1_073_741_824,
    "file_rows": 10_000_000,
    "rows": 100_000,
    "draws": 100,
}
COLUMNS: dict[str, Any] = {
    "model": "cars@1",
    "table": "mtcars",
    "columns": [
        {
            "column": "wt",
            "feature": "weight",
            "kind": "numeric",
            "knots": [1.5, 3.2, 5.4],
            "values": [],
            "typical": 3.2,
        },
        {"column": "cyl", "feature": "cylinders", "kind": "ordinal", "knots": [4, 8], "values": [4, 8], "typical": 4},
    ],
}
