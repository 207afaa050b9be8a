"""The HTTP contract, line by line, against a real server with a real SQLite registry."""

import math

import msgspec
import pytest

from service import shapes, table_shapes
from service.match_shapes import MatchesAnswer

ROW = {"cylinders": 8, "weight": 3504}


def ask(client, path, **body):
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(client, path, status=422, **body):
    answer = client.post(path, json=body)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    return msgspec.convert(answer.json(), shapes.ProblemDetails)


# POST /predict


def test_predict_answers_as_the_contract_shows(client):
    answer = ask(client, "/predict", target="mpg", rows=[ROW], table="auto", model="small", interval=0.9, explain=True)
    told = msgspec.convert(answer, shapes.PredictAnswer)
    assert (told.model, told.target, told.kind, told.warnings) == ("small@1", "mpg", "numeric", [])
    row = told.predictions[0]
    assert row.interval[0] <= row.value <= row.interval[1]
    assert sum(piece.probability for piece in row.distribution) == pytest.approx(1.0)
    assert all(piece.low <= piece.high for piece in row.distribution)
    assert {expert.feature for expert in row.experts} == {"cylinders", "weight"}


@pytest.mark.parametrize("target", ["mpg", "cylinders", "origin", "horsepower"])
def test_base_and_contributions_add_up_to_the_score(client, target):
    rows = [ROW, {"weight": 2100, "year": 78}, {"acceleration": 12.5, "mpg": None}, {}]
    for row in ask(client, "/predict", target=target, rows=rows, explain=True)["predictions"]:
        total = row["base"] + sum(expert["contribution"] for expert in row["experts"])
        assert total == pytest.approx(row["score"], abs=1e-4)
        if target in ("mpg", "horsepower"):
            assert row["score"] == pytest.approx(row["value"], rel=1e-4)


def test_experts_are_the_observed_columns_only_named_as_sent_and_as_features(client):
    row = {"wt": 3.5, "cyl": None, "hp": 150}
    told = ask(client, "/predict", target="mpg", rows=[row], table="mtcars", explain=True)["predictions"][0]
    assert {(e["column"], e["feature"]) for e in told["experts"]} == {("wt", "weight"), ("hp", "horsepower")}
    assert all(e["weight"] >= 0 for e in told["experts"])


def test_categorical_targets_have_a_probability_and_a_distribution_over_values(client):
    told = ask(client, "/predict", target="origin", rows=[ROW])["predictions"][0]
    best = told["distribution"][0]
    assert (told["value"], told["probability"]) == (best["value"], best["probability"])
    assert sum(choice["probability"] for choice in told["distribution"]) == pytest.approx(1.0)


def test_names_and_units_are_those_of_the_table(client):
    own = ask(client, "/predict", target="mpg", rows=[{"wt": 3.504, "cyl": 8}], table="mtcars")["predictions"][0]
    plain = ask(client, "/predict", target="mpg", rows=[{"weight": 3504, "cylinders": 8}])["predictions"][0]
    assert own["value"] == pytest.approx(plain["value"], rel=1e-6)


def test_a_single_row_and_the_same_among_many_have_one_answer(client):
    rows = [{**ROW, "weight": 2000 + i} for i in range(200)]
    many = ask(client, "/predict", target="mpg", rows=rows, interval=0.8)["predictions"]
    for i in (0, 57, 199):
        one = ask(client, "/predict", target="mpg", rows=[rows[i]], interval=0.8)["predictions"][0]
        assert one["value"] == pytest.approx(many[i]["value"], rel=1e-5)
        assert one["interval"] == pytest.approx(many[i]["interval"], rel=1e-5)
        assert list(one) == list(many[i])


def test_the_distribution_can_be_left_out(client):
    for rows in ([ROW], [ROW] * 3):
        told = ask(client, "/predict", target="mpg", rows=rows, distribution=False)["predictions"]
        assert all(set(row) == {"value", "median"} for row in told)


