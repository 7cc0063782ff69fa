import itertools

import numpy as np
import pytest
from scipy.stats import norm

from bagwise import Bags
from bagwise.rectangles import IAPR
from bagwise.rectangles._iapr import _start
from bagwise.rectangles._loops import cover, grow


def toy(seed, n_bags=20, d=4):
    """Positive bags have an instance near (2, 2, ..) in the first two features."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_bags) % 2
    bags = []
    for label in y:
        bag = rng.uniform(-4, 4, (rng.integers(2, 6), d))
        near = (np.abs(bag[:, :2] - 2.0) < 1.0).all(axis=1)
        bag[near, 0] -= 3.0
        if label:
            bag[0, :2] = 2.0 + rng.uniform(-0.3, 0.3, 2)
        bags.append(bag)
    return bags, y


def contained(bag, low, high):
    return ((bag >= low) & (bag <= high)).all(axis=1)


def grown(bags, backfit=True):
    X = Bags.from_list(bags)
    return grow(X.data, X.offsets, _start(X.data, X.offsets), backfit)


@pytest.mark.parametrize("seed", range(5))
def test_grown_box_holds_an_instance_of_every_positive_bag(seed):
    bags, y = toy(seed)
    model = IAPR().fit(bags, y)
    for bag, label in zip(bags, y, strict=True):
        if label:
            assert contained(bag, model.grown_lower_, model.grown_upper_).any()
    assert (model.lower_ <= model.grown_lower_).all()
    assert (model.upper_ >= model.grown_upper_).all()


def test_greedy_growth_is_near_the_best_of_all_choices():
    rng = np.random.default_rng(0)
    optimal, excess = 0, []
    for _ in range(100):
        bags = [rng.normal(size=(rng.integers(1, 4), 3)) for _ in range(4)]
        best = min(
            np.ptp(np.array(choice), axis=0).sum()
            for choice in itertools.product(*bags)
        )
        sizes = []
        for backfit in (False, True):
            chosen, low, high = grown(bags, backfit)
            points = np.concatenate(bags)[chosen]
            np.testing.assert_array_equal(low, points.min(axis=0))
            np.testing.assert_array_equal(high, points.max(axis=0))
            sizes.append((high - low).sum())
        assert best <= sizes[1] + 1e-12
        optimal += sizes[1] <= best + 1e-9
        excess.append(sizes[1] / best - 1.0)
    assert optimal >= 85
    assert np.mean(excess) < 0.02


def test_no_single_exchange_makes_the_box_smaller():
    """Backfitting ends at a box that no exchange of one instance improves."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        bags = [rng.normal(size=(rng.integers(1, 6), 5)) for _ in range(7)]
        chosen, low, high = grown(bags)
        stack = np.concatenate(bags)
        ends = np.cumsum([len(b) for b in bags])
        for b, bag in enumerate(bags):
            for r in range(ends[b] - len(bag), ends[b]):
                other = chosen.copy()
                other[b] = r
                size = np.ptp(stack[other], axis=0).sum()
                assert size >= (high - low).sum() - 1e-9


def test_backfitting_never_enlarges_the_box():
    """Step by step against a plain implementation, whose sizes are recorded."""
    rng = np.random.default_rng(2)
    for _ in range(10):
        bags = [rng.normal(size=(4, 3)) for _ in range(5)]
        X = Bags.from_list(bags)
        start = _start(X.data, X.offsets)
        owner = X.bag_index[start]
        chosen = {owner: X.data[start]}

        def size(points):
            return np.ptp(np.array(list(points.values())), axis=0).sum()

        while len(chosen) < 5:
            trials = [
                (size({**chosen, b: x}), b, x)
                for b in range(5)
                if b not in chosen
                for x in bags[b]
            ]
            _, b, x = min(trials, key=lambda item: item[0])
            chosen[b] = x
            sizes, before = [size(chosen)], np.inf
            while sizes[-1] < before - 1e-12:
                before = sizes[-1]
                for b in sorted(chosen):
                    best = min(bags[b], key=lambda x, b=b: size({**chosen, b: x}))
                    chosen[b] = best
                    sizes.append(size(chosen))
            assert (np.diff(sizes) <= 1e-12).all()
        _, low, high = grown(bags)
        assert (high - low).sum() == pytest.approx(size(chosen))


