"""The peers of the paper's studies: scikit-learn's, the car table, and the recorded neural ones."""

import json

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.preprocessing import OneHotEncoder

from training.reproduce import peers
from training.reproduce.boosting import boost_in_stages
from training.reproduce.car_table import load_cars
from training.reproduce.neural_peers import CONFIGS, METRICS, RECORDED, STOPS, load_recorded
from training.reproduce.peers import PEERS, PUBLISHED, QUICK, fit_peer, probabilities


@pytest.fixture(scope="module")
def bins():
    """Three features of four levels; the class follows the first one, most of the time."""
    rng = np.random.default_rng(0)
    x = rng.integers(4, size=(160, 3))
    y = np.where(rng.random(160) < 0.8, x[:, 0] % 3, rng.integers(3, size=160))
    return x[:100], y[:100], x[100:], y[100:]


@pytest.fixture(scope="module")
def many_bins():
    """Enough rows that no node of three splits has two that are exactly as good."""
    rng = np.random.default_rng(1)
    x = rng.integers(5, size=(3000, 4))
    y = np.where(rng.random(3000) < 0.5, (x[:, 0] + x[:, 1]) % 4, rng.integers(4, size=3000))
    return x, y


@pytest.mark.parametrize("name", PEERS)
def test_a_peer_beats_chance_and_its_probabilities_sum_to_one(bins, name):
    x, y, x_test, y_test = bins
    answer = probabilities(name, x, y, x_test, n_classes=3, quick=True, seed=0)
    assert answer.shape == (60, 3)
    assert answer.sum(axis=1) == pytest.approx(1.0)
    assert (answer.argmax(axis=1) == y_test).mean() > 0.5


def test_a_class_that_training_lacks_has_no_probability(bins):
    x, y, x_test, _ = bins
    answer = probabilities("lr", x, np.where(y == 1, 4, y), x_test, n_classes=6, quick=True, seed=0)
    assert answer.sum(axis=1) == pytest.approx(1.0)
    assert not answer[:, [1, 3, 5]].any()


@pytest.mark.filterwarnings("ignore:The least populated class")
@pytest.mark.parametrize("name", PEERS)
def test_a_class_of_a_single_row_is_fitted_like_any_other(bins, name):
    x, y, _, _ = bins
    y = np.where(np.arange(len(y)) == 7, 5, y)
    assert fit_peer(name, x, y, quick=True, seed=0).classes.tolist() == [0, 1, 2, 5]


def test_a_level_that_only_the_test_has_is_read_as_the_first(bins):
    x, y, _, _ = bins
    peer = fit_peer("lr", x, y, quick=True, seed=0)
    known, unknown = peer.predict_proba(np.array([[0, 1, 1], [9, 1, 1]]))
    assert known == pytest.approx(unknown)


def test_the_same_seed_gives_the_same_peer(bins):
    x, y, x_test, _ = bins
    first, second = (fit_peer("mlp", x, y, quick=True, seed=3).predict_proba(x_test) for _ in range(2))
    assert np.array_equal(first, second)


def test_the_grids_name_every_peer_and_the_quick_ones_are_small():
    assert set(PUBLISHED) == set(QUICK) == set(PEERS)
    assert [int(np.prod([len(v) for v in PUBLISHED[name].values()])) for name in PEERS] == [1, 18, 27, 9]
    assert all(np.prod([len(v) for v in QUICK[name].values()]) <= 2 for name in PEERS)