def test_no_rows_no_answers(client):
    assert ask(client, "/predict", target="mpg", rows=[])["predictions"] == []


def test_a_row_with_nothing_known_gets_the_features_own_distribution(client):
    empty = ask(client, "/predict", target="mpg", rows=[{}])["predictions"][0]
    null = ask(client, "/predict", target="mpg", rows=[{"weight": None}])["predictions"][0]
    assert empty["value"] == pytest.approx(null["value"])


# POST /impute


def test_impute_answers_as_the_contract_shows(client):
    rows = [{"weight": 3504, "horsepower": None}]
    told = ask(client, "/impute", rows=rows, columns=["horsepower"], interval=0.9, draws=5)
    answer = msgspec.convert(told, shapes.ImputeAnswer)
    cell = answer.imputed[0]
    assert (answer.model, cell.row, cell.column, cell.probability) == ("small@1", 0, "horsepower", None)
    assert cell.interval[0] <= cell.value <= cell.interval[1]
    assert answer.rows == [{"weight": 3504, "horsepower": cell.value}]
    assert len(answer.draws) == 5
    assert all(copy[0]["weight"] == 3504 and copy[0]["horsepower"] > 0 for copy in answer.draws)


def test_observed_cells_come_back_untouched_to_the_letter(client):
    body = '{"rows": [{"weight": 3504.00, "cylinders": 8, "horsepower": null, "year": 70}]}'
    answer = client.post("/impute", content=body, headers={"content-type": "application/json"}).json()
    row = answer["rows"][0]
    assert list(row) == ["weight", "cylinders", "horsepower", "year"]
    assert (row["weight"], row["cylinders"], row["year"]) == (3504.0, 8, 70)
    assert isinstance(row["cylinders"], int)


def test_by_default_every_missing_column_of_the_table_is_filled(client):
    told = ask(client, "/impute", rows=[{"weight": 3504}], table="auto")
    columns = {"mpg", "cylinders", "displacement", "horsepower", "acceleration", "year", "origin", "weight"}
    assert set(told["rows"][0]) == columns
    assert {cell["column"] for cell in told["imputed"]} == columns - {"weight"}


def test_without_a_table_those_of_the_rows_are_filled(client):
    told = ask(client, "/impute", rows=[{"weight": 3504, "mpg": None}, {"year": 75}])
    assert [(c["row"], c["column"]) for c in told["imputed"]] == [(0, "mpg"), (0, "year"), (1, "weight"), (1, "mpg")]


def test_categories_are_filled_with_their_probability(client):
    cell = ask(client, "/impute", rows=[{"weight": 3504, "origin": None}])["imputed"][0]
    assert 0 < cell["probability"] <= 1


def test_filled_cells_can_be_explained(client):
    cell = ask(client, "/impute", rows=[{"weight": 3504, "mpg": None}], explain=True)["imputed"][0]
    assert cell["base"] + sum(e["contribution"] for e in cell["experts"]) == pytest.approx(cell["score"], abs=1e-4)


def test_draws_differ_and_the_same_seed_gives_the_same(client):
    body = {"rows": [{"weight": 3000, "mpg": None, "origin": None}] * 3, "draws": 4}
    first, second = ask(client, "/impute", **body), ask(client, "/impute", **body)
    assert first["draws"] == second["draws"]
    assert len({copy[0]["mpg"] for copy in first["draws"]}) == 4
    assert ask(client, "/impute", **body, seed=1)["draws"] != first["draws"]


def test_nothing_to_fill_is_no_fault(client):
    told = ask(client, "/impute", rows=[ROW])
    assert (told["rows"], told["imputed"]) == ([ROW], [])


# Encodings


def test_encodings_are_one_vector_per_feature(client):
    told = msgspec.convert(client.get("/encodings").json(), shapes.EncodingsAnswer)
    assert all(len(feature.encoding) == told.dimension for feature in told.features)
    weight = next(feature for feature in told.features if feature.feature == "weight")
    assert set(weight.tables) == {"auto", "mtcars"}


