"""POST /impute and /audit with whole files, over a real socket: what was there stays to the letter."""

import io
import json

import httpx
import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from service.routes.imputing import FILE_QUERY
from service.shapes import AuditAnswer

CSV, PARQUET = "text/csv", "application/vnd.apache.parquet"
ARROW = "application/vnd.apache.arrow.stream"
TEXT = 'name,weight,horsepower,year\r\n"Ford, ""T""",3504,,70\r\nÅland é,02100,95.50,\r\n'


def send(client, content, media_type=CSV, accept=None, path="/impute", **query):
    headers = {"content-type": media_type, **({"accept": accept} if accept else {})}
    return client.post(path, content=content, headers=headers, params=query)


def to_parquet(table):
    sink = io.BytesIO()
    pyarrow.parquet.write_table(table, sink)
    return sink.getvalue()


def to_stream(table):
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def test_a_csv_comes_back_with_its_holes_filled_and_nothing_else_changed(client):
    answer = send(client, TEXT.encode(), table="auto", columns="horsepower,year")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith(CSV)
    assert (answer.headers["x-model"], answer.headers["x-rows"], answer.headers["x-imputed-cells"]) == (
        "small@1",
        "2",
        "2",
    )
    lines = answer.text.split("\r\n")
    assert lines[0] == "name,weight,horsepower,year"
    assert lines[1].startswith('"Ford, ""T""",3504,')
    assert lines[1].endswith(",70")
    assert lines[2].startswith("Åland é,02100,95.50,")
    filled = float(lines[1].split(",")[-2])
    told = client.post("/impute", json={"rows": [{"weight": 3504, "year": 70}], "columns": ["horsepower"]}).json()
    assert filled == pytest.approx(told["imputed"][0]["value"], rel=1e-5)


def test_the_readmes_curl_line_needs_no_columns(client):
    answer = send(client, b"weight,horsepower\n3504,\n", table="auto")
    header, row = answer.text.strip().split("\n")
    assert header.startswith("weight,horsepower,")
    assert "mpg" in header
    assert "" not in row.split(",")


@pytest.mark.parametrize("media_type", [PARQUET, ARROW])
def test_parquet_and_arrow_keep_their_types_and_cells(client, media_type):
    table = pa.table(
        {
            "weight": pa.array([3504, None, 2100], pa.int32()),
            "mpg": pa.array([18.0, 25.5, None], pa.float32()),
            "origin": pa.array(["1", None, "3"], pa.string()),
            "note": pa.array(["á", "", None], pa.large_string()),
            "when": pa.array([1, None, 3], pa.timestamp("ms", "UTC")),
        }
    )
    content = to_parquet(table) if media_type == PARQUET else to_stream(table)
    answer = send(client, content, media_type, unknown="ignore")
    assert answer.status_code == 200, answer.text
    read = pyarrow.parquet.read_table if media_type == PARQUET else lambda f: pa.ipc.open_stream(f).read_all()
    back = read(io.BytesIO(answer.content))
    assert back.schema.equals(table.schema)
    for name in table.column_names:
        was, now = table[name].to_pylist(), back[name].to_pylist()
        known = name in ("weight", "mpg", "origin")
        assert all(a == b for a, b in zip(was, now, strict=True) if a is not None or not known)
        assert not known or None not in now
    assert "ignored" in json.loads(answer.headers["x-warnings"])[0]


def test_answers_too_large_for_their_column_are_told_in_a_header(client):
    power = pa.array([None, 90], pa.int8())
    table = pa.table({"weight": [4900, 2100], "displacement": [450, 100], "horsepower": power})
    answer = send(client, to_parquet(table), PARQUET, columns="horsepower")
    assert pyarrow.parquet.read_table(io.BytesIO(answer.content))["horsepower"].to_pylist() == [None, 90]
    assert answer.headers["x-imputed-cells"] == "0"
    told = "column 'horsepower': answers that the column's type cannot hold, left empty, in 1 row: 0"
    assert json.loads(answer.headers["x-warnings"]) == [told]


