"""LS-SVM, kernel spectral clustering and the two-stage method made of them."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_blobs, make_circles
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.pairwise import euclidean_distances, rbf_kernel
from sklearn.pipeline import make_pipeline

from bagwise.datasets import make_safe_toy
from bagwise.embedding import SoftKSCEmbedding
from bagwise.least_squares import LSSVC, SAFE, KernelSpectralClustering


@pytest.fixture
def rows():
    """Three overlapping classes."""
    X, y = make_blobs(90, centers=3, cluster_std=2.0, random_state=0)
    return X, np.array(["x", "y", "z"])[y]


def test_lssvc_solves_its_system(rows):
    X, y = rows
    model = LSSVC(2.0, gamma=0.1).fit(X, y)
    K = rbf_kernel(X, gamma=0.1)
    system = np.ones((91, 91))
    system[:-1, :-1] = K + np.eye(90) / 2.0
    system[-1, -1] = 0.0
    for k, label in enumerate(model.classes_):
        right = np.append(np.where(y == label, 1.0, -1.0), 0.0)
        solution = np.linalg.solve(system, right)
        np.testing.assert_allclose(model.dual_coef_[k], solution[:-1], atol=1e-9)
        assert model.intercept_[k] == pytest.approx(solution[-1])
    precomputed = LSSVC(2.0, kernel="precomputed").fit(K, y)
    np.testing.assert_allclose(
        precomputed.decision_function(K), model.decision_function(X), atol=1e-9
    )


def test_lssvc_is_kernel_ridge_on_labels_without_their_intercept(rows):
    X, y = rows
    two = y != "z"
    model = LSSVC(2.0, gamma=0.1).fit(X[two], y[two])
    target = np.where(y[two] == "y", 1.0, -1.0) - model.intercept_[0]
    ridge = KernelRidge(alpha=0.5, kernel="rbf", gamma=0.1).fit(X[two], target)
    np.testing.assert_allclose(
        model.decision_function(X), ridge.predict(X) + model.intercept_[0], atol=1e-8
    )


def test_lssvc_leave_one_out_is_exact(rows):
    X, y = rows
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    model = LSSVC(gamma=0.1).fit(X, y, sample_weight=weight)
    for i in (0, 17, 64):
        keep = np.arange(len(y)) != i
        rest = LSSVC(gamma=0.1).fit(X[keep], y[keep], sample_weight=weight[keep])
        np.testing.assert_allclose(
            model.leave_one_out_decision_[i],
            rest.decision_function(X[[i]])[0],
            atol=1e-9,
        )


def test_lssvc_takes_sparse_rows(rows):
    X, y = rows
    dense = LSSVC(kernel="linear").fit(X, y).decision_function(X)
    sparse = sp.csr_array(X)
    np.testing.assert_allclose(
        LSSVC(kernel="linear").fit(sparse, y).decision_function(sparse), dense
    )


def test_clustering_solves_its_eigenproblem():
    X, _ = make_blobs(60, centers=3, random_state=1)
    model = KernelSpectralClustering(3, gamma=0.2).fit(X)
    omega = rbf_kernel(X, gamma=0.2)
    inverse = 1.0 / omega.sum(axis=1)
    M = np.eye(60) - np.outer(np.ones(60), inverse) / inverse.sum()
    left = inverse[:, None] * (M @ omega @ model.dual_coef_.T)
    np.testing.assert_allclose(left, model.eigenvalues_ * model.dual_coef_.T, atol=1e-9)
    values = np.linalg.eigvals(inverse[:, None] * (M @ omega)).real
    np.testing.assert_allclose(model.eigenvalues_, np.sort(values)[::-1][:2])
    # The intercept makes the weighted mean of the scores vanish.
    np.testing.assert_allclose(inverse @ model.transform(X), 0.0, atol=1e-10)


@pytest.mark.parametrize("n_components", [None, 60])
@pytest.mark.parametrize("spread", [0.5, 0.7])
def test_clustering_is_as_good_as_knowing_the_centres(spread, n_components):
    X, y, centers = make_blobs(
        600, centers=3, cluster_std=spread, random_state=2, return_centers=True
    )
    # The best possible rule for these blobs; at 0.7 they overlap and it errs as well.
    best = euclidean_distances(X, centers).argmin(axis=1)
    train, new = slice(300), slice(300, None)
    model = KernelSpectralClustering(
        3, gamma=0.5, n_components=n_components, random_state=0
    ).fit(X[train])
    possible = adjusted_rand_score(y[new], best[new])
    soft = model.memberships(X[new])
    assert adjusted_rand_score(y[train], model.labels_) >= adjusted_rand_score(
        y[train], best[train]
    )
    assert adjusted_rand_score(y[new], model.predict(X[new])) >= possible
    assert adjusted_rand_score(y[new], soft.argmax(axis=1)) >= possible
    np.testing.assert_allclose(soft.sum(axis=1), 1.0)
    assert (soft >= 0).all()
    np.testing.assert_array_equal(model.predict(X[train]), model.labels_)


def test_memberships_bear_a_wide_kernel_better_than_signs():
    X, y = make_blobs(600, centers=3, cluster_std=0.7, random_state=2)
    model = KernelSpectralClustering(3, gamma=0.2).fit(X[:300])
    hard = adjusted_rand_score(y[300:], model.predict(X[300:]))
    soft = adjusted_rand_score(y[300:], model.memberships(X[300:]).argmax(axis=1))
    assert soft > 0.95 > 0.9 > hard


def test_clustering_follows_rings():
    X, y = make_circles(300, noise=0.03, factor=0.3, random_state=0)
    model = KernelSpectralClustering(2, gamma=20.0).fit(X)
    assert adjusted_rand_score(y, model.labels_) == 1.0
    alone = model.memberships(X)
    np.testing.assert_array_equal(alone.argmax(axis=1), model.labels_)


def test_clustering_refuses_degrees_that_are_not_positive():
    with pytest.raises(ValueError, match=r"row 2 .*Use kernel='rbf'"):
        KernelSpectralClustering(kernel="linear").fit([[1.0], [2.0], [-1.0]])


def test_embedding_is_the_mean_membership():
    X, _ = make_safe_toy(1, 30, random_state=0)
    embedding = SoftKSCEmbedding(2, gamma=5.0).fit(X)
    soft = embedding.clustering_.memberships(X.data)
    expected = soft.reshape(30, 5, 2).mean(axis=1)
    np.testing.assert_allclose(embedding.transform(X), expected)
    assert list(embedding.get_feature_names_out()) == [
        "softkscembedding0",
        "softkscembedding1",
    ]


def test_two_stages_fail_where_clusters_are_not_classes():
    for variant, at_least, at_most in ((1, 0.95, 1.0), (2, 0.4, 0.75)):
        X, y, z = make_safe_toy(
            variant, 200, random_state=0, return_instance_labels=True
        )
        new, y_new = make_safe_toy(variant, 400, random_state=1)
        two_stage = make_pipeline(SoftKSCEmbedding(2, gamma=1.0), LSSVC(10.0)).fit(X, y)
        assert at_least <= two_stage.score(new, y_new) <= at_most
        clusters = two_stage[0].clustering_.labels_
        assert adjusted_rand_score(z.values, clusters) > 0.6
        assert SAFE(gamma=1.0).fit(X, y).score(new, y_new) > 0.98