def test_encodings_of_one_table(client):
    told = client.get("/encodings", params={"table": "mtcars", "model": "small@1"}).json()
    assert {"weight", "cylinders", "gear"} <= {feature["feature"] for feature in told["features"]}
    assert "acceleration" not in {feature["feature"] for feature in told["features"]}


def test_similar_features_come_most_similar_first(client):
    told = client.get("/encodings/similar", params={"feature": "wt", "table": "mtcars", "k": 5}).json()
    answer = msgspec.convert(told, shapes.SimilarAnswer)
    assert answer.feature == "weight"
    likeness = [other.similarity for other in answer.similar]
    assert len(likeness) == 5
    assert likeness == sorted(likeness, reverse=True)
    assert "weight" not in {other.feature for other in answer.similar}


def test_matches_are_one_to_one_and_best_first(client):
    told = client.get("/encodings/matches", params={"left": "auto", "right": "mtcars"}).json()
    answer = msgspec.convert(told, MatchesAnswer)
    pairs = {match.left: match.right for match in answer.matches}
    assert {"weight": "wt", "cylinders": "cyl", "displacement": "disp", "horsepower": "hp"}.items() <= pairs.items()
    assert len(set(pairs.values())) == len(pairs)
    assert [m.similarity for m in answer.matches] == sorted((m.similarity for m in answer.matches), reverse=True)