def test_features_cover_what_can_be_covered():
    rng = np.random.default_rng(3)
    distance = np.maximum(rng.normal(size=(200, 8)) - 0.7, 0.0)
    margin = 0.8
    kept = cover(distance, margin)
    coverable = (distance > 0).any(axis=1)
    strong = distance >= margin
    covered = (strong & kept).any(axis=1)
    weak = ~strong.any(axis=1) & coverable
    covered |= weak & kept[distance.argmax(axis=1)]
    np.testing.assert_array_equal(covered, coverable)
    assert not cover(np.zeros((3, 2)), 1.0).any()


def test_the_relevant_features_are_found():
    bags, y = toy(0, n_bags=80, d=6)
    model = IAPR(margin=1.0).fit(bags, y)
    assert {0, 1} <= set(model.features_.tolist())
    assert model.score(bags, y) > 0.8


def test_expansion_leaves_the_mass_asked_for():
    bags, y = toy(4, n_bags=40)
    epsilon, tau = 0.1, 0.99
    model = IAPR(epsilon=epsilon, tau=tau).fit(bags, y)
    F = model.features_
    data = np.concatenate([b for b, label in zip(bags, y, strict=True) if label])
    inside = contained(data[:, F], model.grown_lower_[F], model.grown_upper_[F])
    moved = 0
    for f in F:
        lo, hi = model.grown_lower_[f], model.grown_upper_[f]
        s = (hi - lo) / 2 / norm.ppf((1 + tau) / 2)
        middle = norm(loc=(lo + hi) / 2, scale=s)
        assert middle.cdf(hi) - middle.cdf(lo) == pytest.approx(tau)
        x = data[inside, f]
        above = norm.sf((model.upper_[f] - x) / s).mean()
        below = norm.cdf((model.lower_[f] - x) / s).mean()
        for mass, at_end in (
            (above, model.upper_[f] == hi),
            (below, model.lower_[f] == lo),
        ):
            if at_end:
                assert mass <= epsilon / 2 + 1e-9
            else:
                moved += 1
                assert mass == pytest.approx(epsilon / 2, abs=1e-9)
    assert moved > 0


@pytest.mark.parametrize("seed", range(4))
def test_elimination_leaves_no_negative_instance_inside(seed):
    bags, y = toy(seed)
    model = IAPR("gfs", threshold="zero").fit(bags, y)
    for bag, label in zip(bags, y, strict=True):
        if not label:
            assert not contained(bag, model.lower_, model.upper_).any()
    positive = [b for b, label in zip(bags, y, strict=True) if label]
    kept = sum(contained(b, model.lower_, model.upper_).sum() for b in positive)
    assert kept >= 1
    assert (model.predict(bags)[y == 0] == 0).all()


def test_elimination_keeps_one_positive_instance_at_least():
    model = IAPR("gfs", threshold="zero").fit([[[1.0]], [[1.0]]], [0, 1])
    assert model.lower_ == model.upper_ == 1.0


def test_elimination_takes_the_cheapest_side():
    # One negative between the positives of one feature: 1 lost below, 3 lost above.
    bags = [[[0.0], [2.0], [3.0], [4.0]], [[1.0]]]
    model = IAPR("gfs", threshold="zero").fit(bags, [1, 0])
    assert model.lower_[0] == 1.5
    assert model.upper_[0] == 4.0


def test_bounding_box_never_misses_a_positive_bag():
    bags, y = toy(5)
    model = IAPR("all", threshold="zero").fit(bags, y)
    assert (model.predict(bags)[y == 1] == 1).all()
    data = np.concatenate([b for b, label in zip(bags, y, strict=True) if label])
    np.testing.assert_array_equal(model.lower_, data.min(axis=0))
    np.testing.assert_array_equal(model.upper_, data.max(axis=0))
    scores = model.instance_scores(bags).values
    inside = contained(np.concatenate(bags), model.lower_, model.upper_)
    np.testing.assert_array_equal(scores > 0, inside)


def test_units_do_not_matter_when_the_margin_follows():
    bags, y = toy(6)
    a = IAPR(margin=1.0).fit(bags, y)
    b = IAPR(margin=8.0).fit([8.0 * bag for bag in bags], y)
    np.testing.assert_allclose(b.upper_, 8.0 * a.upper_)
    np.testing.assert_allclose(
        a.decision_function(bags), b.decision_function([8.0 * bag for bag in bags])
    )


def test_musk(benchmark):
    data = benchmark("musk1")
    X, y = data.X, data.y
    folds = np.random.default_rng(0).permutation(len(X)) % 3
    right = 0
    for k in range(3):
        model = IAPR(margin=100.0).fit(X[folds != k], y[folds != k])
        right += (model.predict(X[folds == k]) == y[folds == k]).sum()
        assert len(model.features_) < 80
    assert right / len(X) > 0.75
