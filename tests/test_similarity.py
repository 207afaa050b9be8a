"""Likeness of features, pairs of columns, the map, and analogies."""

import numpy as np
import pytest

from model.analogy import find_analogy
from model.errors import AskError
from model.similarity import find_similar, project, unit_vectors


def test_every_feature_is_most_like_itself(predictor):
    vectors = unit_vectors(predictor.bundle)
    likeness = vectors @ vectors.T
    assert np.diag(likeness) == pytest.approx(1.0)
    assert (likeness.argmax(axis=1) == np.arange(len(likeness))).all()


def test_no_more_similar_features_than_there_are(predictor):
    n_features = len(predictor.schema.features)
    assert len(find_similar(predictor.bundle, "weight", 10_000)) == n_features - 1


def test_the_map_does_not_turn_over(predictor):
    points = project(predictor.bundle)
    assert points.shape == (len(predictor.schema.features), 2)
    assert np.array_equal(points, project(predictor.bundle))
    assert all(points[np.abs(points[:, axis]).argmax(), axis] > 0 for axis in (0, 1))


def test_analogies_name_values_of_features(predictor):
    found = find_analogy(predictor, [("cylinders", "4"), ("cylinders", "8"), ("weight", "2300")], 3)
    likeness = [entry[2] for entry in found]
    assert likeness == sorted(likeness, reverse=True)
    given = {("cylinders", 4.0), ("cylinders", 8.0)}
    assert not given & {(feature, value) for feature, value, _ in found}


@pytest.mark.parametrize(
    ("term", "reason"),
    [(("wieght", "1"), "did you mean 'weight'"), (("weight", "heavy"), "numbers"), (("origin", "9"), "no value '9'")],
)
def test_terms_that_cannot_be_are_refused(predictor, term, reason):
    with pytest.raises(AskError, match=reason):
        find_analogy(predictor, [term, ("weight", "2000"), ("mpg", "20")], 3)