def test_a_table_never_fitted_is_matched_by_its_rows(client, cars):
    import csv

    with (cars / "auto.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))[::7]
    rows = [{"a": float(line["weight"]), "b": float(line["displacement"]), "c": float(line["mpg"])} for line in lines]
    told = ask(client, "/encodings/matches", left="auto", rows=rows)
    assert {m["right"]: m["left"] for m in told["matches"]} == {"a": "weight", "b": "displacement", "c": "mpg"}


def test_the_map_has_a_point_per_feature(client):
    told = msgspec.convert(client.get("/encodings/map").json(), shapes.MapAnswer)
    assert len(told.points) == len(client.get("/encodings").json()["features"])
    assert all(math.isfinite(point.x + point.y) for point in told.points)


def test_analogies_take_three_values(client):
    terms = {"a": "cylinders=4", "b": "cylinders=8", "c": "weight=2300"}
    told = msgspec.convert(client.get("/encodings/analogy", params=terms).json(), shapes.AnalogyAnswer)
    assert len(told.answers) == 5
    answer = client.get("/encodings/analogy", params={**terms, "c": "weight"})
    assert answer.status_code == 422
    assert "feature=value" in answer.json()["detail"]


# Models and schemas


def test_models_are_listed_and_shown(client):
    told = msgspec.convert(client.get("/models").json(), shapes.ModelsAnswer)
    assert told.active == "small@1"
    one = msgspec.convert(client.get("/models/small@1").json(), shapes.ModelAnswer)
    assert one.active
    assert one.metrics["held_out"]
    assert client.get("/models/smal@1").json()["detail"].endswith("did you mean 'small'?")


def test_a_new_table_is_served_at_once_without_a_refit(client):
    columns = {"wt": {"feature": "weight", "scale": 1000, "offset": 0}, "cyl": {"feature": "cylinders"}}
    told = client.put("/schemas/garage", json={"columns": columns})
    assert told.status_code == 200, told.text
    assert msgspec.convert(told.json(), table_shapes.SchemaAnswer).origin == "registered"
    own = ask(client, "/predict", target="mpg", rows=[{"wt": 3.504, "cyl": 8}], table="garage")["predictions"][0]
    plain = ask(client, "/predict", target="mpg", rows=[{"weight": 3504, "cylinders": 8}])["predictions"][0]
    assert own["value"] == pytest.approx(plain["value"], rel=1e-6)
    filled = ask(client, "/impute", rows=[{"cyl": 8}], table="garage")["rows"][0]
    assert 2 < filled["wt"] < 6


def test_every_version_of_a_table_is_kept(client):
    first = client.put("/schemas/shed", json={"columns": {"w": {"feature": "weight"}}}).json()
    second = client.put("/schemas/shed", json={"columns": {"w": {"feature": "mpg"}}}).json()
    again = client.put("/schemas/shed", json={"columns": {"w": {"feature": "mpg"}}}).json()
    assert (first["version"], second["version"], again["version"]) == (1, 2, 2)
    told = msgspec.convert(client.get("/schemas/shed").json(), table_shapes.SchemaVersions)
    assert [version.columns["w"].feature for version in told.versions] == ["mpg", "weight"]
    assert told.columns["w"].kind == "numeric"
    assert client.delete("/schemas/shed").status_code == 200
    assert refused(client, "/predict", target="mpg", rows=[{"w": 3}], table="shed").status == 422
    assert len(client.get("/schemas/shed").json()["versions"]) == 3


def test_a_registered_table_comes_before_the_bundles_own_until_it_is_taken_back(client):
    before = ask(client, "/predict", target="mpg", rows=[{"wt": 3.5}], table="mtcars")["predictions"][0]["value"]
    client.put("/schemas/mtcars", json={"columns": {"wt": {"feature": "weight"}, "mpg": {"feature": "mpg"}}})
    try:
        told = ask(client, "/predict", target="mpg", rows=[{"wt": 3500}], table="mtcars")
        assert told["predictions"][0]["value"] == pytest.approx(before, rel=1e-5)
        assert client.get("/schemas/mtcars").json()["origin"] == "registered"
    finally:
        client.delete("/schemas/mtcars")
    assert client.get("/schemas/mtcars").json()["origin"] == "small@1"
    again = ask(client, "/predict", target="mpg", rows=[{"wt": 3.5}], table="mtcars")["predictions"][0]["value"]
    assert again == before


def test_schemas_lists_the_models_tables(client):
    told = msgspec.convert(client.get("/schemas").json(), table_shapes.SchemasAnswer)
    assert {"auto", "mtcars", "epa2021"} <= {table.table for table in told.tables}
    assert client.get("/schemas/autos").status_code == 404
    assert "did you mean 'auto'" in client.get("/schemas/autos").json()["detail"]


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        ({"feature": "wieght"}, "did you mean 'weight'"),
        ({"feature": "weight", "scale": 0}, "scale must be finite and not 0"),
        ({"feature": "origin", "scale": 2}, "is no number"),
        ({"feature": "weight", "unit": "lb"}, "unknown field `unit`"),
        ({"scale": 2}, "feature"),
    ],
)
def test_a_schema_that_cannot_be_is_refused_with_its_column(client, column, reason):
    answer = client.put("/schemas/bad", json={"columns": {"x": column}})
    assert answer.status_code == 422
    assert reason in answer.json()["detail"]
    assert client.get("/schemas/bad").status_code == 404


# Audit


def test_audit_names_the_most_surprising_cells_first(client):
    rows = [{"cylinders": 8, "weight": 3504, "mpg": 18}, {"cylinders": 8, "weight": 1900, "mpg": 39}]
    told = msgspec.convert(ask(client, "/audit", rows=rows, table="auto"), shapes.AuditAnswer)
    surprise = [cell.surprise for cell in told.cells]
    assert surprise == sorted(surprise, reverse=True)
    assert len(surprise) == 6
    assert (told.cells[0].row, told.cells[0].value) in ((1, 8), (1, 1900), (1, 39))
    assert told.cells[0].column not in {expert.column for expert in told.cells[0].experts}


# Health, metrics, limits, documents


def test_probes_metrics_limits_and_documents_answer(client):
    assert client.get("/health/live").json() == {"status": "live"}
    assert client.get("/health/ready").json() == {"status": "ready", "model": "small@1"}
    assert "tabglot_requests_total" in client.get("/metrics").text
    assert msgspec.convert(client.get("/limits").json(), shapes.Limits).rows == 100_000
    assert client.get("/openapi.json").json()["info"]["title"] == "Tabglot"
    assert "swagger" in client.get("/docs").text.lower()
    assert client.get("/").status_code in (200, 307)


