"""The scikit-learn estimators: scikit-learn's own checks, and what users of mixed tables expect."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from training.estimator import TabglotClassifier, TabglotImputer, TabglotRegressor

QUICK = 12.0


@parametrize_with_checks(
    [TabglotImputer(epochs=QUICK), TabglotClassifier(epochs=QUICK), TabglotRegressor(epochs=QUICK)]
)
def test_scikit_learn_finds_what_it_expects(estimator, check):
    check(estimator)
