import warnings

import numpy as np
import pytest
from box_helpers import box_hits, brute_count, random_bags
from sklearn.exceptions import ConvergenceWarning

from bagwise import Bags
from bagwise.kernels import BoxGrid, bag_kernel, box_kernel
from bagwise.kernels.box import _batches
from bagwise.kernels.box.kernel import log_self_counts
from bagwise.kernels.box.loops.points import _hash_rows, corner_codes, log_boxes, screen
from bagwise.kernels.box.loops.sampling import draw_boxes
from bagwise.kernels.box.sampling import coarse_scale, code_bags
from bagwise.kernels.registry import BAG_KERNELS

TOP = (4, 3, 5)
SAMPLING = ["coverage", "indicator", "self_adjusting", "random_boxes"]


@pytest.fixture(scope="module")
def tiny():
    rng = np.random.default_rng(0)
    bags = random_bags(rng, TOP, (2, 5, 12, 30, 3))
    truth = np.array([[brute_count(P, Q, TOP) for Q in bags] for P in bags])
    return bags, BoxGrid("integer").fit(bags), truth


@pytest.mark.parametrize("method", ["auto", *SAMPLING])
def test_close_to_enumeration(tiny, method):
    bags, grid, truth = tiny
    epsilon = 0.1 if method == "self_adjusting" else 0.05
    logs, report = box_kernel(
        bags,
        grid=grid,
        method=method,
        epsilon=epsilon,
        stop="bernstein",
        return_report=True,
    )
    np.testing.assert_allclose(np.exp(logs), truth, rtol=epsilon)
    assert report.guaranteed
    assert report.n_capped == 0


@pytest.mark.parametrize("method", SAMPLING)
def test_unbiased(tiny, method):
    """The mean over seeds is within 4 standard errors of the truth."""
    bags, grid, truth = tiny
    n_seeds = 40
    settings = {"grid": grid, "method": method, "epsilon": 0.3, "delta": 0.3}
    found = np.array(
        [np.exp(box_kernel(bags, random_state=s, **settings)) for s in range(n_seeds)]
    )
    error = found.std(axis=0, ddof=1) / np.sqrt(n_seeds)
    # a stopping rule that looks at the data leaves a bias far below epsilon
    assert (np.abs(found.mean(axis=0) - truth) < 4.0 * error + 0.02 * truth).all()


@pytest.mark.parametrize(
    ("method", "stop"), [("coverage", "bernstein"), ("self_adjusting", "clt")]
)
def test_promise_counted_over_seeds(tiny, method, stop):
    bags, grid, truth = tiny
    delta, epsilon, n_seeds = 0.1, 0.2, 60
    misses = np.zeros(truth.shape)
    for seed in range(n_seeds):
        logs = box_kernel(
            bags,
            grid=grid,
            method=method,
            stop=stop,
            epsilon=epsilon,
            delta=delta,
            random_state=seed,
        )
        misses += np.abs(np.exp(logs) / truth - 1.0) > epsilon
    assert misses.max() <= delta * n_seeds


def test_random_boxes_keep_the_bernstein_promise(tiny):
    bags, grid, truth = tiny
    misses = np.zeros(truth.shape)
    for seed in range(30):
        logs = box_kernel(
            bags,
            grid=grid,
            method="random_boxes",
            stop="bernstein",
            epsilon=0.2,
            delta=0.1,
            random_state=seed,
        )
        misses += np.abs(np.exp(logs) / truth - 1.0) > 0.2
    assert misses.max() <= 3


@pytest.mark.parametrize("method", ["auto", *SAMPLING])
def test_bags_the_grid_has_not_seen(tiny, method):
    """Boxes without any training point count as well."""
    bags, _, truth = tiny
    grid = BoxGrid("integer").fit([np.array([[0.0, 0.0, 0.0], TOP])])
    logs = box_kernel(bags, grid=grid, method=method, epsilon=0.1, stop="bernstein")
    np.testing.assert_allclose(np.exp(logs), truth, rtol=0.1)


def test_uniform_boxes_are_uniform():
    top = np.array([2, 1], dtype=np.uint16)
    point = np.zeros((1, 2), dtype=np.uint16)
    n = 36_000
    low, high, _ = draw_boxes(point, np.ones(1), top, 1.0, n, np.uint64(7))
    _, counts = np.unique(np.hstack([low, high]), axis=0, return_counts=True)
    assert len(counts) == 6 * 3
    assert ((counts - n / 18) ** 2 / (n / 18)).sum() < 40.8  # chi2(17), 0.1 %


def test_coverage_never_varies_more_than_the_indicator(tiny):
    bags, grid, _ = tiny
    error = {}
    for method in ("coverage", "indicator"):
        # the same number of draws for both: the cap, without a chance to stop before
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            _, report = box_kernel(
                bags,
                grid=grid,
                method=method,
                epsilon=1e-4,
                max_samples=20_000,
                return_report=True,
            )
        assert (report.n_samples == 20_000).all()
        error[method] = report.relative_error
    assert (error["coverage"] <= error["indicator"] * 1.02).all()
    assert (error["coverage"] < 0.9 * error["indicator"]).any()


