"""`Bags` against a plain list of arrays."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.base import clone
from sklearn.model_selection import KFold, cross_val_score, train_test_split
from sklearn.utils import resample, shuffle

from bagwise import Bags, Ragged, as_bags
from bagwise.compose import SimpleMI

sizes_strategy = st.lists(st.integers(1, 5), min_size=1, max_size=8)


def model_of(sizes, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(n, 3)) for n in sizes]


@st.composite
def bags_and_key(draw):
    sizes = draw(sizes_strategy)
    n = len(sizes)
    positions = st.lists(st.integers(-n, n - 1), max_size=10)
    key = draw(
        st.one_of(
            st.integers(-n, n - 1),
            st.slices(n),
            positions.map(lambda p: np.array(p, dtype=int)),
            positions,
            hnp.arrays(bool, n),
        )
    )
    return sizes, key, draw(st.booleans())


def index_list(items, key):
    """Index a list of arrays the way numpy would index it."""
    if isinstance(key, int):
        return items[key]
    if isinstance(key, slice):
        return items[key]
    return [items[i] for i in np.arange(len(items))[np.asarray(key, dtype=_kind(key))]]


def _kind(key):
    return bool if getattr(key, "dtype", None) == np.dtype(bool) else int


def assert_equal(got, expected):
    if isinstance(expected, list):
        assert len(got) == len(expected)
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_array_equal(a.toarray() if sp.issparse(a) else a, b)
    else:
        dense = got.toarray() if sp.issparse(got) else got
        np.testing.assert_array_equal(dense, expected)


@given(bags_and_key())
def test_indexes_like_a_list(case):
    sizes, key, tuple_key = case
    items = model_of(sizes)
    expected = index_list(items, key)
    for X in (Bags.from_list(items), Bags.from_list([sp.csr_matrix(b) for b in items])):
        assert_equal(X[(key, ...) if tuple_key else key], expected)


@given(bags_and_key())
def test_ragged_indexes_like_a_list(case):
    sizes, key, tuple_key = case
    items = [b[:, 0] for b in model_of(sizes)]
    R = Ragged.from_list(items)
    assert_equal(R[(key, ...) if tuple_key else key], index_list(items, key))


@given(sizes_strategy, st.integers(1, 12))
def test_chunks_hold_whole_bags(sizes, max_instances):
    X = Bags.from_list(model_of(sizes))
    chunks = list(X.iter_chunks(max_instances))
    assert_equal([b for c in chunks for b in c], X.to_list())
    for c in chunks:
        assert c.n_instances <= max_instances or len(c) == 1
        assert np.shares_memory(c.data, X.data)


def test_ids_and_names_follow_the_bags():
    X = Bags.from_list(
        model_of([1, 2, 3]), ids=["a", "b", "c"], feature_names=list("uvw")
    )
    assert list(X[[2, 0]].ids) == ["c", "a"]
    assert list(X[1:].ids) == ["b", "c"]
    assert list(X[1:].feature_names) == ["u", "v", "w"]
    # Default ids stay with their bags too.
    assert list(Bags.from_list(model_of([1, 2, 3]))[1:].ids) == [1, 2]


def test_contiguous_slices_are_views_and_nothing_can_be_written():
    X = Bags.from_list(model_of([2, 3, 4]))
    assert np.shares_memory(X[1:3].data, X.data)
    assert np.shares_memory(X[1], X.data)
    assert not X.data.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        X.data[0, 0] = 1.0
    with pytest.raises(AttributeError):
        X.data = None


def test_own_array_is_neither_copied_nor_frozen():
    rows = np.zeros((5, 2))
    X = Bags(rows, [0, 2, 5])
    assert np.shares_memory(X.data, rows)
    assert rows.flags.writeable
    sparse = sp.random(5, 4, 0.5, format="csr", random_state=0)
    Y = Bags(sparse, [0, 2, 5])
    assert np.shares_memory(Y.data.data, sparse.data)
    assert sparse.data.flags.writeable


def test_memory_map_is_kept(tmp_path):
    np.save(tmp_path / "rows.npy", np.arange(20.0).reshape(10, 2))
    X = Bags(np.load(tmp_path / "rows.npy", mmap_mode="r"), [0, 4, 10])
    assert isinstance(X.data, np.memmap)
    assert isinstance(X[1:].data, np.memmap)
    np.testing.assert_array_equal(X[1], np.arange(20.0).reshape(10, 2)[4:])


def test_conversions():
    items = model_of([2, 1, 3])
    X = Bags.from_list(items)
    order = np.random.default_rng(0).permutation(6)
    ids = np.array(["p", "p", "q", "r", "r", "r"])
    # A stable order inside bags: sort the shuffled rows' bags back by id.
    Y = Bags.from_arrays(X.data[order], ids[order])
    for name in "pqr":
        rows = Y[list(Y.ids).index(name)]
        expected = X.data[order][ids[order] == name]
        np.testing.assert_array_equal(rows, expected)
    Z = Bags.from_arrays(X.data, ids)
    assert np.shares_memory(Z.data, X.data)
    assert_equal(as_bags(np.ones((4, 2, 3))), [np.ones((2, 3))] * 4)
    assert as_bags(X) is X
    both = Bags.concatenate([X, Z])
    assert_equal(both, items + items)


def test_integers_become_floats_and_single_precision_stays():
    assert Bags(np.ones((2, 2), dtype=int), [0, 2]).dtype == np.float64
    assert Bags(np.ones((2, 2), dtype=np.float32), [0, 2]).dtype == np.float32


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Bags.from_list([]), ValueError, "empty"),
        (lambda: Bags(np.ones((3, 2)), [0, 1, 1, 3]), ValueError, "bag 1 is empty"),
        (lambda: Bags(np.ones((3, 2)), [0, 2]), ValueError, "end with"),
        (lambda: Bags(np.ones((3, 2)), [0.0, 3.0]), ValueError, "integers"),
        (lambda: Bags(np.ones(3), [0, 3]), ValueError, "matrix"),
        (lambda: Bags.from_list([np.ones(3)]), ValueError, "bag 0 has 1 dimension"),
        (lambda: as_bags(np.ones((3, 2))), ValueError, "from_arrays"),
        (lambda: as_bags(3), TypeError, "int"),
        (lambda: Bags(np.array([["a"]]), [0, 1]), TypeError, "column 0"),
        (lambda: Bags(np.ones((2, 2)), [0, 2], ids=["a", "b"]), ValueError, "ids"),
        (lambda: np.asarray(Bags(np.ones((2, 2)), [0, 2])), TypeError, "X.data"),
        (lambda: Bags.from_arrays(np.ones((2, 2)), [1.0, np.nan]), ValueError, "row 1"),
        (lambda: Bags.from_arrays(np.ones((2, 2)), [1]), ValueError, "2 rows"),
    ],
)
def test_bad_input_is_named(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_bad_keys():
    X = Bags.from_list(model_of([2, 3]))
    for key in (2, -3, [0, 5], np.array([True]), "a", 1.5, (0, 1), [[0]]):
        with pytest.raises(IndexError):
            X[key]


def test_scikit_learn_splits_bags():
    X = Bags.from_list(model_of([2, 3, 1, 4, 2, 3, 1, 2]))
    y = np.array([0, 1] * 4)
    for train, test in KFold(4).split(X, y):
        assert isinstance(X[train], Bags)
        assert len(X[train]) + len(X[test]) == 8
    a, b, ya, _ = train_test_split(X, y, random_state=0, stratify=y)
    assert isinstance(a, Bags)
    assert len(a) == len(ya) == 6
    assert len(b) == 2
    assert isinstance(shuffle(X, random_state=0), Bags)
    assert isinstance(resample(X, random_state=0), Bags)
    assert cross_val_score(SimpleMI(), X, y, cv=2, n_jobs=2).shape == (2,)


def test_copies_and_pickles():
    X = Bags.from_list(model_of([2, 3]), ids=["a", "b"])
    assert copy.copy(X) is X
    assert copy.deepcopy(X) is X
    assert clone(X, safe=False) is X
    again = pickle.loads(pickle.dumps(X[1:]))
    assert_equal(again, X[1:].to_list())
    assert list(again.ids) == ["b"]
    # A slice of a large container does not drag the rest along.
    large = Bags(np.zeros((100_000, 4)), np.arange(0, 100_001, 10))
    assert len(pickle.dumps(large[:10])) < 10_000


def test_scikit_learns_importance_is_told_where_to_go():
    from sklearn.dummy import DummyClassifier
    from sklearn.inspection import permutation_importance

    X = Bags(np.ones((4, 2)), [0, 1, 2, 3, 4])
    model = DummyClassifier().fit(X, [0, 1, 0, 1])
    with pytest.raises(TypeError, match="inspection.bag_permutation_importance"):
        permutation_importance(model, X, [0, 1, 0, 1])


def test_repr():
    X = Bags.from_list(model_of([2, 3, 7]), ids=["<b>", "c", "d"])
    assert repr(X) == (
        "Bags(n_bags=3, n_instances=12, n_features=3, sizes 2/3/7 (min/median/max))"
    )
    html = X._repr_html_()
    assert "&lt;b&gt;" in html
    assert html.count("<b>") == 1  # the title
    assert "no bags" in repr(X[:0])


def _annotated(sizes):
    n, total = len(sizes), sum(sizes)
    offsets = np.cumsum([0, *sizes])
    return Bags(
        np.arange(2.0 * total).reshape(total, 2),
        offsets,
        ids=[f"bag {i}" for i in range(n)],
        groups=[f"patient {i // 2}" for i in range(n)],
        instance_ids=np.arange(total) * 10,
        coords=np.arange(3.0 * total).reshape(total, 3),
    )


def _as_lists(X):
    """What stands in each bag, one tuple per bag: the truth to compare with."""
    cuts = list(zip(X.offsets, X.offsets[1:], strict=False))
    return [
        (
            X.ids[i],
            X.groups[i],
            X.data[a:b].tolist(),
            X.instance_ids[a:b].tolist(),
            X.coords[a:b].tolist(),
        )
        for i, (a, b) in enumerate(cuts)
    ]


@given(bags_and_key())
def test_groups_names_and_coordinates_travel_with_their_bags(case):
    sizes, key, _ = case
    X = _annotated(sizes)
    if isinstance(key, int):
        key = [key]
    chosen = X[key]
    assert _as_lists(chosen) == index_list(_as_lists(X), key)
    for array in (chosen.groups, chosen.instance_ids, chosen.coords):
        assert not array.flags.writeable


def test_groups_survive_everything_that_keeps_bags():
    X = _annotated([2, 1, 3])
    assert _as_lists(pickle.loads(pickle.dumps(X))) == _as_lists(X)
    assert _as_lists(as_bags(X)) == _as_lists(X)
    assert _as_lists(copy.deepcopy(X)) == _as_lists(X)
    both = Bags.concatenate([X[:2], X[2:]])
    assert _as_lists(both) == _as_lists(X)
    other = X.with_data(np.ones((6, 5)))
    np.testing.assert_array_equal(other.groups, X.groups)
    np.testing.assert_array_equal(other.coords, X.coords)
    np.testing.assert_array_equal(other.instance_ids, X.instance_ids)
    chunks = list(X.iter_chunks(3))
    assert [row for part in chunks for row in _as_lists(part)] == _as_lists(X)
    train, test = train_test_split(X, test_size=1, random_state=0)
    assert sorted([*_as_lists(train), *_as_lists(test)]) == _as_lists(X)
    assert "2 groups" in repr(X)
    renamed = X.with_groups([7, 8, 7])
    assert renamed.groups.tolist() == [7, 8, 7]
    assert renamed.data is X.data
    assert np.shares_memory(renamed.coords, X.coords)
    assert X.with_groups(None).groups is None


def test_rows_in_any_order_keep_their_names():
    ids = np.array(["b", "a", "b", "a"])
    X = Bags.from_arrays(
        np.arange(4.0)[:, None],
        ids,
        groups=["G", "H", "G", "H"],
        instance_ids=["b0", "a0", "b1", "a1"],
        coords=np.arange(8).reshape(4, 2),
    )
    assert X.ids.tolist() == ["b", "a"]
    assert X.groups.tolist() == ["G", "H"]
    assert X.instance_ids.tolist() == ["b0", "b1", "a0", "a1"]
    assert X.coords.tolist() == [[0, 1], [4, 5], [2, 3], [6, 7]]
    with pytest.raises(ValueError, match="groups differ within bag a: H and G"):
        Bags.from_arrays(np.zeros((4, 1)), ids, groups=["G", "H", "G", "G"])
    listed = Bags.from_list([np.zeros((1, 1)), np.ones((2, 1))], groups=[5, 6])
    assert listed.groups.tolist() == [5, 6]


def test_wrong_groups_names_and_coordinates_are_refused():
    rows, offsets = np.zeros((3, 2)), [0, 1, 3]
    with pytest.raises(ValueError, match="groups must have one entry .* 2 bags"):
        Bags(rows, offsets, groups=[1, 2, 3])
    for missing in (["a", None], [1.0, np.nan]):
        with pytest.raises(ValueError, match="group of bag 1 is missing"):
            Bags(rows, offsets, groups=missing)
    with pytest.raises(ValueError, match="instance_ids must have .* 3 instances"):
        Bags(rows, offsets, instance_ids=[1, 2])
    with pytest.raises(ValueError, match="one row for each of the 3 instances"):
        Bags(rows, offsets, coords=[1, 2, 3])
    with pytest.raises(TypeError, match="real numbers"):
        Bags(rows, offsets, coords=[["a"], ["b"], ["c"]])
    with pytest.raises(ValueError, match="coords of instance 2 are not finite"):
        Bags(rows, offsets, coords=[[1.0], [2.0], [np.nan]])
    with pytest.raises(ValueError, match="part 1 has no groups"):
        Bags.concatenate([Bags(rows, offsets, groups=[1, 2]), Bags(rows, offsets)])


@pytest.mark.parametrize("on_disk", [False, True])
def test_half_precision_is_stored_and_never_computed_with(tmp_path, on_disk):
    from bagwise.compose import SimpleMI
    from bagwise.linear_model import MILogisticRegression

    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 3)).astype(np.float16)
    rows[::6] += 3
    y = np.arange(20) % 2
    if on_disk:
        rows.tofile(tmp_path / "rows")
        rows = np.memmap(tmp_path / "rows", dtype=np.float16, mode="r", shape=(60, 3))
    half, single = (Bags(r, np.arange(0, 61, 3)) for r in (rows, np.float32(rows)))
    assert half.dtype == np.float16
    assert half[[3, 1]].dtype == np.float16
    for model in (SimpleMI(), MILogisticRegression()):
        scores = (model.fit(X, y).decision_function(X) for X in (half, single))
        np.testing.assert_allclose(*scores, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("what", ["ids", "groups", "instance_ids", "coords"])
def test_masked_notes_are_refused(what):
    shape = (3, 2) if what == "coords" else 3
    hidden = np.ma.array(np.ones(shape), mask=False)
    hidden[-1] = np.ma.masked
    with pytest.raises(ValueError, match=f"{what} is a masked array.*first at"):
        Bags(np.zeros((3, 1)), [0, 1, 2, 3], **{what: hidden})
    sound = np.ma.array(np.arange(np.prod(shape)).reshape(shape), mask=False)
    found = Bags(np.zeros((3, 1)), [0, 1, 2, 3], **{what: sound})
    np.testing.assert_array_equal(getattr(found, what), sound.data)


@pytest.mark.parametrize(
    "missing", [None, np.nan, np.datetime64("NaT", "s"), pd.NA, pd.NaT], ids=repr
)
def test_a_missing_group_is_named(missing):
    groups = np.array(["a", missing, "b"], dtype=object)
    with pytest.raises(ValueError, match="group of bag 1 is missing"):
        Bags(np.zeros((3, 1)), [0, 1, 2, 3], groups=groups)


@pytest.mark.parametrize("data", [[["a", "b"], ["c"]], [[1.0, 2.0], [3.0]], [1.0, 2.0]])
def test_what_is_no_matrix_says_where_lists_go(data):
    with pytest.raises(ValueError, match=r"one matrix of shape .* Bags\.from_list"):
        Bags(data, [0, 1, 2])


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csc_matrix, sp.csr_array])
@pytest.mark.parametrize(
    ("part", "value"), [("indices", 1000), ("indices", -1), ("indptr", 10**6)]
)
def test_a_broken_sparse_matrix_is_refused(kind, part, value):
    broken = kind(np.eye(4))
    getattr(broken, part)[-1] = value
    with pytest.raises(ValueError, match="broken sparse matrix"):
        Bags(broken, np.arange(5))


@pytest.mark.parametrize("bags", [["ab", "c"], np.array(["ab", "c"])])
def test_text_is_refused_with_what_to_do(bags):
    with pytest.raises(TypeError, match="bag 0 is text .*encode the text first"):
        as_bags(bags)
