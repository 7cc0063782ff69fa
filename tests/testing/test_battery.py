"""The battery, run on an estimator that is not part of this package."""

from unittest import SkipTest

import numpy as np
import pytest
from sklearn.base import ClassifierMixin

from bagwise.base import BaseBagEstimator
from bagwise.compose import SimpleMI
from bagwise.testing import check_bag_estimator
from bagwise.testing._battery import BATTERY
from bagwise.testing._check_models import check_default_threshold, check_model_file


class OutsideSimpleMI(SimpleMI):
    """A class outside of bagwise, which model files do not trust by default."""


class Noise(ClassifierMixin, BaseBagEstimator):
    """Scores that do not depend on the bags."""

    def fit(self, X, y):
        _, y = self._check_bags(X, y, reset=True)
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        return np.random.default_rng(0).normal(size=len(X))


def test_a_class_of_another_package_passes_the_battery():
    skipped = check_bag_estimator(OutsideSimpleMI())
    assert "check_model_file" not in skipped
    assert len(skipped) < len(BATTERY) / 4


def test_a_local_class_is_skipped_with_a_reason():
    class Local(SimpleMI):
        pass

    with pytest.raises(SkipTest, match="inside a function"):
        check_model_file(Local())


def test_a_check_that_compared_nothing_is_skipped():
    with pytest.raises(SkipTest, match="separate no simulated problem"):
        check_default_threshold(Noise())