@pytest.mark.parametrize("method", ["auto", *SAMPLING])
def test_bitwise_whatever_the_company(tiny, method):
    bags, grid, _ = tiny
    rng = np.random.default_rng(1)
    settings = {"grid": grid, "method": method, "epsilon": 0.3, "random_state": 5}
    logs = box_kernel(bags, **settings)
    np.testing.assert_array_equal(logs, logs.T)
    order = rng.permutation(len(bags))
    shuffled = [rng.permutation(np.repeat(bags[i], 2, axis=0)) for i in order]
    np.testing.assert_array_equal(
        box_kernel(shuffled, **settings), logs[np.ix_(order, order)]
    )
    some = [3, 1]
    np.testing.assert_array_equal(
        box_kernel([bags[i] for i in some], **settings), logs[np.ix_(some, some)]
    )
    np.testing.assert_array_equal(
        box_kernel([bags[i] for i in some], bags, **settings), logs[some]
    )
    own = log_self_counts(Bags.from_list(bags), **settings)
    np.testing.assert_array_equal(own, np.diag(logs))
    assert (box_kernel(bags, **{**settings, "random_state": 6}) != logs).any()


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_bitwise_for_any_number_of_workers(backend):
    from joblib import parallel_config

    rng = np.random.default_rng(2)
    bags = [rng.normal(size=(n, 20)) for n in rng.integers(3, 30, 12)]
    one = box_kernel(bags, method="coverage", epsilon=0.2)
    with parallel_config(backend=backend):
        two = box_kernel(bags, method="coverage", epsilon=0.2, n_jobs=2)
    np.testing.assert_array_equal(one, two)


def test_auto_says_what_it_did():
    rng = np.random.default_rng(0)
    close = [rng.normal(size=(12, 5)) for _ in range(3)]
    apart = [rng.normal(size=(8, 60)) for _ in range(3)]
    alone = [rng.normal(size=(1, 6)) for _ in range(3)]
    large = [rng.normal(size=(60, 4)) for _ in range(3)]
    ways = {}
    for name, bags in (
        ("sampled", close),
        ("bounds", apart),
        ("exact", alone),
        ("random_boxes", large),
    ):
        _, report = box_kernel(bags, return_report=True)
        ways[name] = report.counts()
        assert str(report).startswith("box kernel (auto)")
        drawn = report.n_samples > 0
        assert (drawn == np.isin(report.how, ["sampled", "random_boxes"])).all()
    assert all(name in counts for name, counts in ways.items()), ways


def test_bounds_enclose_the_estimate(tiny):
    bags, grid, truth = tiny
    s = np.array(TOP)
    logs = box_kernel(bags, grid=grid, method="coverage", epsilon=0.5, delta=0.5)
    for i, P in enumerate(bags):
        for j, Q in enumerate(bags):
            p, q = np.unique(P, axis=0), np.unique(Q, axis=0)
            low = np.minimum(p[:, None], q[None])
            high = np.maximum(p[:, None], q[None])
            sets = ((low + 1) * (s - high + 1)).prod(axis=2)
            upper = sets.sum()
            if i == j:
                upper = ((p + 1) * (s - p + 1)).prod(axis=1).sum()
            assert sets.max() * (1 - 1e-9) <= np.exp(logs[i, j]) <= upper * (1 + 1e-9)
            assert sets.max() <= truth[i, j] <= upper


def test_left_out_pairs_stay_within_epsilon():
    """In many dimensions most pairs are screened out; the exact count says how well."""
    rng = np.random.default_rng(4)
    centers = rng.normal(size=(4, 1, 40))
    bags = [c + 0.05 * rng.normal(size=(7, 40)) for c in centers]
    grid = BoxGrid(n_levels=30).fit(bags)
    exact = box_kernel(bags, grid=grid, method="exact")
    for method in ("coverage", "auto"):
        found = box_kernel(bags, grid=grid, method=method, epsilon=0.05)
        assert np.abs(np.exp(found - exact) - 1.0).max() < 0.05


def test_cap_warns_and_voids_the_guarantee(tiny):
    bags, grid, _ = tiny
    with pytest.warns(ConvergenceWarning, match="guarantee does not hold"):
        _, report = box_kernel(
            bags,
            grid=grid,
            method="coverage",
            stop="bernstein",
            epsilon=0.01,
            max_samples=100,
            return_report=True,
        )
    assert report.n_capped > 0
    assert not report.guaranteed


@pytest.mark.parametrize("name", ["epsilon", "delta"])
@pytest.mark.parametrize("value", [0.0, 1.0, -0.1, 2, "x"])
def test_precision_out_of_range(tiny, name, value):
    with pytest.raises(ValueError, match=name):
        box_kernel(tiny[0], **{name: value})


