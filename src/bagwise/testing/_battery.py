"""The checks that every estimator of bags must pass, besides scikit-learn's own.

Each check is a function of an unfitted estimator. They run over everything that
`all_estimators` finds; a new estimator needs no test code to be covered by them.
"""

import pickle
import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags

from bagwise.bags import Bags, Ragged
from bagwise.datasets import make_bags


def _toy(n_classes=2, seed=0):
    return make_bags(
        24, n_features=4, n_classes=n_classes, bag_size=(2, 5), random_state=seed
    )


def _fit(estimator, X, y):
    model = clone(estimator)
    if "random_state" in model.get_params(deep=False):
        model.set_params(random_state=0)
    return model.fit(X, y)


def _output(model, X):
    """Return what the model says of the bags: decision values or transformed data."""
    if hasattr(model, "decision_function"):
        return model.decision_function(X)
    if is_regressor(model):
        return model.predict(X)
    out = model.transform(X)
    out = out.data if isinstance(out, Bags) else out
    return out.toarray() if sp.issparse(out) else np.asarray(out)


def _assert_same(a, b, rtol, what):
    scale = max(1.0, float(np.abs(a).max(initial=0.0)))
    worst = float(np.abs(a - b).max(initial=0.0))
    assert a.shape == b.shape, f"{what}: shape {a.shape} became {b.shape}"
    assert worst <= rtol * scale, f"{what}: off by {worst:.2e} at scale {scale:.2e}"


def _is_deterministic(estimator):
    """Whether nothing is drawn at random, so that the order of the data is free."""
    return not any(
        name.split("__")[-1] == "random_state" for name in estimator.get_params()
    )


def _bag_rows(estimator, X, model=None):
    """Whether the output has one row per bag (and not per instance)."""
    scores = hasattr(estimator, "decision_function") or is_regressor(estimator)
    return scores or not isinstance(model.transform(X), Bags)


def check_containers_agree(estimator):
    """A list, `Bags`, a Fortran-ordered list and CSR give the same result."""
    X, y = _toy()
    model = _fit(estimator, X, y)
    expected = _output(model, X)
    as_list = X.to_list()
    _assert_same(expected, _output(_fit(estimator, as_list, y), as_list), 1e-7, "list")
    fortran = [np.asfortranarray(b) for b in as_list]
    _assert_same(expected, _output(_fit(estimator, fortran, y), fortran), 1e-7, "F")
    if get_tags(estimator).input_tags.sparse:
        sparse = X.with_data(sp.csr_matrix(X.data))
        ours = _output(_fit(estimator, sparse, y), sparse)
        if ours.shape == expected.shape and not _own_sparse_default(estimator):
            _assert_same(expected, ours, 1e-4, "CSR")
        assert np.isfinite(ours).all()


def _own_sparse_default(estimator):
    """Whether the estimator documents another default learner for sparse data."""
    return "estimator" in estimator.get_params(deep=False) and (
        estimator.estimator is None
    )


def check_test_bag_order(estimator):
    """Permuting the bags at prediction permutes the answers."""
    X, y = _toy()
    model = _fit(estimator, X, y)
    order = np.random.default_rng(1).permutation(len(X))
    expected = _output(model, X)
    if not _bag_rows(estimator, X, model):
        rows = [np.arange(X.offsets[i], X.offsets[i + 1]) for i in order]
        _assert_same(
            expected[np.concatenate(rows)], _output(model, X[order]), 1e-9, "order"
        )
        return
    _assert_same(expected[order], _output(model, X[order]), 1e-7, "bag order")


def check_training_bag_order(estimator):
    """The order of the training bags does not matter (where nothing is drawn)."""
    if not _is_deterministic(estimator):
        return
    X, y = _toy()
    order = np.random.default_rng(2).permutation(len(X))
    a, b = _fit(estimator, X, y), _fit(estimator, X[order], y[order])
    _assert_same(_output(a, X), _output(b, X), 1e-3, "order of training bags")


def _shuffled_inside(X, seed=3):
    rng = np.random.default_rng(seed)
    return Bags.from_list([b[rng.permutation(len(b))] for b in X])


def check_instance_order(estimator):
    """The order of the instances of a bag does not matter."""
    X, y = _toy()
    model = _fit(estimator, X, y)
    if not _bag_rows(estimator, X, model):
        return
    expected = _output(model, X)
    shuffled = _shuffled_inside(X)
    _assert_same(expected, _output(model, shuffled), 1e-7, "instance order, predict")
    if _is_deterministic(estimator):
        refit = _fit(estimator, shuffled, y)
        _assert_same(expected, _output(refit, X), 1e-3, "instance order, fit")


