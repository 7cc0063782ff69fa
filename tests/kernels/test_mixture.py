import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.mixture import GaussianMixture

from bagwise.datasets import make_generalized_bags
from bagwise.kernels import ppmm_kernel
from bagwise.svm import BagSVC
from bagwise.svm._bag_svc import candidate_scores


@pytest.fixture
def mixture(rng):
    return GaussianMixture(3, covariance_type="diag", random_state=0).fit(
        rng.normal(size=(60, 3))
    )


@pytest.mark.parametrize("p", [0.3, 1.0, 2.0, 5.0])
def test_equals_the_powers_of_mean_posteriors(make, mixture, p):
    X, Y = make([1, 4, 7]), make([2, 1])

    def q(Z):
        return np.array([mixture.predict_proba(b).mean(axis=0) ** p for b in Z])

    params = {"mixture": mixture, "p": p, "kernel": "linear"}
    assert_allclose(ppmm_kernel(X, Y, **params), q(X) @ q(Y).T, rtol=1e-12)
    K = ppmm_kernel(X, **params)
    assert_array_equal(K, K.T)
    assert np.linalg.eigvalsh(K).min() > -1e-12


def test_the_mixture_is_that_of_the_reference_bags(make):
    train, test = make([5, 4, 6, 8, 7]), make([3, 2])
    K = ppmm_kernel(train, n_components=2)
    assert_allclose(ppmm_kernel(train[:2], train, n_components=2), K[:2], rtol=1e-12)
    both = ppmm_kernel(test, train, n_components=2)
    assert_allclose(ppmm_kernel(test[1:], train, n_components=2), both[1:], rtol=1e-12)


def test_alignment_chooses_the_power_by_brute_force():
    X, y = make_generalized_bags(40, n_features=2, random_state=0)
    labels = np.array(["no", "yes"])[y]
    params = {"n_components": 8, "p": "alignment"}
    model = BagSVC(kernel="ppmm", kernel_params=params).fit(X, labels)
    target = np.outer(2.0 * y - 1.0, 2.0 * y - 1.0)

    def cosine(p):
        K = ppmm_kernel(X, n_components=8, p=p)
        return (K * target).sum() / np.sqrt((K * K).sum() * (target * target).sum())

    steps = [0.3 * k for k in range(1, 11)]
    found = model.kernel_params_["p"]
    assert found == pytest.approx(steps[int(np.argmax([cosine(p) for p in steps]))])
    plain = BagSVC(kernel="ppmm", kernel_params={"n_components": 8, "p": found})
    plain.fit(X, labels)
    assert_allclose(
        model.decision_function(X), plain.decision_function(X), rtol=1e-7, atol=1e-9
    )
    # Folds of a search find their own: labels of test bags are not seen.
    assert candidate_scores(model, [{"C": 1.0}], X, labels, [], "accuracy") is None


def test_bad_parameters(make, as_csr):
    X = make([3, 3])
    with pytest.raises(ValueError, match="p must be a number above 0"):
        ppmm_kernel(X, p=0.0)
    with pytest.raises(ValueError, match="needs the labels"):
        ppmm_kernel(X, p="alignment")
    with pytest.raises(ValueError, match="p must be a number above 0"):
        ppmm_kernel(X, p="other")
    with pytest.raises(ValueError, match="n_components must be an integer"):
        ppmm_kernel(X, n_components=0)
    with pytest.raises(TypeError, match="TruncatedSVD"):
        ppmm_kernel(as_csr(X))