def test_unknown_options(tiny):
    for name in ("method", "stop", "grid"):
        with pytest.raises(ValueError, match="known are"):
            box_kernel(tiny[0], **{name: "nonsense"})
    with pytest.raises(ValueError, match="features"):
        box_kernel(tiny[0], [np.zeros((1, 2))])
    with pytest.raises(ValueError, match="max_samples"):
        box_kernel(tiny[0], max_samples=0)


def test_constant_data_have_one_box():
    logs, report = box_kernel([[[3.0, 1.0]], [[3.0, 1.0]] * 2], return_report=True)
    np.testing.assert_array_equal(logs, np.zeros((2, 2)))
    assert report.counts() == {"exact": 4}


def test_raw_kernel_counts_and_warns(tiny):
    bags, grid, truth = tiny
    K = bag_kernel(bags, metric="box", grid=grid, epsilon=0.05, stop="bernstein")
    np.testing.assert_allclose(K / K.max(), truth / np.diag(truth).max(), rtol=0.11)
    assert "box" in BAG_KERNELS
    rng = np.random.default_rng(0)
    far = [rng.normal(size=(3, 80)) for _ in range(4)]
    with pytest.warns(UserWarning, match="diagonal of the box-counting kernel"):
        bag_kernel(far, metric="box")


def test_gram_of_exact_counts_is_a_feature_map(tiny):
    bags, grid, truth = tiny
    hits = np.array([box_hits(bag, TOP) for bag in bags]).astype(int)
    np.testing.assert_array_equal(hits @ hits.T, truth)


@pytest.mark.parametrize("method", ["auto", "exact", *SAMPLING[:3]])
def test_small_batches_change_nothing(rng, monkeypatch, method):
    bags = [rng.standard_normal((n, 5)) for n in (1, 2, 9, 4, 1, 7, 3, 4)]
    bags[6] = bags[1]
    settings = {"method": method, "grid": "rank", "epsilon": 0.2, "return_report": True}
    logs, report = box_kernel(bags, **settings)
    monkeypatch.setattr(_batches, "_ROOM", 3)
    monkeypatch.setattr(_batches, "_POINTS", 5)
    again, small = box_kernel(bags, **settings)
    np.testing.assert_array_equal(logs, again)
    for name in ("how", "n_samples", "relative_error"):
        np.testing.assert_array_equal(getattr(report, name), getattr(small, name))


@pytest.mark.parametrize("shape", [(5, 40), (40, 5), (33, 33)])
def test_screening_keeps_every_pair_that_is_large_enough(rng, shape):
    bags = [rng.standard_normal((n, 12)) for n in shape]
    grid = BoxGrid("rank").fit(bags)
    coded = code_bags(grid, Bags.from_list(bags))
    unit, error = coarse_scale(coded.top)
    P, Q = (coded.rows[a:b].astype(float) for a, b in zip(*_spans(coded), strict=True))
    low, high = np.minimum(P[:, None], Q), np.maximum(P[:, None], Q)
    logs = np.log((low + 1.0) * (coded.top - high + 1.0)).sum(axis=2)
    spread = 1.5
    sets, ends = np.empty((3, logs.size), np.int64), np.zeros(2, np.int64)
    one, other = np.array([0]), np.array([1])
    margins = np.ceil(np.array([(spread + error) / unit])).astype(np.int64)
    sums = np.empty(64, np.uint16)
    blocks = (coded.blocks, coded.starts, coded.sizes)
    assert screen(*blocks, one, other, margins, sums, sets, ends) == (1, 0)
    kept = np.zeros(logs.shape, bool)
    kept[sets[0, : ends[1]], sets[1, : ends[1]]] = True
    assert kept[logs >= logs.max() - spread].all()
    assert logs[kept].min() >= logs.max() - spread - 3.0 * (error + unit)


def _spans(coded):
    return coded.offsets[:-1], coded.offsets[1:]


def test_the_smallest_codes_are_those_of_the_bounding_box(rng):
    top = np.array([65_534, 7, 300] * 15, np.uint16)
    rows = rng.integers(0, top + 1, (4, 45)).astype(np.uint16)
    codes = corner_codes(rows, top)
    box = codes[:2].min(axis=0)
    low, high = rows[:2].min(axis=0), rows[:2].max(axis=0)
    truth = np.log((low + 1.0) * (top - high.astype(float) + 1.0)).sum()
    assert log_boxes(box, np.empty(len(box) // 2)) == pytest.approx(truth, rel=1e-13)
    inside = ((rows >= low) & (rows <= high)).all(axis=1)
    np.testing.assert_array_equal((codes >= box).all(axis=1), inside)


def test_rows_are_hashed_one_after_the_other():
    """Streams of earlier versions stay: splitmix64 in whole numbers of any size."""

    def mix(z):
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            z = (z ^ (z >> shift)) * factor % 2**64
        return z ^ (z >> 31)

    rows = np.arange(3000 * 3, dtype=np.uint16).reshape(3000, 3)
    truth = []
    for row in rows.tolist():
        h = 3
        for v in row:
            h = (mix(h ^ v) + 0x9E3779B97F4A7C15) % 2**64
        truth.append(mix(h))
    assert _hash_rows(rows).tolist() == truth
