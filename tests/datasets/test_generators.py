"""Generators: data follow the written definitions."""

import numpy as np
import pytest

from bagwise import datasets

MAKERS = [
    datasets.make_bags,
    datasets.make_key_instance_bags,
    datasets.make_generalized_bags,
    datasets.make_safe_toy,
    datasets.make_multi_site_binding,
]


@pytest.mark.parametrize("make", MAKERS, ids=lambda m: m.__name__)
def test_common_behaviour(make):
    X, y, z = make(n_bags=20, random_state=5, return_instance_labels=True)
    assert X.n_bags == 20
    assert y.shape == (20,)
    assert y.sum() == 10
    assert np.isfinite(X.data).all()
    np.testing.assert_array_equal(z.offsets, X.offsets)
    again = make(n_bags=20, random_state=5)
    np.testing.assert_array_equal(again[0].data, X.data)
    np.testing.assert_array_equal(again[1], y)
    other = make(n_bags=20, random_state=6)[0]
    assert other.data.shape != X.data.shape or not np.allclose(other.data, X.data)
    with pytest.raises(ValueError, match="n_bags"):
        make(n_bags=0)


def test_make_bags_shifts_witnesses_by_class():
    X, y, z = datasets.make_bags(
        700,
        n_features=2,
        n_classes=7,
        shift=50.0,
        n_witnesses=2,
        random_state=0,
        return_instance_labels=True,
    )
    expected = {
        0: (0, 0),
        1: (50, 0),
        2: (0, 50),
        3: (-50, 0),
        4: (0, -50),
        5: (100, 0),
        6: (0, 100),
    }
    assert np.bincount(y).tolist() == [100] * 7
    for label, center in expected.items():
        mean = X.data[z.values == label].mean(axis=0)
        np.testing.assert_allclose(mean, center, atol=0.5)
    for bag_label, labels in zip(y, z, strict=True):
        witnesses = labels[labels > 0]
        assert len(witnesses) == (2 if bag_label else 0)
        assert (witnesses == bag_label).all()


def test_key_instances_are_one_per_positive_bag_and_elsewhere_alike():
    X, y, z = datasets.make_key_instance_bags(
        400, noise=0.01, random_state=0, return_instance_labels=True
    )
    assert [int(k.sum()) for k in z] == y.tolist()
    keys = X.data[z.values == 1]
    assert np.linalg.norm(keys - keys.mean(axis=0), axis=1).max() < 0.1
    others, bag_label = X.data[z.values == 0], y[X.bag_index][z.values == 0]
    centers = np.unique(others.round(0), axis=0)
    assert len(centers) < 60
    gap = others[bag_label == 1].mean(axis=0) - others[bag_label == 0].mean(axis=0)
    assert np.abs(gap).max() < 0.2


@pytest.mark.parametrize(
    ("k", "k2", "r"), [(3, 2, None), (1, 0, 1), (4, 0, 4), (2, 3, 4), (0, 2, 1)]
)
def test_generalised_labels_by_brute_force(k, k2, r):
    radius = 0.25
    X, y = datasets.make_generalized_bags(
        60,
        n_features=3,
        n_attraction=k,
        n_repulsion=k2,
        r=r,
        radius=radius,
        random_state=1,
    )
    rng = np.random.RandomState(1)
    attraction, repulsion = rng.uniform(size=(k, 3)), rng.uniform(size=(k2, 3))
    for bag, label in zip(X, y, strict=True):

        def near(point, bag=bag):
            return any(max(abs(x - point)) <= radius for x in bag)

        held = sum(near(a) for a in attraction) + sum(not near(b) for b in repulsion)
        assert label == (held >= (k if r is None else r))


def test_generalised_radius_makes_half_positive():
    for seed in range(5):
        _, y = datasets.make_generalized_bags(200, random_state=seed)
        assert y.sum() == 100


def test_generalised_r_out_of_range():
    with pytest.raises(ValueError, match=r"between 1 and .* = 5, got 6"):
        datasets.make_generalized_bags(r=6)


def test_safe_toys_have_the_published_difficulty():
    X, y, z = datasets.make_safe_toy(
        2, 20000, random_state=0, return_instance_labels=True
    )
    # The best rule compares the mean of the first feature with 2.
    best = (X.data[:, 0].reshape(-1, 5).mean(axis=1) > 2) == y
    # Phi(1.1 * sqrt(5)) = 0.99305; five standard errors of a share of 20,000.
    assert abs(best.mean() - 0.99305) < 5 * np.sqrt(0.99305 * 0.00695 / 20000)
    # Clusters overlap beyond 3.75 standard deviations: 9 in 100,000 instances.
    assert ((X.data[:, 1] > 4.5) != (z.values == 1)).mean() < 3e-4
    assert abs(np.corrcoef(z.values, y[X.bag_index])[0, 1]) < 0.02
    X, y, z = datasets.make_safe_toy(
        1, 20000, random_state=0, return_instance_labels=True
    )
    wrong = (X.data.sum(axis=1) < 6.3) != z.values
    assert abs(wrong.mean() - 0.0148) < 0.002
    np.testing.assert_array_equal(z.values, y[X.bag_index])
    with pytest.raises(ValueError, match="variant"):
        datasets.make_safe_toy(3)


def _energy(x, t, sigma):
    total = 0.0
    for xj, tj in zip(x, t, strict=True):
        u = max(sigma, 2 ** (1 / 6) * sigma + tj - xj)
        q = (sigma / u) ** 6
        total += 4 * (q - q**2)
    return total / len(x)


def test_planted_molecules_bind_as_labelled():
    X, y, z = datasets.make_multi_site_binding(
        40, variant="B", n_sites=3, random_state=2, return_instance_labels=True
    )
    sites = np.random.RandomState(2).uniform(size=(3, 5))
    assert all(3 <= size <= 5 for size in X.sizes)
    for bag, label, binds in zip(X, y, z, strict=True):
        energy = np.array([[_energy(x, t, 0.5) for t in sites] for x in bag])
        assert label == (energy.max(axis=0) >= 0.5).all()
        assert binds.tolist() == (energy >= 0.5).any(axis=1).tolist()


def test_uniform_molecules_have_one_width_that_fits_all_labels():
    X, y = datasets.make_multi_site_binding(60, variant="A", random_state=4)
    sites = np.random.RandomState(4).uniform(size=(4, 5))
    assert set(X.sizes.tolist()) <= {3, 4, 5}
    assert X.data.min() >= 0
    assert X.data.max() <= 1
    assert y.sum() == 30
    fits = []
    for sigma in np.geomspace(0.05, 20, 400):
        energy = np.array([[_energy(x, t, sigma) for t in sites] for x in X.data[:40]])
        bound = [
            (energy[a:b].max(axis=0) >= 0.5).all()
            for a, b in zip(X.offsets[:-1], X.offsets[1:], strict=True)
            if b <= 40
        ]
        fits.append(bound == y[: len(bound)].astype(bool).tolist())
    assert any(fits)
    with pytest.raises(ValueError, match="variant"):
        datasets.make_multi_site_binding(variant="C")


def test_nothing_heavy_is_imported():
    import subprocess
    import sys

    code = (
        "import sys; import sklearn.utils, sklearn.datasets; before = set(sys.modules);"
        "import bagwise.datasets; new = {m.split('.')[0] for m in set(sys.modules)"
        " - before}; print(new & {'pooch', 'requests', 'pyarrow', 'polars', 'pandas'})"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "set()"
