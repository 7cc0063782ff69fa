"""Columns of data frames and of models are matched by name, never by chance."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import shuffle

import bagwise
from bagwise import Bags, compare
from bagwise.comparison.problem import as_problem
from bagwise.compose import (
    OneModelPerLabel,
    OnInstances,
    SimpleMI,
    SimpleMIRegressor,
)
from bagwise.datasets import make_bags
from bagwise.inspection import (
    bag_permutation_importance,
    explain,
    feature_contributions,
)
from bagwise.linear_model import MILogisticRegression

NAMES = ["a", "b", "c", "d"]
MIXED = ["d", "b", "a", "c"]


@pytest.fixture
def frames():
    X, y = make_bags(40, n_features=4, random_state=0)
    return [pd.DataFrame(bag, columns=NAMES) for bag in X], y


def _named(frames, names=NAMES):
    return Bags.from_list([frame[names] for frame in frames])


def test_a_list_of_frames_keeps_names_and_order(frames):
    frames, _ = frames
    mixed = [f[MIXED] if i % 2 else f for i, f in enumerate(frames)]
    X = Bags.from_list(mixed)
    assert X.feature_names.tolist() == NAMES
    np.testing.assert_array_equal(X.data, np.concatenate(frames))
    numbered = [pd.DataFrame(f.to_numpy()) for f in frames]
    assert Bags.from_list(numbered).feature_names is None


def test_frames_with_other_columns_are_refused(frames):
    frames, _ = frames
    renamed = frames[3].rename(columns={"a": "q"})
    with pytest.raises(ValueError, match=r"bag 3 .*Missing: 'a'. Only there: 'q'"):
        Bags.from_list([*frames[:3], renamed])
    with pytest.raises(ValueError, match="bag 1 is not"):
        Bags.from_list([frames[0], frames[1].to_numpy()])
    doubled = [frame.set_axis(["a", "a", "b", "c"], axis=1) for frame in frames]
    with pytest.raises(ValueError, match="same name: 'a'"):
        Bags.from_list(doubled)


def test_concatenated_bags_are_matched_by_name(frames):
    frames, _ = frames
    X = Bags.concatenate([_named(frames[:5]), _named(frames[5:], MIXED)])
    np.testing.assert_array_equal(X.data, np.concatenate(frames))
    other = X.with_data(X.data, feature_names=["a", "b", "c", "e"])
    with pytest.raises(ValueError, match="part 1 differ"):
        Bags.concatenate([X, other])


@pytest.mark.parametrize("scaled", [False, True])
def test_models_select_columns_by_name(frames, scaled):
    frames, y = frames
    model = make_pipeline(OnInstances(StandardScaler()), SimpleMI())
    model = (model if scaled else SimpleMI()).fit(frames, y)
    expected = model.decision_function(frames)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(
            model.decision_function(_named(frames, MIXED)), expected
        )
    extra = [f.assign(z=np.nan)[["z", *MIXED]] for f in frames]
    with pytest.warns(UserWarning, match="ignored: 'z'") as caught:
        np.testing.assert_array_equal(model.decision_function(extra), expected)
    assert len(caught) == 1
    with pytest.raises(ValueError, match="Missing: 'b', 'd'"):
        model.predict(_named(frames, ["a", "c"]))
    # Without names the position counts.
    arrays = [frame.to_numpy() for frame in frames]
    np.testing.assert_array_equal(model.decision_function(arrays), expected)
    with pytest.raises(ValueError, match="4 features"):
        model.predict([array[:, :3] for array in arrays])


def test_strict_columns(frames):
    frames, y = frames
    model = SimpleMI().fit(frames, y)
    with bagwise.config_context(columns="strict"):
        model.predict(frames)
        with pytest.raises(ValueError, match="Column 0 was 'a', not 'd'"):
            model.predict(_named(frames, MIXED))
        with pytest.raises(ValueError, match="not seen in fit: 'z'"):
            model.predict([f.assign(z=0.0) for f in frames])
    with pytest.raises(ValueError, match="columns must be one of"):
        with bagwise.config_context(columns="loose"):
            pass


def test_names_that_occur_twice_are_no_names(frames):
    frames, y = frames
    model = SimpleMI().fit(frames, y)
    X = _named(frames)
    twice = np.hstack([X.data, X.data[:, :1]])
    with pytest.raises(ValueError, match="occur twice: 'a'"):
        model.predict(X.with_data(twice, feature_names=[*NAMES, "a"]))


def test_sparse_columns_are_selected(frames):
    frames, y = frames
    X = _named(frames)
    X = X.with_data(sp.csr_array(X.data), feature_names=NAMES)
    model = SimpleMI().fit(X, y)
    order = [NAMES.index(name) for name in MIXED]
    other = X.with_data(X.data[:, order], feature_names=MIXED)
    np.testing.assert_array_equal(
        model.decision_function(other), model.decision_function(X)
    )


def test_columns_of_a_map_are_not_copied(frames, tmp_path):
    frames, y = frames
    X = _named(frames)
    np.save(tmp_path / "rows.npy", X.data)
    rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
    stored = Bags(rows, X.offsets, feature_names=NAMES)
    model = MILogisticRegression().fit(stored, y)
    with pytest.raises(ValueError, match="on disk"):
        model.predict(Bags(rows, X.offsets, feature_names=MIXED))


def test_explanations_follow_the_names(frames):
    frames, y = frames
    model = MILogisticRegression(random_state=0).fit(frames, y)
    X, other = _named(frames), _named(frames, MIXED)
    one, two = feature_contributions(model, X), feature_contributions(model, other)
    np.testing.assert_allclose(one.values, two.values)
    assert list(one.names) == list(two.names)
    np.testing.assert_array_equal(
        explain(model, X[:2]).scores, explain(model, other[:2]).scores
    )


def test_a_test_set_is_a_pair_and_matched_by_name(frames):
    frames, y = frames
    quiet = {"methods": ["SimpleMI"], "grid": "none", "n_jobs": 1, "progress": False}
    train, test = _named(frames[:25]), _named(frames[25:])
    found = compare(train, y[:25], test=(test, y[25:]), **quiet)
    mixed = compare((train, y[:25]), test=(_named(frames[25:], MIXED), y[25:]), **quiet)
    for one, two in zip(found.rows, mixed.rows, strict=True):
        np.testing.assert_array_equal(
            found.arrays[one["key"]]["score"], mixed.arrays[two["key"]]["score"]
        )
    with pytest.raises(ValueError, match=r"pair \(X, y\)"):
        compare(train, y[:25], test=test, **quiet)


def test_series_are_put_in_the_order_of_the_bags(frames):
    frames, y = frames
    ids = [f"bag {i}" for i in range(40)]
    X = Bags.from_list(frames, ids=ids)
    rng = np.random.default_rng(0)
    order, weight = rng.permutation(40), rng.uniform(0.5, 2, 40)
    labels = pd.Series(y, index=ids).iloc[order]
    weights = pd.Series(weight, index=ids).iloc[order]
    groups = pd.Series(np.arange(40) // 2, index=ids).iloc[order]
    problem = as_problem(X, labels, sample_weight=weights, groups=groups)
    np.testing.assert_array_equal(problem.y, y)
    np.testing.assert_array_equal(problem.sample_weight, weight)
    np.testing.assert_array_equal(problem.groups, np.arange(40) // 2)
    model = SimpleMI().fit(X, labels, sample_weight=weights)
    np.testing.assert_array_equal(
        model.decision_function(X),
        SimpleMI().fit(X, y, sample_weight=weight).decision_function(X),
    )
    with pytest.raises(ValueError, match="index of sample_weight"):
        SimpleMI().fit(X, y, sample_weight=weights[:-1])
    assert model.score(X, labels, weights) == model.score(X, y, weight)
    found = SimpleMIRegressor().fit(X, weights)
    assert found.score(X, weights) == found.score(X, weight)
    table = pd.DataFrame({"one": labels, "two": 1 - labels})
    several = OneModelPerLabel(SimpleMI()).fit(X, table)
    np.testing.assert_array_equal(several.predict(X)[:, 0], model.predict(X))
    named = bag_permutation_importance(model, X, labels, random_state=0, n_repeats=1)
    placed = bag_permutation_importance(model, X, y, random_state=0, n_repeats=1)
    assert named.baseline == placed.baseline


def test_ids_of_another_type_are_matched_as_text(frames):
    frames, y = frames
    X = Bags.from_list(frames, ids=np.arange(100, 140))
    labels = pd.Series(y, index=[str(i) for i in range(100, 140)])[::-1]
    assert SimpleMI().fit(X, labels).score(X, y) == SimpleMI().fit(X, y).score(X, y)


def test_bags_without_ids_are_in_the_order_of_the_labels(frames):
    """Positions are no ids: a list that was shuffled with its labels stays as it is."""
    frames, y = frames
    labels = pd.Series(y)
    for bags in (frames, [frame.to_numpy() for frame in frames]):
        mixed, mixed_labels = shuffle(bags, labels, random_state=0)
        model = SimpleMI().fit(mixed, mixed_labels)
        expected = SimpleMI().fit(mixed, mixed_labels.to_numpy())
        np.testing.assert_array_equal(
            model.decision_function(bags), expected.decision_function(bags)
        )
        assert model.score(mixed, mixed_labels) == expected.score(bags, y)
        some, rest, y_some, y_rest = train_test_split(bags, labels, random_state=0)
        assert 0 <= SimpleMI().fit(some, y_some).score(rest, y_rest) <= 1
