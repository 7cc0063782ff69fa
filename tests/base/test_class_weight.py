"""A class weight is the same as this sample weight for all bags of the class."""

import numpy as np
import pytest

from bagwise import Bags
from bagwise.decomposition import MIDR
from bagwise.least_squares import SAFE, SAFECV
from bagwise.linear_model import MILogisticRegression
from bagwise.svm import KISVM, MISVM, BagSVC, MiSVM

MODELS = [
    SAFE(),
    SAFE(variance_weight=0.5),
    SAFECV([0.3], rhos=[3.0, 30.0], cv=3),
    BagSVC(),
    MISVM(),
    MiSVM(kernel="linear"),
    KISVM(random_state=0, threshold="zero"),
    MILogisticRegression(random_state=0),
    MIDR(2, random_state=0),
]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    bags = [rng.normal(0.7 * k, 1.0, (rng.integers(1, 5), 3)) for k in y]
    return Bags.from_list(bags), y


@pytest.mark.parametrize("model", MODELS, ids=lambda m: type(m).__name__)
def test_class_weight_is_sample_weight(model, data):
    X, y = data
    count = np.random.default_rng(1).integers(1, 4, len(y)).astype(float)
    balanced = {k: count.sum() / (2.0 * count[y == k].sum()) for k in (0, 1)}
    for class_weight, factor in (
        ({0: 1.0, 1: 2.0}, {0: 1.0, 1: 2.0}),
        ("balanced", balanced),
    ):
        model.set_params(class_weight=class_weight)
        found = model.fit(X, y, sample_weight=count).decision_function(X)
        model.set_params(class_weight=None)
        weight = count * np.array([factor[label] for label in y])
        expected = model.fit(X, y, sample_weight=weight).decision_function(X)
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)