@pytest.mark.parametrize("name", ["rf", "gb", "mlp"])
def test_settings_that_share_a_fit_are_chosen_as_by_a_grid_search(bins, many_bins, name):
    x, y = many_bins if name == "gb" else bins[:2]
    trees = {"n_estimators": [3, 12, 7]}
    grid = {
        "rf": {"criterion": ["gini", "entropy"], "max_depth": [1, None], **trees},
        "gb": {"learning_rate": [0.1, 1.0], "max_depth": [1, 3], **trees},
        "mlp": {"alpha": [1e-4, 1.0], "hidden_layer_sizes": [(2,), (8,)]},
    }[name]
    pipeline, settings = peers.prepare(name, grid, seed=1)
    search = GridSearchCV(pipeline, [{k: [v] for k, v in s.items()} for s in settings], cv=StratifiedKFold(5))
    with peers.quiet():
        found, expected = peers.cross_validate(pipeline, settings, x, y), search.fit(x, y)
    assert found == pytest.approx(expected.cv_results_["mean_test_score"])
    assert settings[int(found.argmax())] == expected.best_params_


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("rate", [0.1, 1.0])
def test_boosting_is_scikit_learns_stage_by_stage(many_bins, depth, rate):
    x, y = many_bins
    how = {"learning_rate": rate, "max_depth": depth, "n_estimators": 6}
    encode = OneHotEncoder(drop="first").fit(x[:2500])
    expected = GradientBoostingClassifier(**how).fit(encode.transform(x[:2500]), y[:2500])
    found = boost_in_stages(x[:2500], y[:2500], x[2500:], **how)
    for ours, theirs in zip(found, expected.staged_predict(encode.transform(x[2500:])), strict=True):
        assert np.array_equal(ours, theirs)


def test_boosting_reads_a_level_it_never_saw_as_the_first_and_keeps_the_names_of_classes(many_bins):
    x, y = many_bins
    asked = x[:50].copy()
    asked[:, 2] = 0
    unseen = asked.copy()
    unseen[:, 2] = 9
    how = {"learning_rate": 1.0, "max_depth": 2, "n_estimators": 3}
    known, unknown = (np.array(list(boost_in_stages(x, y * 7, rows, **how))) for rows in (asked, unseen))
    assert np.array_equal(known, unknown)
    assert set(known.ravel()) <= {0, 7, 14, 21}


def test_boosting_stops_where_nothing_is_left_to_split():
    """Pure nodes, nodes of equal rows and a feature of one level: as scikit-learn has it, without a warning."""
    x = np.array([[0, 1], [1, 1], [2, 1], [2, 1]])
    y = np.array([0, 1, 2, 2])
    *_, last = boost_in_stages(x, y, x, learning_rate=1.0, max_depth=5, n_estimators=30)
    assert np.array_equal(last, y)


def test_two_classes_are_boosted_by_scikit_learn_alone(bins):
    x, y, x_test, y_test = bins
    with pytest.raises(ValueError, match="2 classes"):
        next(boost_in_stages(x, y > 0, x_test, learning_rate=0.1, max_depth=1, n_estimators=1))
    peer = fit_peer("gb", x, (y > 0).astype(int), quick=True, seed=0)
    assert (peer.predict_proba(x_test).argmax(1) == (y_test > 0)).mean() > 0.5


def test_the_car_table_is_the_papers():
    x, y, x_test, y_test, names = load_cars()
    assert len(y) + len(y_test) == 385
    assert (x.shape, x_test.shape) == ((245, 6), (140, 6))
    assert names == ["cylinders", "displacement", "horsepower", "weight", "acceleration", "year"]
    assert np.bincount(y).tolist() == [125, 83, 37]
    assert np.bincount(y_test).tolist() == [4, 52, 84]
    assert {int(level) for level in np.unique(x)} == {0, 1, 2}
    assert np.bincount(x[:, 0]).tolist() == [69, 73, 103]


def test_logistic_regression_on_the_cars_is_the_published_one():
    x, y, x_test, y_test, _ = load_cars()
    guess = probabilities("lr", x, y, x_test, n_classes=3, quick=False, seed=42).argmax(axis=1)
    assert (guess == y_test).mean() == pytest.approx(0.657, abs=0.001)
    assert ((guess - y_test) ** 2).mean() == pytest.approx(0.343, abs=0.001)


@pytest.mark.parametrize("case", STOPS)
def test_the_recorded_figures_are_complete(case):
    records = load_recorded(case)
    assert {(record.method, record.metric) for record in records} == {(m, k) for m in CONFIGS for k in METRICS}
    assert {record.source for record in records} == {"recorded"}
    assert all(record.seeds >= 5 for record in records)
    assert all(0 <= record.value <= 1 for record in records if record.metric == "accuracy")


def test_the_recorded_file_says_when_and_with_what_it_was_made():
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    assert recorded["date"] >= "2026-11-16"
    assert recorded["versions"]["pytorch_tabular"]
    for figures in (run for runs in recorded["runs"].values() for run in runs.values()):
        assert len(set(figures["seed"])) == len(figures["accuracy"])
        assert 0 not in figures["seed"]