@pytest.mark.parametrize("accept", [CSV, PARQUET, ARROW, "application/json", f"text/html;q=0.1, {PARQUET};q=0.9"])
@pytest.mark.parametrize("sent", [CSV, PARQUET, ARROW, "application/json"])
def test_any_type_in_any_type_out(client, sent, accept):
    table = pa.table({"weight": [3504.0, 2100.0], "horsepower": pa.array([None, 95.0], pa.float64())})
    content = {
        CSV: b"weight,horsepower\n3504,\n2100,95\n",
        PARQUET: to_parquet(table),
        ARROW: to_stream(table),
        "application/json": json.dumps({"rows": table.to_pylist()}).encode(),
    }[sent]
    answer = send(client, content, sent, accept)
    assert answer.status_code == 200, answer.text
    media_type = answer.headers["content-type"].partition(";")[0]
    assert media_type == (PARQUET if accept.startswith("text/html") else accept)
    rows = {
        CSV: lambda: pyarrow.csv.read_csv(io.BytesIO(answer.content)).to_pylist(),
        PARQUET: lambda: pyarrow.parquet.read_table(io.BytesIO(answer.content)).to_pylist(),
        ARROW: lambda: pa.ipc.open_stream(io.BytesIO(answer.content)).read_all().to_pylist(),
        "application/json": lambda: answer.json()["rows"],
    }[media_type]()
    assert [row["weight"] for row in rows] == [3504, 2100]
    assert rows[0]["horsepower"] > 50
    assert rows[1]["horsepower"] == 95


def test_what_cannot_be_given_or_read_is_said(client):
    assert send(client, b"weight\n1\n", accept="image/png").status_code == 406
    assert send(client, b"<table/>", "text/html").status_code == 415
    assert send(client, b"weight\n1\n", unknown="maybe").status_code == 422
    assert send(client, b"weight\n1\n", table="autos").status_code == 422
    assert send(client, b"weight\n1\n", model="nope").status_code == 404


@pytest.mark.parametrize(
    ("content", "media_type", "reason"),
    [
        (b"", CSV, "empty"),
        (b"wieght\n1\n", CSV, "did you mean 'weight'"),
        (b"weight\n3504\nheavy\n", CSV, "row 1, column 'weight'"),
        (b"weight,mpg\n3504\n", CSV, "line 2"),
        (b"PAR1 is not enough", PARQUET, "Parquet"),
        (b"neither is this", ARROW, "Arrow"),
        (b"weight\n\xff\xfe\n", CSV, "UTF-8"),
    ],
)
def test_a_bad_file_gets_a_clear_answer(client, content, media_type, reason):
    answer = send(client, content, media_type)
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert reason in answer.json()["detail"]


def test_200_000_rows_sent_in_chunks_come_back_whole_while_single_rows_are_answered(server):
    rng = np.random.default_rng(0)
    weights = rng.integers(1700, 5000, 200_000)
    names = [f"car {i} ü" for i in range(1000)]
    lines = [f'"{names[i % 1000]}",{w},{"" if i % 50 == 0 else 100 + i % 90}' for i, w in enumerate(weights)]
    text = "\n".join(["name,weight,horsepower", *lines]) + "\n"

    def chunks():
        raw = text.encode()
        for start in range(0, len(raw), 1 << 16):
            yield raw[start : start + (1 << 16)]

    with httpx.Client(base_url=server.url, timeout=120) as client:
        answer = client.post("/impute?table=auto&columns=horsepower", content=chunks(), headers={"content-type": CSV})
    assert answer.status_code == 200, answer.text[:300]
    assert answer.headers["x-imputed-cells"] == "4000"
    back = answer.text.split("\n")
    assert len(back) == 200_002
    for i, (was, now) in enumerate(zip(lines, back[1:], strict=False)):
        assert now == was if i % 50 else now.startswith(was) and len(now) > len(was)


def test_a_look_at_the_first_rows_of_a_file_has_intervals(client):
    table = pa.table({"weight": [2000.0 + i for i in range(50)], "horsepower": [None] * 50})
    for content, media_type in ((to_parquet(table), PARQUET), (to_stream(table), ARROW)):
        told = send(client, content, media_type, "application/json", interval=0.9, first=3, columns="horsepower").json()
        assert [cell["row"] for cell in told["imputed"]] == [0, 1, 2]
        assert len(told["rows"]) == 3
        assert all(cell["interval"][0] <= cell["value"] <= cell["interval"][1] for cell in told["imputed"])


