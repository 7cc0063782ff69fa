import itertools

import numpy as np
import pytest
from box_helpers import box_hits, brute_count, random_bags

from bagwise.kernels import BoxGrid, box_kernel
from bagwise.kernels.box import _batches
from bagwise.kernels.box.kernel import count_common_boxes

TOPS = [(4, 3, 5), (6, 6), (1, 1, 1, 1), (9,), (2, 0, 3)]


@pytest.mark.parametrize("top", TOPS)
def test_whole_number_count_equals_enumeration(top):
    rng = np.random.default_rng(sum(top))
    for n, m in [(1, 1), (2, 3), (4, 4), (1, 6)]:
        P = rng.integers(0, np.array(top) + 1, (n, len(top)))
        Q = rng.integers(0, np.array(top) + 1, (m, len(top)))
        assert count_common_boxes(P, Q, top) == brute_count(P, Q, top)
        # k(P, P) = |B(P)|, and |B(P and Q)| = |B(P)| + |B(Q)| - |B(P u Q)|
        own = int(box_hits(P, top).sum())
        assert count_common_boxes(P, P, top) == own
        union = int(box_hits(np.vstack([P, Q]), top).sum())
        other = int(box_hits(Q, top).sum())
        assert count_common_boxes(P, Q, top) == own + other - union


@pytest.mark.parametrize("top", TOPS)
def test_float_tree_equals_enumeration(top):
    rng = np.random.default_rng(sum(top) + 1)
    bags = random_bags(rng, top, (1, 2, 4, 6, 7))
    logs, report = box_kernel(bags, grid="integer", method="exact", return_report=True)
    truth = [[brute_count(P, Q, top) for Q in bags] for P in bags]
    np.testing.assert_allclose(np.exp(logs), truth, rtol=1e-12)
    assert report.counts() == {"exact": 25}
    assert report.guaranteed


def test_line_formula():
    rng = np.random.default_rng(3)
    top = 30
    for _ in range(10):
        P, Q = rng.integers(0, top + 1, (5, 1)), rng.integers(0, top + 1, (40, 1))
        # intervals without a point: g (g + 1) / 2 for each gap of g free levels
        free = []
        for points in (P, Q, np.vstack([P, Q])):
            ends = np.concatenate([[-1], np.unique(points), [top + 1]])
            gap = np.diff(ends) - 1
            free.append(int((gap * (gap + 1) // 2).sum()))
        every = (top + 1) * (top + 2) // 2
        count = every - free[0] - free[1] + free[2]
        grid = BoxGrid("integer").fit([[[0.0], [float(top)]]])
        logs = box_kernel([P.astype(float)], [Q.astype(float)], grid=grid)
        assert round(np.exp(logs[0, 0])) == count == brute_count(P, Q, (top,))


def test_counts_beyond_the_range_of_floats():
    # 10^742 boxes occur on Musk2; whole numbers and logarithms agree there.
    rng = np.random.default_rng(0)
    top = np.full(160, 400)
    bags = [rng.integers(150, 250, (n, 160)) for n in (2, 3, 4)]
    bags.append(np.array([np.zeros(160, int), top]))
    logs = box_kernel([b.astype(float) for b in bags], grid="integer", method="exact")
    assert logs.max() > 800.0
    for i, j in itertools.product(range(4), repeat=2):
        count = count_common_boxes(bags[i], bags[j], top)
        digits = len(str(count))
        log_count = np.log(int(str(count)[:15])) + (digits - 15) * np.log(10.0)
        assert logs[i, j] == pytest.approx(log_count, rel=1e-12)


def test_one_point_bags_have_a_closed_form():
    rng = np.random.default_rng(5)
    top = np.array([7, 3, 12, 2])
    points = np.vstack([rng.integers(0, top + 1, (8, 4)), [0, 0, 0, 0], top])
    logs, report = box_kernel(
        points[:, None, :].astype(float), grid="integer", return_report=True
    )
    low = np.minimum(points[:, None], points[None])
    high = np.maximum(points[:, None], points[None])
    truth = ((low + 1) * (top - high + 1)).prod(axis=2)
    np.testing.assert_allclose(np.exp(logs), truth, rtol=1e-12)
    assert report.n_samples.sum() == 0
    # a tensor product of Brownian-bridge kernels
    assert np.linalg.eigvalsh(truth.astype(float)).min() > -1e-9 * truth.max()


@pytest.mark.parametrize("method", ["exact", "auto", "coverage", "self_adjusting"])
def test_monotone_dnf_by_the_kernel(method):
    """Satisfying assignments of x1 x2 or x2 x3 x4 or x5: P = {0}, Q = terms."""
    terms = np.array([[1, 1, 0, 0, 0], [0, 1, 1, 1, 0], [0, 0, 0, 0, 1]])
    satisfying = sum(
        any(all(a >= v for a, v in zip(x, t, strict=True)) for t in terms)
        for x in itertools.product((0, 1), repeat=5)
    )
    grid = BoxGrid("integer").fit([[[0.0] * 5, [1.0] * 5]])
    zero = [np.zeros((1, 5))]
    logs = box_kernel(
        zero, [terms.astype(float)], grid=grid, method=method, epsilon=0.05
    )
    assert np.exp(logs[0, 0]) == pytest.approx(satisfying, rel=0.05)
    if method == "exact":
        assert np.exp(logs[0, 0]) == pytest.approx(satisfying, rel=1e-12)
        assert count_common_boxes(np.zeros((1, 5)), terms, 1) == satisfying


def test_too_large_for_exact_counting(monkeypatch):
    monkeypatch.setattr(_batches, "LARGE_NODES", 10_000)
    rng = np.random.default_rng(0)
    bags = [rng.integers(0, 200, (60, 6)).astype(float) for _ in range(2)]
    with pytest.raises(ValueError, match="bags 0 and"):
        box_kernel(bags, grid="integer", method="exact")


@pytest.mark.parametrize(
    ("P", "message"),
    [
        ([[3]], "grid"),
        ([[0.5]], "whole"),
        ([0, 1], "matrix"),
        (np.empty((0, 1)), "row"),
    ],
)
def test_bad_points(P, message):
    with pytest.raises(ValueError, match=message):
        count_common_boxes(P, [[0]], 2)
