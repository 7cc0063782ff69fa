"""Histograms, VLAD and Fisher vectors against their definitions."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import logsumexp

from bagwise.bags import Bags
from bagwise.datasets import make_bags
from bagwise.embedding import BagOfWords, MiFV, MiVLAD
from bagwise.embedding.codebooks import EnergyProjection, distinct_rows, power_l2


@pytest.fixture
def bags():
    X, _ = make_bags(25, n_features=4, bag_size=(1, 7), random_state=0)
    return X


# Bag of words ---------------------------------------------------------------------


@pytest.mark.parametrize("soft", [False, True])
def test_histograms_sum_to_one(bags, soft):
    plain = BagOfWords(6, soft=soft, hellinger=False, random_state=0)
    H = plain.fit_transform(bags)
    np.testing.assert_allclose(H.sum(axis=1), 1.0, atol=1e-12)
    assert (H >= 0).all()
    root = BagOfWords(6, soft=soft, random_state=0).fit_transform(bags)
    np.testing.assert_allclose(root**2, H, atol=1e-12)


def test_histogram_counts_the_nearest_centres(bags):
    model = BagOfWords(6, hellinger=False, random_state=0).fit(bags)
    for bag, row in zip(bags, model.transform(bags), strict=True):
        gap = ((bag[:, None] - model.cluster_centers_) ** 2).sum(axis=2)
        count = np.bincount(gap.argmin(axis=1), minlength=6)
        np.testing.assert_allclose(row, count / len(bag), atol=1e-12)


def test_soft_shares_are_the_definition(bags):
    model = BagOfWords(5, soft=True, hellinger=False, random_state=0).fit(bags)
    centers = model.cluster_centers_
    gap = ((bags.data[:, None] - centers) ** 2).sum(axis=2)
    assert model.width_ == pytest.approx(gap.min(axis=1).mean(), rel=1e-9)
    share = np.exp(-gap / model.width_)
    share /= share.sum(axis=1, keepdims=True)
    expected = [share[bags.bag_index == i].mean(axis=0) for i in range(len(bags))]
    np.testing.assert_allclose(model.transform(bags), expected, atol=1e-10)


def test_one_cluster_is_constant(bags):
    np.testing.assert_allclose(BagOfWords(1, random_state=0).fit_transform(bags), 1.0)


def test_as_many_clusters_as_instances_is_an_indicator():
    """Five distinct instances, some shared by bags; more clusters are asked for."""
    points = np.arange(5.0)[:, None] ** 2
    members = [[0, 1], [1, 1, 2], [3], [4, 0]]
    X = Bags.from_list([points[m] for m in members])
    model = BagOfWords(50, hellinger=False, random_state=0)
    H = model.fit_transform(X)
    assert H.shape == (4, 5)
    # Every distinct point has a column of its own, the same in all bags.
    alone = Bags(points, np.arange(6))
    column = model.transform(alone).argmax(axis=1)
    assert len(set(column)) == 5
    for m, row in zip(members, H, strict=True):
        expected = np.bincount(m, minlength=5) / len(m)
        np.testing.assert_allclose(row[column], expected, atol=1e-12)


def test_sparse_histograms(bags):
    data = np.where(np.abs(bags.data) < 0.5, 0.0, bags.data)
    dense, sparse = bags.with_data(data), bags.with_data(sp.csr_matrix(data))
    model = BagOfWords(6, random_state=0).fit(dense)
    np.testing.assert_allclose(model.transform(dense), model.transform(sparse))
    H = BagOfWords(6, hellinger=False, random_state=0).fit_transform(sparse)
    np.testing.assert_allclose(H.sum(axis=1), 1.0)


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix])
def test_distinct_rows_are_counted(layout):
    data = layout(np.array([[0.0, 1.0], [-0.0, 1.0], [2.0, 0.0], [0.0, 1.0]]))
    assert distinct_rows(data, 10) == 2
    assert distinct_rows(data, 1) == 1


# The projection -------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(60, 5), (4, 9)])
@pytest.mark.parametrize("energy", [0.5, 0.9, 1.0])
def test_projection_keeps_the_share_of_variance(shape, energy):
    rng = np.random.default_rng(0)
    data = rng.normal(size=shape) * np.arange(1, shape[1] + 1) + 100.0
    project = EnergyProjection.of_rows(data, energy)
    Z = project(data)
    total = data.var(axis=0).sum()
    kept = Z.var(axis=0)
    assert (np.diff(kept) <= 1e-9 * total).all()
    assert kept.sum() >= (energy - 1e-9) * total
    assert kept[:-1].sum() < energy * total
    np.testing.assert_allclose(
        project.axes @ project.axes.T, np.eye(Z.shape[1]), atol=1e-9
    )
    np.testing.assert_allclose(Z.mean(axis=0), 0.0, atol=1e-9)
    assert project.variance == pytest.approx(kept.mean(), rel=1e-9)


def test_projection_drops_directions_of_rounding():
    rng = np.random.default_rng(0)
    data = rng.normal(size=(50, 2)) @ rng.normal(size=(2, 6))
    assert EnergyProjection.of_rows(data, 1.0).axes.shape[0] == 2


def test_power_l2_leaves_zero_alone():
    rows = power_l2(np.array([[0.0, 0.0], [4.0, -9.0]]))
    np.testing.assert_allclose(rows, [[0, 0], [2, -3] / np.sqrt(13)])


# miVLAD ---------------------------------------------------------------------------


def test_vlad_with_one_cluster_is_the_sum_of_centred_rows(bags):
    model = MiVLAD(1, random_state=0).fit(bags)
    Z = (bags.data - bags.data.mean(axis=0)) @ model.components_.T
    sums = np.array([Z[bags.bag_index == i].sum(axis=0) for i in range(len(bags))])
    np.testing.assert_allclose(model.transform(bags), power_l2(sums), atol=1e-6)


def test_vlad_blocks_are_the_definition(bags):
    model = MiVLAD(3, energy=1.0, random_state=0).fit(bags)
    centers = model.cluster_centers_
    Z = (bags.data - bags.data.mean(axis=0)) @ model.components_.T
    rows = np.zeros((len(bags), *centers.shape))
    for z, i in zip(Z, bags.bag_index, strict=True):
        k = ((z - centers) ** 2).sum(axis=1).argmin()
        rows[i, k] += z - centers[k]
    expected = power_l2(rows.reshape(len(bags), -1))
    np.testing.assert_allclose(model.transform(bags), expected, atol=1e-9)


@pytest.mark.parametrize("cls", [MiVLAD, MiFV])
def test_rows_have_unit_length(bags, cls):
    rows = cls(2, random_state=0).fit_transform(bags)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize("cls", [MiVLAD, MiFV])
def test_repeated_instances_change_nothing_with_one_centre(bags, cls):
    twice = Bags.from_list([np.repeat(b, 2, axis=0) for b in bags])
    a = cls(1, random_state=0).fit(bags).transform(bags)
    b = cls(1, random_state=0).fit(twice).transform(bags)
    np.testing.assert_allclose(a, b, atol=1e-7)


@pytest.mark.parametrize("cls", [MiVLAD, MiFV])
def test_identical_instances_do_not_break_the_codebook(cls):
    X = Bags(np.full((2000, 3), 0.1), np.arange(0, 2001, 4))
    rows = cls(3, random_state=0).fit_transform(X)
    assert np.isfinite(rows).all()


# miFV -----------------------------------------------------------------------------


def mean_log_likelihood(Z, weights, means, deviations):
    u = (Z[:, None] - means) / deviations
    log_density = -0.5 * (u**2 + np.log(2 * np.pi)).sum(axis=2)
    log_density -= np.log(deviations).sum(axis=1)
    return logsumexp(log_density + np.log(weights), axis=1).mean()


@pytest.mark.parametrize("n_components", [1, 3])
def test_fisher_blocks_are_scaled_gradients(bags, n_components):
    """Block k: sigma / sqrt(pi) times d/dmu, sigma / sqrt(2 pi) times d/dsigma."""
    model = MiFV(n_components, energy=1.0, random_state=0).fit(bags)
    mixture = model.mixture_
    deviations = np.sqrt(mixture.covariances_)
    Z = (bags.data - bags.data.mean(axis=0)) @ model.components_.T
    fisher = model._fisher(bags).reshape(len(bags), n_components, 2, -1)
    step = 1e-5
    for i in (0, 7, 20):
        own = Z[bags.bag_index == i]
        for k, pi in enumerate(mixture.weights_):
            for j in range(Z.shape[1]):
                slopes = []
                for which in range(2):
                    ends = []
                    for sign in (1, -1):
                        moved = [mixture.means_.copy(), deviations.copy()]
                        moved[which][k, j] += sign * step
                        ends.append(mean_log_likelihood(own, mixture.weights_, *moved))
                    slopes.append((ends[0] - ends[1]) / (2 * step))
                scale = deviations[k, j] / np.sqrt(pi)
                expected = [slopes[0] * scale, slopes[1] * scale / np.sqrt(2)]
                np.testing.assert_allclose(fisher[i, k, :, j], expected, atol=1e-7)


def test_fisher_vectors_of_the_training_set_add_up_to_zero(bags):
    """One Gaussian at its maximum of the likelihood: no pull in the mean."""
    model = MiFV(1, energy=1.0, random_state=0).fit(bags)
    total = bags.sizes @ model._fisher(bags)
    half = len(total) // 2
    np.testing.assert_allclose(total[:half], 0.0, atol=1e-8)
    # The floor of the variances, a ten-thousandth of their mean, is all that is left.
    floor = 1e-4 * model._project.variance
    variance = model.mixture_.covariances_[0]
    left = bags.n_instances * -floor / variance / np.sqrt(2)
    np.testing.assert_allclose(total[half:], left, rtol=1e-6, atol=1e-8)


def test_units_do_not_matter(bags):
    """Scaling all features by one factor leaves the Fisher vectors as they are."""
    large = bags.with_data(1e4 * bags.data)
    a = MiFV(2, random_state=0).fit_transform(bags)
    b = MiFV(2, random_state=0).fit_transform(large)
    np.testing.assert_allclose(a, b, atol=1e-5)