@pytest.mark.parametrize(
    ("accept", "query", "reason"),
    [
        (CSV, {"append": "maybe"}, "append must be true or false, not 'maybe'"),
        (CSV, {"first": 3}, "first is for JSON answers only"),
        (CSV, {"interval": 0.9}, "interval is for JSON answers only"),
        ("application/json", {"first": 0}, "first must be at least 1, not 0"),
        ("application/json", {"first": "some"}, "first a whole number"),
        ("application/json", {"interval": "wide"}, "interval must be a number"),
        ("application/json", {"interval": 2}, "interval"),
    ],
)
def test_what_a_file_cannot_be_asked_for_is_told(client, accept, query, reason):
    answer = send(client, b"weight,horsepower\n3504,\n", CSV, accept, **query)
    assert answer.status_code == 422
    assert reason in answer.json()["detail"]


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ({"colums": "horsepower"}, "query parameter 'colums': there is no such parameter; did you mean 'columns'?"),
        ({"intervall": 0.9}, "'intervall': there is no such parameter; did you mean 'interval'?"),
        ({"draws": 3}, "'draws': draws are given for JSON requests only: send the rows as JSON"),
        ({"explain": "true"}, "'explain': explain is given for JSON requests only"),
    ],
)
@pytest.mark.parametrize("accept", [CSV, "application/json"])
def test_what_nobody_can_ask_of_a_file_is_refused_by_name(client, accept, query, told):
    answer = send(client, b"weight,horsepower\n3504,\n", CSV, accept, table="auto", **query)
    assert answer.status_code == 422
    assert told in answer.json()["detail"]
    assert [fault["column"] for fault in answer.json()["errors"]] == list(query)


def test_an_audit_of_a_file_has_no_parameters_but_its_own(client):
    answer = send(client, b"weight\n3504\n", path="/audit", table="auto", limits=3, draws=2)
    assert answer.status_code == 422
    assert "'limits': there is no such parameter; did you mean 'limit'?" in answer.json()["detail"]
    assert [fault["column"] for fault in answer.json()["errors"]] == ["limits", "draws"]


def test_what_a_file_may_be_asked_is_what_the_document_says(client):
    declared = client.get("/openapi.json").json()["paths"]["/impute"]["post"]["parameters"]
    assert [parameter["name"] for parameter in declared] == list(FILE_QUERY)


def test_a_file_is_audited_as_its_rows_are(client):
    rows = [{"cylinders": 8, "weight": 3504, "mpg": 18}, {"cylinders": 8, "weight": 1900, "mpg": 39}]
    text = "cylinders,weight,mpg\n" + "\n".join(",".join(map(str, row.values())) for row in rows)
    table = pa.table({name: [row[name] for row in rows] for name in rows[0]})
    by_rows = client.post("/audit", json={"table": "auto", "rows": rows, "limit": 2}).json()
    for content, media_type in ((text.encode(), CSV), (to_parquet(table), PARQUET), (to_stream(table), ARROW)):
        told = send(client, content, media_type, path="/audit", table="auto", limit=2).json()
        assert told["cells"] == by_rows["cells"]
        assert told["rows_in_all"] == 2
        assert told["rows"] == [{"row": 1, "cells": rows[1]}]
        msgspec.convert(told, AuditAnswer)


def test_a_file_that_cannot_be_audited_is_refused_with_row_and_column(client):
    answer = send(client, b"weight\n3504\nheavy\n", path="/audit", table="auto")
    assert answer.status_code == 422
    assert answer.json()["errors"][0] | {"message": ""} == {"row": 1, "column": "weight", "message": ""}
    answer = send(client, b"weight,colour\n3504,red\n", path="/audit", table="auto")
    assert answer.json()["errors"][0]["column"] == "colour"
    assert send(client, b"weight,colour\n3504,red\n", path="/audit", table="auto", unknown="ignore").json()["warnings"]
    assert send(client, b"weight\n1\n", path="/audit", limit=0).status_code == 422


def test_a_file_gets_no_further_columns_unless_wanted(client):
    text = b"weight,horsepower\n3504,\n,95\n"
    answer = send(client, text, table="auto", append="false")
    assert answer.text.startswith("weight,horsepower\n3504,")
    assert answer.headers["x-imputed-cells"] == "2"
    told = send(client, text, CSV, "application/json", table="auto", append="false").json()
    assert [(cell["row"], cell["column"]) for cell in told["imputed"]] == [(0, "horsepower"), (1, "weight")]
    kept = send(client, text, CSV, "application/json", table="auto", append="false", columns="weight,mpg").json()
    assert [(cell["row"], cell["column"]) for cell in kept["imputed"]] == [(1, "weight")]
