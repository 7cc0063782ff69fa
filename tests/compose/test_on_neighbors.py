"""OnNeighbors: against distances of all pairs, and a task with a known optimum."""

import numpy as np
import pytest
import scipy.sparse as sp

import bagwise
from bagwise import Bags
from bagwise.bags import neighbors
from bagwise.compose import OnNeighbors
from bagwise.embedding import MILES

STATISTICS = {"mean": np.mean, "min": np.min, "max": np.max, "std": np.std}


def scattered(coords=True, seed=0, sizes=(7, 1, 30, 2)):
    rng = np.random.default_rng(seed)
    bags = [rng.normal(size=(n, 3)) for n in sizes]
    places = rng.normal(size=(sum(sizes), 2)) if coords else None
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return Bags(np.concatenate(bags), offsets, coords=places)


def by_hand(X, k, radius, statistics):
    """Sort the distances to all other instances of the bag."""
    rows = []
    for start, stop in zip(X.offsets[:-1], X.offsets[1:], strict=True):
        places = np.arange(stop - start)[:, None] if X.coords is None else X.coords
        places = places[start:stop] if X.coords is not None else places
        bag = X.data[start:stop]
        for i in range(len(bag)):
            distance = np.sqrt(((places - places[i]) ** 2).sum(1))
            others = np.flatnonzero(np.arange(len(bag)) != i)
            others = others[np.argsort(distance[others], kind="stable")]
            if radius is not None:
                others = others[distance[others] <= radius]
            near = bag[others[:k]]
            found = [bag[i]]
            for name in statistics:
                alone = np.zeros(3) if name == "std" else bag[i]
                found.append(STATISTICS[name](near, axis=0) if len(near) else alone)
            rows.append(np.concatenate(found))
    return np.array(rows)


@pytest.mark.parametrize("pairs", [2**20, 5])
@pytest.mark.parametrize(
    ("k", "radius"), [(3, None), (40, None), (3, 0.8), (None, 0.8), (None, 1e-9)]
)
def test_statistics_equal_those_of_sorted_distances(k, radius, pairs, monkeypatch):
    monkeypatch.setattr("bagwise.compose._on_neighbors._VALUES", 3 * pairs)
    X = scattered()
    names = ("mean", "min", "max", "std")
    found = OnNeighbors(k, radius, aggregate=names).fit_transform(X)
    np.testing.assert_allclose(found.data, by_hand(X, k, radius, names), atol=1e-12)


def test_without_coordinates_the_order_counts():
    X = scattered(coords=False)
    found = OnNeighbors(k=None, radius=2).fit_transform(X)
    np.testing.assert_allclose(found.data, by_hand(X, None, 2, ["mean"]), atol=1e-12)


def test_an_instance_among_duplicates_is_not_its_own_neighbor():
    X = Bags(np.arange(6.0)[:, None], [0, 6], coords=np.zeros((6, 2)))
    rows = neighbors.neighbor_rows(X, 3)
    assert (rows >= 0).all()
    assert not (rows == np.arange(6)[:, None]).any()
    assert all(len(set(row)) == 3 for row in rows.tolist())


def test_bags_keep_what_belongs_to_them():
    X = scattered()
    named = Bags(
        X.data,
        X.offsets,
        ids=["a", "b", "c", "d"],
        groups=[1, 1, 2, 2],
        coords=X.coords,
        feature_names=["u", "v", "w"],
    )
    model = OnNeighbors(aggregate=("max", "std")).fit(named)
    found = model.transform(named)
    assert list(found.ids) == ["a", "b", "c", "d"]
    assert list(found.groups) == [1, 1, 2, 2]
    np.testing.assert_array_equal(found.coords, X.coords)
    assert list(found.feature_names) == list(model.get_feature_names_out())
    assert found.feature_names[3] == "neighbors_max_u"
    # Of one bag alone the same comes out.
    np.testing.assert_array_equal(model.transform(named[2:3])[0], found[2])


def test_what_is_wrong_is_said():
    X = scattered()
    with pytest.raises(ValueError, match="needs a radius"):
        OnNeighbors(k=None).fit(X)
    with pytest.raises(ValueError, match="different statistics of mean, min, max, std"):
        OnNeighbors(aggregate=("mean", "median")).fit(X)
    model = OnNeighbors().fit(X)
    with pytest.raises(ValueError, match="coords="):
        model.transform(Bags(X.data, X.offsets))
    sparse = Bags(sp.csr_array(X.data), X.offsets)
    with pytest.raises((TypeError, ValueError), match="sparse|dense"):
        OnNeighbors().fit(sparse)


def test_the_memory_is_said_before_it_is_taken(monkeypatch):
    X = scattered()
    model = OnNeighbors().fit(X)
    monkeypatch.setattr("bagwise._sizes.memory_budget", lambda: 100.0)
    with pytest.raises(ValueError, match="OnNeighbors"):
        model.transform(X)


def test_a_model_file_keeps_it(tmp_path):
    X = scattered()
    model = OnNeighbors(3, 0.8).fit(X)
    bagwise.save(model, tmp_path / "model.bagwise")
    again = bagwise.load(tmp_path / "model.bagwise")
    np.testing.assert_array_equal(again.transform(X).data, model.transform(X).data)


def pairs_in_a_plane(n_bags, seed):
    """Instances of kinds A, B and neither; positive bags have A and B close by.

    Kinds are the same in all bags: what differs is which instances are neighbors.
    """
    rng = np.random.default_rng(seed)
    rows, places, y = [], [], np.arange(n_bags) % 2
    for label in y:
        kind = np.repeat([0, 1, 2], [4, 4, 12])
        cell = rng.permutation(64)[:20]
        place = 10.0 * np.column_stack([cell // 8, cell % 8])  # far from each other
        if label:
            place[4] = place[0] + 0.5  # the first B near the first A
        else:
            place[12] = place[0] + 0.5
        rows.append(np.eye(3)[kind] + 0.1 * rng.normal(size=(20, 3)))
        places.append(place)
    offsets = 20 * np.arange(n_bags + 1)
    return Bags(np.concatenate(rows), offsets, coords=np.concatenate(places)), y


def test_methods_use_what_is_near():
    X, y = pairs_in_a_plane(60, 0)
    T, truth = pairs_in_a_plane(60, 1)
    near = OnNeighbors(k=None, radius=1.0, aggregate="max")
    plain = MILES(random_state=0).fit(X, y).score(T, truth)
    with_context = MILES(random_state=0).fit(near.fit_transform(X), y)
    assert plain < 0.7
    assert with_context.score(near.transform(T), truth) > 0.95
