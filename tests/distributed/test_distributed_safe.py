"""SAFE on partitions equals local fits."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from bagwise.bags import Bags
from bagwise.distributed import fit
from bagwise.least_squares import LSSVC, SAFE

dask = pytest.importorskip("dask")


def assert_same(model, local, X):
    np.testing.assert_allclose(
        model.decision_function(X), local.decision_function(X), rtol=1e-10, atol=1e-10
    )
    np.testing.assert_allclose(model.coef_, local.coef_, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(model.intercept_, local.intercept_, rtol=1e-10)
    assert model.gamma_max_ == pytest.approx(local.gamma_max_, rel=1e-10)
    assert model.rho_ == pytest.approx(local.rho_, rel=1e-12)
    assert model.kernel_gamma_ == pytest.approx(local.kernel_gamma_, rel=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {"kernel": "linear", "class_weight": "balanced"},
        {"n_components": 12, "random_state": 0, "variance_weight": 0.5},
        {"n_components": 12, "random_state": 0, "variance_weight": 0.5, "core": "ksc"},
        {"n_components": 12, "random_state": 0, "approximation": "rff"},
        {"n_components": 12, "random_state": 0, "gamma": "median"},
        {
            "landmarks": np.eye(3),
            "gamma": 0.3,
            "class_weight": {0: 1.0, 1: 2.0, 2: 1.0},
        },
    ],
    ids=["linear", "nystroem", "ksc", "rff", "median", "landmarks"],
)
def test_equal_to_a_local_fit(options, draw, cut):
    X, y = draw(n_classes=3)
    weight = np.random.default_rng(1).integers(0, 3, len(y)).astype(float)
    with dask.config.set(scheduler="synchronous"):
        assert_same(fit(SAFE(**options), cut(X, y)), SAFE(**options).fit(X, y), X)
        weighted = fit(SAFE(**options), cut(X, y, weight))
    assert_same(weighted, SAFE(**options).fit(X, y, sample_weight=weight), X)


def test_frames_bags_and_sparse_parts(draw, cut):
    import dask.bag
    import dask.dataframe

    X, y = draw()
    local = SAFE(kernel="linear").fit(X, y)
    frame = pd.DataFrame(X.data, columns=["u", "v", "w"])
    frame["id"], frame["y"] = X.bag_index, y[X.bag_index]
    edges = X.offsets[[0, 20, 40, 60]]
    pieces = [
        dask.delayed(frame.iloc[a:b]) for a, b in zip(edges, edges[1:], strict=False)
    ]
    options = {"bag": "id", "label": "y"}
    with dask.config.set(scheduler="synchronous"):
        table = dask.dataframe.from_delayed(pieces, meta=frame.iloc[:0])
        named = fit(SAFE(kernel="linear"), table, **options)
        assert_same(named, local, X)
        assert list(named.feature_names_in_) == ["u", "v", "w"]
        pairs = dask.bag.from_sequence(zip(X, y, strict=True), npartitions=4)
        assert_same(fit(SAFE(kernel="linear"), pairs), local, X)
        thin = X.with_data(sp.csr_array(X.data))
        assert_same(fit(SAFE(kernel="linear"), cut(thin, y)), local, X)
        torn = [dask.delayed(frame.iloc[:7]), dask.delayed(frame.iloc[7:])]
        assert X.bag_index[6] == X.bag_index[7]
        table = dask.dataframe.from_delayed(torn, meta=frame.iloc[:0])
        with pytest.raises(ValueError, match="in parts 0 and 1: partitions must hold"):
            fit(SAFE(kernel="linear"), table, **options)
        with pytest.raises(ValueError, match="needs bag= and label="):
            fit(SAFE(kernel="linear"), table)


def test_bad_parts_are_named(draw):
    X, y = draw()
    bad = X.data[:5].copy()
    bad[3, 1] = np.nan
    safe = SAFE(kernel="linear")
    with dask.config.set(scheduler="synchronous"):
        with pytest.raises(ValueError, match="Part 1: Input X contains NaN"):
            fit(safe, [(X, y), (Bags(bad, [0, 5]), [1])])
        with pytest.raises(ValueError, match="Part 1 has n_features 2, part 0 has 3"):
            fit(safe, [(X, y), (np.zeros((2, 3, 2)), [0, 1])])
        with pytest.raises(ValueError, match="one class only"):
            fit(safe, [(X[::2], y[::2])])
        with pytest.raises(
            ValueError, match=r"distributed\.fit .* needs explicit features"
        ):
            fit(SAFE(), [(X, y)])
        with pytest.raises(ValueError, match="no parts"):
            fit(safe, [])
        with pytest.raises(TypeError, match="LSSVC cannot be fitted from sums"):
            fit(LSSVC(), [(X, y)])