def check_bags_of_one(estimator):
    """Bags with a single instance are fine, in training and in prediction."""
    X, y = _toy()
    alone = Bags(X.data[X.offsets[:-1]], np.arange(len(X) + 1))
    assert np.isfinite(_output(_fit(estimator, alone, y), alone)).all()
    assert np.isfinite(_output(_fit(estimator, X, y), alone)).all()


def check_duplicated_instances(estimator):
    """Repeating every instance changes nothing, where the class promises that."""
    if not getattr(get_tags(estimator).input_tags, "duplicate_invariant", None):
        return
    X, y = _toy()
    doubled = Bags.from_list([np.repeat(b, 2, axis=0) for b in X])
    a, b = _fit(estimator, X, y), _fit(estimator, doubled, y)
    if _bag_rows(estimator, X, a):
        _assert_same(_output(a, X), _output(b, X), 1e-5, "duplicates in training")
        _assert_same(_output(a, X), _output(a, doubled), 1e-7, "duplicates, predict")


def check_float32(estimator):
    """Data in single precision work and give nearly the same result."""
    X, y = _toy()
    single = X.with_data(X.data.astype(np.float32))
    ours = _output(_fit(estimator, single, y), single)
    assert ours.dtype.kind == "f"
    assert np.isfinite(ours).all()
    if is_classifier(estimator):
        model = _fit(estimator, X, y)
        agree = (model.predict(X) == model.predict(single)).mean()
        assert agree > 0.9, f"float32 changes {1 - agree:.0%} of the predictions"


def check_read_only_memory_map(estimator):
    """A read-only memory map works, as workers get one for large data."""
    X, y = _toy()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        np.save(path, X.data)
        mapped = Bags(np.load(path, mmap_mode="r"), X.offsets)
        expected = _output(_fit(estimator, X, y), X)
        _assert_same(expected, _output(_fit(estimator, mapped, y), mapped), 1e-7, "map")
        del mapped


def check_same_seed(estimator):
    """The same seed gives the same result, bit by bit."""
    X, y = _toy()
    a, b = _fit(estimator, X, y), _fit(estimator, X, y)
    np.testing.assert_array_equal(_output(a, X), _output(b, X))


def check_n_jobs(estimator):
    """The number of workers does not change the result."""
    if "n_jobs" not in estimator.get_params(deep=False):
        return
    X, y = _toy()
    one = _fit(clone(estimator).set_params(n_jobs=1), X, y)
    two = _fit(clone(estimator).set_params(n_jobs=2), X, y)
    _assert_same(_output(one, X), _output(two, X), 1e-12, "n_jobs")


def check_round_trip(estimator):
    """Pickling and `bagwise.save` keep the fitted model."""
    import bagwise

    X, y = _toy()
    model = _fit(estimator, X, y)
    expected = _output(model, X)
    _assert_same(expected, _output(pickle.loads(pickle.dumps(model)), X), 0.0, "pickle")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.bagwise"
        bagwise.save(model, path)
        _assert_same(expected, _output(bagwise.load(path), X), 0.0, "save and load")


def check_fit_changes_nothing(estimator):
    """`fit` leaves the parameters and the data as they were."""
    X, y = _toy()
    data, labels = X.data.copy(), y.copy()
    model = clone(estimator)
    before = {k: repr(v) for k, v in model.get_params().items()}
    model.fit(X, y)
    assert before == {k: repr(v) for k, v in model.get_params().items()}
    np.testing.assert_array_equal(X.data, data)
    np.testing.assert_array_equal(y, labels)


def check_classifier_outputs(estimator):
    """Labels, scores and instance scores have their shapes and agree."""
    if not is_classifier(estimator):
        return
    for n_classes in (2, 3):
        X, y = _toy(n_classes)
        names = np.array(["a", "b", "c"])[y]
        model = _fit(estimator, X, names)
        scores = model.decision_function(X)
        labels = model.predict(X)
        assert labels.shape == (len(X),)
        assert set(labels) <= set(names)
        assert scores.shape == ((len(X),) if n_classes == 2 else (len(X), n_classes))
        if n_classes == 2:
            np.testing.assert_array_equal(labels == model.classes_[1], scores > 0)
        if hasattr(model, "predict_proba"):
            p = model.predict_proba(X)
            assert p.shape == (len(X), n_classes)
            np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-9)
        _check_instance_outputs(model, X)
        assert (labels == names).mean() > 0.6, "no better than guessing on easy data"


