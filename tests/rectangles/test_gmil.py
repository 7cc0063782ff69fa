import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from bagwise.datasets import make_generalized_bags
from bagwise.kernels import BoxGrid
from bagwise.rectangles import GMIL
from bagwise.rectangles._gmil import cell_intervals, intervals, levels_that_fit


@pytest.fixture(scope="module")
def data():
    X, y = make_generalized_bags(300, random_state=1)
    return X[:200], y[:200], X[200:], y[200:]


def literal_winnow(hits, y, order, alpha, n_passes):
    """GMIL-1 as it is written: one weight per box and per complement."""
    x = np.hstack([hits, 1 - hits]).astype(float)
    w = np.ones(x.shape[1])
    theta = hits.shape[1]
    for k in range(n_passes):
        for i in order[k]:
            predicted = w @ x[i] > theta
            if predicted != y[i]:
                w[x[i] == 1] *= alpha if y[i] else 1.0 / alpha
        if ((x @ w > theta) == y).all():
            break
    return w, np.log(x @ w / theta)


def test_equals_winnow_on_explicit_boxes(data):
    X, y = data[0][:60], data[1][:60]
    grid = BoxGrid(n_levels=6).fit(X)
    low, high, _ = intervals(5)
    levels = grid.levels(X).astype(int)
    boxes = [(a, b) for a in range(21) for b in range(21)]
    hits = np.array(
        [
            [
                (
                    (bag[:, 0] >= low[a])
                    & (bag[:, 0] <= high[a])
                    & (bag[:, 1] >= low[b])
                    & (bag[:, 1] <= high[b])
                ).any()
                for a, b in boxes
            ]
            for bag in np.split(levels, X.offsets[1:-1])
        ]
    ).astype(int)
    assert hits.shape == (60, 441)
    model = GMIL(False, grid=grid, random_state=0, alpha=2.0, max_iter=300)
    model.fit(X, y)
    assert model.objective_ == 0  # separable: the last pass is the one that is kept
    rng = np.random.RandomState(0)
    order = [rng.permutation(model._order(X)) for _ in range(model.n_iter_)]
    _, scores = literal_winnow(hits, y == 1, order, 2.0, model.n_iter_)
    np.testing.assert_allclose(model.decision_function(X), scores, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n_levels", [5, 12])
def test_grouping_changes_nothing_on_training_bags(data, n_levels):
    X, y = data[0][:80], data[1][:80]
    grid = BoxGrid(n_levels=n_levels)
    settings = {"grid": grid, "random_state": 0, "max_iter": 30, "n_iter_no_change": 30}
    with np.errstate(all="raise"):
        models = [_fit(GMIL(grouping, **settings), X, y) for grouping in (False, True)]
    a, b = models
    assert b.n_groups_ < a.n_groups_
    np.testing.assert_array_equal(a.objective_path_, b.objective_path_)
    np.testing.assert_allclose(
        a.decision_function(X), b.decision_function(X), rtol=1e-8, atol=1e-8
    )


def _fit(model, X, y):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


def test_cells_stand_for_every_interval_that_holds_a_value():
    rng = np.random.default_rng(0)
    for _ in range(20):
        top = int(rng.integers(3, 15))
        used = np.unique(rng.integers(0, top + 1, 4))
        low, high, count = cell_intervals(used, top)
        truth = {}
        for a in range(top + 1):
            for b in range(a, top + 1):
                held = tuple(v for v in used if a <= v <= b)
                truth[held] = truth.get(held, 0) + 1
        truth.pop((), None)
        found = {
            tuple(v for v in used if a <= v <= b): c
            for a, b, c in zip(low, high, count, strict=True)
        }
        assert found == truth


def test_generalised_concept_is_learnt(data):
    X, y, X_test, y_test = data
    model = GMIL(random_state=0).fit(X, y)
    assert not model.sampled_
    assert model.score(X, y) > 0.95
    assert model.score(X_test, y_test) > 0.75


def test_attracting_and_repelling_boxes_are_readable():
    """Positive: a point near (0.2, 0.2) and none near (0.8, 0.8)."""
    rng = np.random.default_rng(0)
    bags, y = [], []
    for k in range(200):
        bag = rng.uniform(size=(4, 2))
        bag = bag[(np.abs(bag - 0.2).max(axis=1) > 0.15)]
        bag = bag[(np.abs(bag - 0.8).max(axis=1) > 0.15)]
        here = 0.2 + 0.1 * rng.uniform(-1, 1, (1, 2))
        there = 0.8 + 0.1 * rng.uniform(-1, 1, (1, 2))
        kind = k % 4
        parts = [bag, here] if kind in (0, 1) else [bag]
        parts += [there] if kind in (1, 2) else []
        parts += [rng.uniform(0.4, 0.6, (1, 2))]
        bags.append(np.vstack(parts))
        y.append(kind == 0)
    model = GMIL(random_state=0).fit(bags, np.array(y))
    assert model.score(bags, y) > 0.95
    for boxes, weights, point in (
        (model.attracting_boxes_, model.attracting_weights_, 0.2),
        (model.repelling_boxes_, model.repelling_weights_, 0.8),
    ):
        assert boxes.shape[1:] == (2, 2)
        assert (np.diff(weights) <= 0).all()
        assert weights[-1] > 0
        # boxes over the concept point are far more than their share of the plane
        low, high = boxes[:10, :, 0], boxes[:10, :, 1]
        assert ((low <= point) & (point < high)).all(axis=1).mean() > 0.6


def test_infeasible_grids():
    rng = np.random.default_rng(0)
    bags, y = [rng.normal(size=(3, 12)) for _ in range(20)], np.arange(20) % 2
    with pytest.raises(ValueError, match="max_boxes=100000"):
        GMIL(boxes="all").fit(bags, y)
    model = GMIL(random_state=0, n_sampled=500).fit(bags, y)
    assert model.sampled_
    assert len(model.low_) <= 500
    assert levels_that_fit(12, 100_000) is None
    assert levels_that_fit(2, 100_000) == 21
    assert levels_that_fit(4, 100_000) == 5


def test_passes_end_with_a_warning():
    rng = np.random.default_rng(0)
    bag = rng.normal(size=(3, 2))
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        GMIL(max_iter=2, random_state=0).fit([bag, bag, bag + 1.0], [0, 1, 1])


def test_order_of_training_bags_is_free(data):
    X, y = data[0][:50], data[1][:50]
    order = np.random.default_rng(0).permutation(50)
    a = GMIL(random_state=3).fit(X, y)
    b = GMIL(random_state=3).fit(X[order], y[order])
    np.testing.assert_allclose(a.decision_function(X), b.decision_function(X))