# Rules


@pytest.mark.parametrize(
    ("method", "path", "told"),
    [
        ("GET", "/encodings/similar?feture=weight", "'feture': there is no such parameter; did you mean 'feature'?"),
        ("GET", "/encodings/map?modle=small", "did you mean 'model'?"),
        ("GET", "/columns?tabel=auto", "did you mean 'table'?"),
        ("GET", "/models?page=2", "'page': there is no such parameter; this address takes none"),
        ("POST", "/models?activte=false", "did you mean 'activate'?"),
        ("DELETE", "/schemas/auto?version=1", "this address takes none"),
        ("POST", "/predict?table=auto", "a JSON request has no parameters in its address; they go in its body"),
        ("POST", "/impute?draws=3", "'draws': a JSON request has no parameters in its address"),
        ("POST", "/audit?limit=3", "'limit': a JSON request has no parameters in its address"),
    ],
)
def test_a_query_parameter_that_an_address_does_not_have_is_refused(client, method, path, told):
    answer = client.request(method, path, json={"target": "mpg", "rows": [ROW]} if method == "POST" else None)
    assert answer.status_code == 422
    problem = msgspec.convert(answer.json(), shapes.ProblemDetails)
    assert told in problem.detail
    assert problem.errors[0].column == path.partition("?")[2].partition("=")[0]


@pytest.mark.parametrize("path", ["/health/ready?from=probe", "/metrics?name[]=up", "/?utm=1", "/v2/models/small?x=1"])
def test_probes_browsers_and_clients_of_the_protocol_may_add_parameters_of_their_own(client, path):
    assert client.get(path).status_code == 200


def test_absent_null_and_nan_all_mean_missing(client):
    bodies = ['{"weight": 3504}', '{"weight": 3504, "year": null}', '{"weight": 3504, "year": NaN}']
    values = set()
    for body in bodies:
        answer = client.post("/predict", content=f'{{"target": "mpg", "rows": [{body}]}}')
        assert answer.status_code == 200, answer.text
        values.add(round(answer.json()["predictions"][0]["value"], 5))
    assert len(values) == 1


def test_a_column_nobody_knows_is_refused_with_the_nearest_name_or_ignored(client):
    problem = refused(client, "/predict", target="mpg", rows=[{"wieght": 3504}])
    assert problem.errors[0].column == "wieght"
    assert "did you mean 'weight'" in problem.errors[0].message
    told = ask(client, "/predict", target="mpg", rows=[{"wieght": 3504, **ROW}], unknown="ignore")
    assert "'wieght' ignored" in told["warnings"][0]
    assert "did you mean 'mpg'" in refused(client, "/predict", target="mpgs", rows=[ROW]).detail
    assert "did you mean 'auto'" in refused(client, "/predict", target="mpg", rows=[ROW], table="autos").detail
    assert "did you mean 'small'" in refused(client, "/predict", 404, target="mpg", rows=[ROW], model="smal").detail


def test_a_category_never_seen_is_missing_with_a_warning(client):
    told = ask(client, "/predict", target="mpg", rows=[{"weight": 3504, "origin": "Mars"}], explain=True)
    assert "never seen" in told["warnings"][0]
    assert [e["column"] for e in told["predictions"][0]["experts"]] == ["weight"]