def _check_instance_outputs(model, X):
    if not hasattr(model, "instance_scores"):
        return
    scores = model.instance_scores(X)
    assert isinstance(scores, Ragged)
    np.testing.assert_array_equal(scores.offsets, X.offsets)
    assert np.isfinite(scores.values).all()
    assert model.predict_instances(X).values.shape == (X.n_instances,)
    keys = model.key_instances(X)
    assert keys.shape == (len(X),)
    assert ((keys >= 0) & (keys < X.sizes)).all()


def _raises(function, error, *words):
    try:
        function()
    except error as caught:
        text = str(caught).lower()
        for word in words:
            assert word.lower() in text, f"the message does not say {word!r}: {caught}"
    else:
        raise AssertionError(f"nothing was raised where {words} is wrong")


def check_bad_bags(estimator):
    """What no method can use is refused with a message that names the culprit."""
    X, y = _toy()
    bags = X.to_list()
    fit = lambda bags, labels=y: clone(estimator).fit(bags, labels)  # noqa: E731
    wrong = (ValueError, TypeError)
    _raises(lambda: fit([], []), wrong, "empty")
    _raises(lambda: fit([bags[0], bags[1][:0], *bags[2:]]), wrong, "bag 1", "empty")
    _raises(lambda: fit([*bags[:-1], bags[-1][:, :2]]), wrong, "bag 23", "features")
    _raises(lambda: fit(X.data), wrong, "bag_ids")
    _raises(lambda: fit("abc"), wrong, "bags")
    if not get_tags(estimator).input_tags.allow_nan:
        for value, word in ((np.nan, "NaN"), (np.inf, "infinity")):
            spoilt = [b.copy() for b in bags]
            spoilt[5][1, 2] = value
            message = ("bag 5", "instance 1", "column 2", word)
            _raises(lambda spoilt=spoilt: fit(spoilt), wrong, *message)
    text = [*bags[:-1], np.full(bags[-1].shape, "red", dtype=object)]
    _raises(lambda: fit(text), wrong, "numeric")


def check_bad_labels(estimator):
    """Labels that do not fit the bags are refused."""
    if not is_classifier(estimator):
        return
    X, y = _toy()
    _raises(lambda: clone(estimator).fit(X, y[:-1]), ValueError, "23", "24")
    _raises(lambda: clone(estimator).fit(X, np.zeros(len(X))), ValueError, "class")
    per_row = np.repeat(y, X.sizes)
    _raises(lambda: clone(estimator).fit(X, per_row), ValueError, "per instance")


def check_bad_prediction(estimator):
    """Prediction before `fit`, or on other features, is refused."""
    X, y = _toy()
    _raises(lambda: _output(clone(estimator), X), NotFittedError, "fit")
    model = _fit(estimator, X, y)
    narrow = X.with_data(X.data[:, :3])
    _raises(lambda: _output(model, narrow), ValueError, "3", "4", "features")
    named = X.with_data(X.data, feature_names=["a", "b", "c", "d"])
    other = X.with_data(X.data, feature_names=["a", "b", "c", "e"])
    model = _fit(estimator, named, y)
    _raises(lambda: _output(model, other), ValueError, "'d'", "'e'")
    wide = X.with_data(
        np.column_stack([X.data, X.data[:, 0]]), feature_names=[*"abcd", "label"]
    )
    _raises(lambda: _output(model, wide), ValueError, "not seen in fit: label")


def check_awkward_data(estimator):
    """Constant columns, one feature, unequal bags and repeats simply work."""
    X, y = _toy()
    constant = np.column_stack([X.data, np.full(X.n_instances, 7.0)])
    cases = {
        "a constant column": X.with_data(constant),
        "one feature": X.with_data(X.data[:, :1]),
        "identical instances": Bags.from_list([np.repeat(b[:1], 3, 0) for b in X]),
        "a bag of 300": Bags.from_list(
            [np.repeat(X[0], 75, 0)[:300], *X.to_list()[1:]]
        ),
    }
    for what, bags in cases.items():
        assert np.isfinite(_output(_fit(estimator, bags, y), bags)).all(), what


BATTERY = (
    check_containers_agree,
    check_test_bag_order,
    check_training_bag_order,
    check_instance_order,
    check_bags_of_one,
    check_duplicated_instances,
    check_float32,
    check_read_only_memory_map,
    check_same_seed,
    check_n_jobs,
    check_round_trip,
    check_fit_changes_nothing,
    check_classifier_outputs,
    check_bad_bags,
    check_bad_labels,
    check_bad_prediction,
    check_awkward_data,
)


def check_bag_estimator(estimator):
    """Run the whole battery on one estimator.

    Parameters
    ----------
    estimator : estimator
        An unfitted estimator of bags.
    """
    for check in BATTERY:
        check(estimator)
