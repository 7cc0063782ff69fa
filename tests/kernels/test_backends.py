"""The torch backend on the CPU: the code that a GPU runs, against numpy's."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import bagwise
from bagwise import Bags
from bagwise._config import get_device
from bagwise.datasets import make_bags
from bagwise.embedding import MILES
from bagwise.kernels import hausdorff, set_kernel
from bagwise.kernels._tiles import StackedRows
from bagwise.kernels.backends import active
from bagwise.kernels.basis import fit_basis
from bagwise.least_squares import SAFE
from bagwise.neighbors import CitationKNN
from bagwise.svm import BagSVC

torch = pytest.importorskip("torch")

from bagwise.kernels.backends import _torch, _torch_blocks  # noqa: E402
from bagwise.kernels.backends._torch_blocks import Tiles  # noqa: E402

KERNELS = [
    {"kernel": "rbf", "gamma": 0.2},
    {"kernel": "laplacian", "gamma": 0.1},
    {"kernel": "poly", "gamma": 0.3, "degree": 2, "coef0": 1.0},
    {"kernel": "linear"},
]


@pytest.fixture
def small_tiles(monkeypatch):
    """Several tiles on small data, and a bag that is larger than a tile."""
    monkeypatch.setattr(_torch, "_TILE_CPU", 8)
    monkeypatch.setattr(_torch, "_GROUP", 8)
    from bagwise.kernels import backends

    backends._torch_backend.cache_clear()
    yield
    backends._torch_backend.cache_clear()


def bags(seed, sizes=(3, 1, 12, 5, 4, 2)):
    rng = np.random.default_rng(seed)
    return Bags.from_list([rng.normal(size=(n, 3)) + 5.0 for n in sizes])


def on_torch(function, *args, **kwargs):
    with bagwise.config_context(device="torch"):
        return function(*args, **kwargs)


@pytest.mark.usefixtures("small_tiles")
class TestPrimitives:
    @pytest.mark.parametrize("params", KERNELS, ids=lambda p: p["kernel"])
    @pytest.mark.parametrize("normalization", ["feature", None])
    def test_set_kernel(self, params, normalization):
        X, Y = bags(0), bags(1, (4, 9))
        how = {**params, "normalization": normalization}
        for pair in ((X, None), (X, Y)):
            np.testing.assert_allclose(
                on_torch(set_kernel, *pair, **how), set_kernel(*pair, **how), rtol=1e-9
            )

    def test_weighted_sums(self):
        X = bags(2)
        weight = np.random.default_rng(0).random(X.n_instances)
        stack = StackedRows(X.data, X.offsets, weight)
        params = KERNELS[0]
        expected = active().pair_sums(stack, None, params)
        with bagwise.config_context(device="torch"):
            np.testing.assert_allclose(
                active().pair_sums(stack, None, params), expected, rtol=1e-9
            )
            np.testing.assert_allclose(
                active().self_sums(stack, params), np.diagonal(expected), rtol=1e-9
            )

    @pytest.mark.parametrize("mode", ["min", "max", "mean"])
    def test_hausdorff(self, mode):
        X, Y = bags(3), bags(4, (4, 9))
        for pair in ((X, None), (X, Y), (X, X[::-1])):
            np.testing.assert_allclose(
                on_torch(hausdorff, *pair, mode=mode),
                hausdorff(*pair, mode=mode),
                rtol=1e-9,
                atol=1e-12,
            )
        assert (np.diagonal(on_torch(hausdorff, X, mode=mode)) == 0).all()

    def test_points(self):
        X, points = bags(5), bags(6, (11,)).data
        expected = active().points_to_bags(X, points)
        found = on_torch(lambda: active().points_to_bags(X, points))
        np.testing.assert_allclose(found, expected, rtol=1e-9)

    @pytest.mark.parametrize("params", KERNELS, ids=lambda p: p["kernel"])
    def test_kernel_matrix_and_its_sums(self, params):
        X = bags(7)
        weight = np.random.default_rng(1).random(X.n_instances)
        coef = np.random.default_rng(2).normal(size=(len(X), 2))
        right = np.random.default_rng(3).normal(size=(X.n_instances, 2))
        found = []
        for device in ("cpu", "torch"):
            with bagwise.config_context(device=device):
                K = active().kernel_matrix(X.data, params, "")
                gram, product = K.bag_sums(weight, X.offsets)
                whole = active().kernel_product(X.data, X.data[:4], right[:4], params)
                found.append(
                    (
                        K.to_numpy(),
                        K @ right,
                        K @ right[:, 0],
                        K.diagonal(),
                        gram,
                        product(coef),
                        whole,
                    )
                )
        for ours, theirs in zip(*found, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)

    def test_factorizations(self):
        rng = np.random.default_rng(0)
        root = rng.normal(size=(12, 12))
        matrix = root @ root.T + np.eye(12)
        right = rng.normal(size=(12, 2))
        here = active().cholesky(matrix)
        with bagwise.config_context(device="torch"):
            there = active().cholesky(matrix)
            broken = active().cholesky(-matrix)
            values, vectors = active().eigh(matrix)
        np.testing.assert_allclose(there.solve(right), np.linalg.solve(matrix, right))
        np.testing.assert_allclose(there.solve(right[:, 0]), here.solve(right[:, 0]))
        exact = 1 / (
            np.abs(matrix).sum(axis=0).max()
            * np.abs(np.linalg.inv(matrix)).sum(axis=0).max()
        )
        # An estimate from below of the norm of the inverse, as LAPACK's is.
        assert exact * 0.999 <= there.rcond <= 3 * exact
        assert broken.rcond == 0.0
        np.testing.assert_allclose(values, np.linalg.eigvalsh(matrix))
        np.testing.assert_allclose(vectors * values @ vectors.T, matrix, atol=1e-9)

    def test_sparse_data_stay_with_numpy(self):
        X = bags(8)
        sparse = X.with_data(sp.csr_array(X.data))
        np.testing.assert_array_equal(
            on_torch(set_kernel, sparse, gamma=0.1), set_kernel(sparse, gamma=0.1)
        )
        np.testing.assert_array_equal(on_torch(hausdorff, sparse), hausdorff(sparse))


@pytest.mark.parametrize(
    "model",
    [
        SAFE(gamma=0.1),
        SAFE(gamma=0.1, variance_weight=0.5),
        BagSVC(kernel="set"),
        CitationKNN(),
        MILES(random_state=0),
    ],
    ids=lambda m: type(m).__name__,
)
def test_estimators_know_nothing_of_the_device(model):
    X, y = make_bags(30, n_features=4, random_state=0)
    expected = clone(model).fit(X, y).decision_function(X)
    with bagwise.config_context(device="torch"):
        found = clone(model).fit(X, y).decision_function(X)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_a_basis_from_eigenvectors():
    data = bags(9).data
    expected = fit_basis(data, gamma=0.2, method="eigh").Z
    found = on_torch(fit_basis, data, gamma=0.2, method="eigh").Z
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-8)


def sums_of_blocks(rows, cols, own, others, symmetric):
    """Stand in for the fused kernel, with the blocks that it leaves out spoilt."""
    block = _torch_blocks.BLOCK
    a = slice(own.start * block, own.stop * block)
    b = slice(others.start * block, others.stop * block)
    A, B = ((s.high.double() + s.low.double())[p] for s, p in ((rows, a), (cols, b)))
    power = torch.exp2(A @ B.T - rows.norm[a, None] - cols.norm[None, b])
    shape = (own.stop - own.start, block, others.stop - others.start, block)
    sums = power.reshape(shape).sum(dim=(1, 3))
    if symmetric:
        first = rows.first_of_bag(np.arange(own.start, own.stop))
        later = np.arange(others.start, others.stop)[None, :] >= first[:, None]
        sums[~torch.as_tensor(later)] = 1e6
    return sums.float()


@pytest.mark.parametrize("strip", [2**28, 40])
@pytest.mark.parametrize("symmetric", [True, False])
def test_blocks_of_the_fused_kernel_add_up_to_bags(symmetric, strip, monkeypatch):
    monkeypatch.setattr(_torch_blocks, "_STRIP", strip)
    rng = np.random.default_rng(0)
    X = Bags.from_list([rng.normal(size=(n, 5)) for n in (3, 40, 16, 1, 17, 33, 8)])
    Y = X if symmetric else Bags.from_list([rng.normal(size=(n, 5)) for n in (20, 5)])
    left = StackedRows(X.data, X.offsets, rng.random(X.n_instances))
    right = (
        left if symmetric else StackedRows(Y.data, Y.offsets, np.ones(Y.n_instances))
    )
    params = {"kernel": "rbf", "gamma": 0.2}
    expected = active().pair_sums(left, None if symmetric else right, params)
    cpu = torch.device("cpu")
    A, B = (torch.as_tensor(np.array(s.data, np.float32)) for s in (left, right))
    tiles = Tiles(left, cpu), Tiles(right, cpu)
    found = _torch_blocks.pair_sums(*tiles, A, B, symmetric, 0.2, sums_of_blocks)
    np.testing.assert_allclose(found.numpy(), expected, rtol=2e-6)
    # Rows far from the center would lose digits: they are left to the plain sums.
    far = _torch_blocks.pair_sums(
        *tiles, 100 * A, 100 * B, symmetric, 0.2, sums_of_blocks
    )
    assert far is None


class TestChoice:
    def test_context_wins_over_the_environment(self, monkeypatch):
        monkeypatch.setenv("BAGWISE_DEVICE", "torch")
        assert get_device() == "torch"
        with bagwise.config_context(device="cpu"):
            assert get_device() == "cpu"
            with bagwise.config_context():
                assert get_device() == "cpu"
        assert get_device() == "torch"
        monkeypatch.delenv("BAGWISE_DEVICE")
        assert get_device() is None

    def test_wrong_devices_are_refused(self):
        X = bags(0)
        with pytest.raises(ValueError, match="is not a device"):
            with bagwise.config_context(device="abacus"):
                set_kernel(X)
        with pytest.raises(TypeError, match="string"):
            with bagwise.config_context(device=3):
                pass
        if not torch.cuda.is_available():
            with pytest.raises(ValueError, match="no CUDA device"):
                with bagwise.config_context(device="cuda"):
                    set_kernel(X)