def test_a_number_outside_the_fitted_range_is_clamped_with_a_warning(client):
    told = ask(client, "/predict", target="mpg", rows=[{"weight": 99999}])
    assert "clamped" in told["warnings"][0]


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ('"heavy"', "text"),
        ("true", "expected a number"),
        ("Infinity", "finite"),
        ("-1e999", "finite"),
        ("[1]", "number"),
    ],
)
def test_what_is_no_number_is_refused_with_row_and_column(client, cell, message):
    body = f'{{"target": "mpg", "rows": [{{"weight": 3504}}, {{"weight": {cell}}}]}}'
    answer = client.post("/predict", content=body)
    assert answer.status_code == 422, answer.text
    error = answer.json()["errors"][0]
    assert (error["row"], error["column"]) == (1, "weight")
    assert message in error["message"]


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        ("", 400, "not JSON"),
        ("{", 400, "not JSON"),
        ("\xff", 400, "not"),
        ("[]", 422, "expected `object`"),
        ('{"rows": []}', 422, "target"),
        ('{"target": "mpg"}', 422, "rows"),
        ('{"target": 1, "rows": []}', 422, "target"),
        ('{"target": "mpg", "rows": [1]}', 422, "row 0"),
        ('{"target": "mpg", "rows": [], "tabel": "auto"}', 422, "tabel"),
        ('{"target": "mpg", "rows": [{}], "interval": 2}', 422, "interval"),
        ('{"target": "mpg", "rows": [{}], "unknown": "maybe"}', 422, "unknown"),
        ('{"target": "\\ud800", "rows": [{}]}', 400, "not Unicode"),
        ('{"target": "mpg", "rows": [{"weight": NaN, "mpg": ' + "1" * 5000 + "}]}", 400, "too many digits"),
        ('{"target": "mpg", "rows": [{"weight": ' + "[" * 100_000, 400, "deep"),
    ],
)
def test_a_bad_body_gets_a_clear_answer(client, body, status, reason):
    answer = client.post("/predict", content=body.encode("latin-1"))
    assert answer.status_code == status, answer.text
    assert reason in answer.json()["detail"]
    msgspec.convert(answer.json(), shapes.ProblemDetails)


@pytest.mark.parametrize("field", [{"draws": -1}, {"draws": 10_000}, {"seed": -1}, {"columns": ["nope"]}])
def test_a_bad_impute_gets_a_clear_answer(client, field):
    assert refused(client, "/impute", rows=[{"mpg": None}], **field).detail


def test_too_many_rows_are_refused_before_any_work(client):
    problem = refused(client, "/predict", target="mpg", rows=[{}] * 100_001)
    assert "100001 rows" in problem.detail


# What columns may hold


def test_columns_of_a_table_have_their_range_in_its_own_unit(client):
    told = msgspec.convert(client.get("/columns", params={"table": "mtcars"}).json(), table_shapes.ColumnsAnswer)
    columns = {column.column: column for column in told.columns}
    feature = {c["feature"]: c for c in client.get("/columns").json()["columns"]}["weight"]
    assert columns["wt"].feature == "weight"
    assert columns["wt"].knots == pytest.approx([knot / 1000 for knot in feature["knots"]])
    assert columns["wt"].knots == sorted(columns["wt"].knots)
    assert columns["wt"].knots[0] <= columns["wt"].typical <= columns["wt"].knots[-1]
    assert columns["cyl"].values == columns["cyl"].knots


def test_columns_of_words_tell_the_most_frequent_first(client):
    columns = {c["column"]: c for c in client.get("/columns", params={"table": "auto"}).json()["columns"]}
    assert columns["origin"]["knots"] == []
    assert columns["origin"]["values"][0] == columns["origin"]["typical"] == 1


def test_columns_of_a_unit_that_falls_ascend_all_the_same(client):
    link = {"columns": {"lack": {"feature": "weight", "scale": -1, "offset": 6000}}}
    assert client.put("/schemas/falling", json=link).status_code == 200
    try:
        (column,) = client.get("/columns", params={"table": "falling"}).json()["columns"]
    finally:
        client.delete("/schemas/falling")
    assert column["knots"] == sorted(column["knots"])


def test_columns_of_a_table_nobody_knows_are_refused_with_the_nearest(client):
    answer = client.get("/columns", params={"table": "mtcar"})
    assert answer.status_code == 422
    assert answer.json()["detail"] == "there is no table 'mtcar'; did you mean 'mtcars'?"
