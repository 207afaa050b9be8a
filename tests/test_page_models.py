"""The view Models: versions, how good they are beside the trivial guess, the switch and the way back."""

import pytest

from tests.server import running


@pytest.fixture(scope="module")
def two(small_bundle, other_bundle, tmp_path_factory):
    """A service with two versions of one model, to be switched at will."""
    with running(tmp_path_factory.mktemp("two"), "--bundle", str(small_bundle), str(other_bundle)) as server:
        yield server


@pytest.fixture
def models(browser, two):
    browser.open(two.url, "models")
    return browser


def line_of(model: str) -> str:
    return f'#models [data-model="{model}"]'


def active_of(server) -> str:
    return str(server.client.get("/models").json()["active"])


def test_every_version_is_listed_and_the_served_one_marked(models, two):
    assert sorted(row.get_attribute("data-model") for row in models.all("#models tbody tr")) == ["small@1", "small@2"]
    active = active_of(two)
    assert models.text("#active") == active
    assert "served" in models.text(line_of(active))
    assert len(models.all("#models .tag.on")) == 1


def test_figures_of_every_column_stand_beside_the_trivial_guess(models, two):
    (active,) = [model for model in two.client.get("/models").json()["models"] if model["active"]]
    measured = active["metrics"]["held_out"]
    body = models.find("#metrics tbody")
    rows = models.run(
        "return [...arguments[0].rows].map(r => [...r.cells].map(c => c.textContent.replaceAll('\\u00a0', ' ')))", body
    )
    assert [row[:2] for row in rows] == [[one["table"], one["column"]] for one in measured]
    for row, one in zip(rows, measured, strict=True):
        share = 100 if one["metric"] == "accuracy" else 1
        shown = [float(text.partition(" ")[0].replace(",", "")) for text in row[5:7]]
        assert shown == pytest.approx([share * one["value"], share * one["trivial"]], rel=6e-3, abs=0.06)
        is_better = one["value"] > one["trivial"] if share == 100 else one["value"] < one["trivial"]
        assert ("not better" not in row[7]) == is_better
    models.choose("#metrics-table", "mtcars")
    assert set(models.texts("#metrics tbody td:first-child")) == {"mtcars"}


def test_figures_of_a_version_that_is_not_served_can_be_seen_before_the_switch(models, two):
    other = {"small@1": "small@2", "small@2": "small@1"}[active_of(two)]
    models.click(f"{line_of(other)} [aria-label='Figures of {other}']")
    assert models.text("#model-details h2").startswith(f"{other}:")


def test_the_model_is_switched_and_rolled_back(models, two):
    two.client.put("/models/active", json={"model": "small@1"})
    models.driver.refresh()
    models.wait_for("small@1", lambda: models.text("#active") == "small@1")
    assert models.text(f"{line_of('small@2')} button") == "Serve this"
    for model in ("small@2", "small@1"):
        models.click(f"{line_of(model)} button")
        models.wait_for(f"{model} to be served", lambda model=model: models.text("#active") == model)
        assert active_of(two) == model
        models.wait_for_text(f"Serving {model}", ".serving")
        models.go("try")
        models.wait_for_text(f"Answered by {model}")
        models.go("models")
        models.find("#models")
    assert models.text(f"{line_of('small@2')} button") == "Serve this"


def test_an_older_version_is_rolled_back_to(models, two):
    two.client.put("/models/active", json={"model": "small@2"})
    models.driver.refresh()
    models.wait_for("small@2", lambda: models.text("#active") == "small@2")
    assert models.text(f"{line_of('small@1')} button") == "Roll back"


def test_a_switch_that_is_refused_says_why_and_changes_nothing(models, two):
    two.client.put("/models/active", json={"model": "small@1"})
    models.driver.refresh()
    models.wait_for("small@1", lambda: models.text("#active") == "small@1")
    network = two.home / "store" / "small@2" / "model.onnx"
    content = network.read_bytes()
    try:
        network.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        models.click(f"{line_of('small@2')} button")
        models.wait_for("the reason", lambda: "model.onnx" in models.text(".trouble"))
    finally:
        network.write_bytes(content)
    assert active_of(two) == models.text("#active") == "small@1"
