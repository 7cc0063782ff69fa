"""Checks of fitted models: repeatable fits, saved models, labels and defaults."""

import pickle
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from numbers import Integral
from pathlib import Path

import numpy as np
from joblib.externals.loky import ProcessPoolExecutor
from sklearn.base import BaseEstimator, clone
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from bagwise._compat import Interval, StrOptions
from bagwise.bags import Bags, Ragged
from bagwise.base.thresholds import best_threshold
from bagwise.compose import OnInstances
from bagwise.datasets import make_bags, make_key_instance_bags
from bagwise.io import load, save
from bagwise.testing._tools import (
    assert_same,
    fit,
    need_classifier,
    output,
    raises,
    skip,
    toy,
)


def check_same_seed(estimator):
    """The same random seed gives the same result, bit by bit."""
    X, y = toy()
    a, b = fit(estimator, X, y), fit(estimator, X, y)
    np.testing.assert_array_equal(output(a, X), output(b, X))


def check_n_jobs(estimator):
    """The number of workers does not change the result."""
    if "n_jobs" not in estimator.get_params(deep=False):
        skip("it has no n_jobs")
    X, y = toy()
    one = fit(clone(estimator).set_params(n_jobs=1), X, y)
    two = fit(clone(estimator).set_params(n_jobs=2), X, y)
    assert_same(output(one, X), output(two, X), 1e-12, "n_jobs")


def _need_importable(estimator):
    if "<locals>" in type(estimator).__qualname__:
        skip("its class is defined inside a function, so files cannot name it")


def check_pickle(estimator):
    """A pickled model gives the same result."""
    _need_importable(estimator)
    X, y = toy()
    model = fit(estimator, X, y)
    again = pickle.loads(pickle.dumps(model))
    assert_same(output(model, X), output(again, X), 0.0, "pickle")


def check_model_file(estimator):
    """A model that was written by `bagwise.save` gives the same result.

    `bagwise.load` knows the classes of bagwise and of scikit-learn; others, which only
    the caller of `load` can trust, are named to it here.
    """
    _need_importable(estimator)
    X, y = toy()
    model = fit(estimator, X, y)
    parts = {type(value) for value in (model, *model.get_params().values())}
    own = [
        cls
        for cls in parts
        if issubclass(cls, BaseEstimator)
        and cls.__module__.partition(".")[0] not in ("bagwise", "sklearn")
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.bagwise"
        save(model, path)
        again = load(path, trusted=own)
    assert_same(output(model, X), output(again, X), 0.0, "save and load")


def check_fit_changes_nothing(estimator):
    """`fit` changes neither the parameters nor the data."""
    X, y = toy()
    data, labels = X.data.copy(), y.copy()
    model = clone(estimator)
    before = {k: repr(v) for k, v in model.get_params().items()}
    model.fit(X, y)
    assert before == {k: repr(v) for k, v in model.get_params().items()}
    np.testing.assert_array_equal(X.data, data)
    np.testing.assert_array_equal(y, labels)


def check_refit_forgets(estimator):
    """A second fit keeps nothing of the first, also with another number of classes."""
    need_classifier(estimator)
    (X3, y3), (X2, y2) = toy(3), toy(2)
    for first, second in (((X3, y3), (X2, y2)), ((X2, y2), (X3, y3))):
        again = fit(estimator, *first)
        if "random_state" in again.get_params(deep=False):
            again.set_params(random_state=0)
        again.fit(*second)
        fresh = fit(estimator, *second)
        kept = {name for name in vars(again) if name.endswith("_")}
        assert kept == {name for name in vars(fresh) if name.endswith("_")}
        np.testing.assert_array_equal(output(again, X2), output(fresh, X2))


def check_numpy_random_state(estimator):
    """A NumPy integer as `random_state` gives the same result as a Python one."""
    if "random_state" not in estimator.get_params(deep=False):
        skip("it has no random_state")
    X, y = toy()
    plain = clone(estimator).set_params(random_state=7).fit(X, y)
    other = clone(estimator).set_params(random_state=np.int64(7)).fit(X, y)
    np.testing.assert_array_equal(output(plain, X), output(other, X))


# Values to which parameters are set after a fit.
_INTEGERS, _NUMBERS = (1, 2, 3, 7, 50), (0.01, 0.3, 0.5, 1.0, 2.0, 10.0)


def check_parameters_after_fit(estimator):
    """Parameters that are set after a fit have no effect before the next fit.

    Parameters that a class declares in `_prediction_parameters` are exempt; its
    docstring says that they are used in prediction.
    """
    X, y = toy()
    model = fit(estimator, X, y)
    expected = _predictions(model, X)
    parameters = model.get_params(deep=False)
    exempt = set(getattr(model, "_prediction_parameters", ()))
    n_changed = 0
    for name in parameters.keys() - exempt:
        value = parameters[name]
        for other in _other_values(model, name, value):
            n_changed += 1
            model.set_params(**{name: other})
            try:
                for before, now in zip(expected, _predictions(model, X), strict=True):
                    np.testing.assert_array_equal(before, now)
            except Exception as error:
                raise AssertionError(
                    f"a fitted model depends on the parameter {name}={other!r}, which "
                    f"was {value!r} in fit"
                ) from error
            model.set_params(**{name: value})
    if not n_changed:
        skip("it has no parameter with other values")


def _predictions(model, X):
    """Return the output of a model for bags, and for their instances."""
    predictions = [output(model, X)]
    if hasattr(model, "predict_proba"):
        predictions.append(model.predict_proba(X))
    if hasattr(model, "instance_scores"):
        predictions.append(model.instance_scores(X).values)
    return predictions


def _other_values(model, name, value):
    """Return values that the constraints of a parameter allow, without its own."""
    constraints = getattr(model, "_parameter_constraints", {}).get(name, [])
    found = []
    for constraint in constraints:
        found += [None] if constraint is None else []
        if isinstance(constraint, StrOptions):
            found += sorted(constraint.options)
        elif isinstance(constraint, Interval):
            several = _INTEGERS if constraint.type is Integral else _NUMBERS
            found += [number for number in several if number in constraint]
        elif isinstance(constraint, str) and constraint == "boolean":
            found += [True, False]
    return [
        other for other in found if type(other) is not type(value) or other != value
    ]


def _fit_and_predict(estimator, X, y):
    return output(fit(estimator, X, y), X)


@cache
def _other_process():
    """Return one worker for all estimators, separate from those that joblib keeps."""
    # No timeout: a worker that stops when idle may lose the next task.
    return ProcessPoolExecutor(max_workers=1)


def check_fit_in_process(estimator):
    """A fit in another process gives the same result."""
    X, y = toy()
    with warnings.catch_warnings():
        # loky replaces a worker whose memory has grown, and warns in its own thread. If
        # warnings are errors, the thread ends and the result never arrives.
        warnings.filterwarnings("ignore", "A worker stopped", UserWarning)
        found = _other_process().submit(_fit_and_predict, estimator, X, y).result(300)
    np.testing.assert_array_equal(_fit_and_predict(estimator, X, y), found)


def check_fit_in_threads(estimator):
    """Fits that run at the same time in threads do not affect each other."""
    X, y = toy()
    expected = output(fit(estimator, X, y), X)
    with ThreadPoolExecutor(2) as pool:
        models = list(pool.map(lambda _: fit(estimator, X, y), range(2)))
    for model in models:
        np.testing.assert_array_equal(expected, output(model, X))


def check_classifier_outputs(estimator):
    """Labels, scores and instance scores have the right shapes and agree."""
    need_classifier(estimator)
    for n_classes in (2, 3):
        X, y = toy(n_classes)
        names = np.array(["a", "b", "c"])[y]
        pos_label = "b" if n_classes == 2 else None
        model = fit(clone(estimator).set_params(pos_label=pos_label), X, names)
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
        if hasattr(model, "instance_scores"):
            _check_instance_outputs(model, X)
        assert (labels == names).mean() > 0.6, "no better than chance on easy data"


def _check_instance_outputs(model, X):
    scores = model.instance_scores(X)
    assert isinstance(scores, Ragged)
    np.testing.assert_array_equal(scores.offsets, X.offsets)
    assert np.isfinite(scores.values).all()
    assert model.predict_instances(X).values.shape == (X.n_instances,)
    keys = model.key_instances(X)
    assert keys.shape == (len(X),)
    assert ((keys >= 0) & (keys < X.sizes)).all()


# (negative, positive): words, numbers and booleans in both alphabetical orders.
_NAMES = (
    ("a", "b"),
    ("b", "a"),
    ("inactive", "active"),
    ("active", "inactive"),
    (False, True),
    (True, False),
    (1, 0),
)


def check_names_of_labels(estimator):
    """With `pos_label`, predictions do not depend on the names of the labels."""
    need_classifier(estimator)
    X, y = toy()
    plain = fit(estimator, X, y)
    score, labels = output(plain, X), plain.predict(X)
    has_instances = hasattr(plain, "instance_scores")
    for negative, positive in _NAMES:
        model = clone(estimator).set_params(pos_label=positive)
        model = fit(model, X, np.array([negative, positive])[y])
        what = f"{negative!r} and {positive!r}, of which the second is positive"
        assert model.pos_label_ == positive
        np.testing.assert_array_equal(model.classes_, sorted([negative, positive]))
        np.testing.assert_array_equal(model.predict(X) == positive, labels == 1, what)
        sign = 1.0 if model.classes_[1] == positive else -1.0
        assert_same(score, sign * output(model, X), 1e-3, what)
        if hasattr(model, "predict_proba"):
            column = int(model.classes_[1] == positive)
            ours = model.predict_proba(X)[:, column]
            assert_same(plain.predict_proba(X)[:, 1], ours, 1e-3, what)
        if has_instances:
            ours, known = model.instance_scores(X), plain.instance_scores(X)
            assert_same(known.values, ours.values, 1e-3, what)
            keys = model.key_instances(X)
            np.testing.assert_array_equal(keys, plain.key_instances(X), what)
            found = model.predict_instances(X).values == positive
            np.testing.assert_array_equal(found, plain.predict_instances(X).values == 1)


def check_ambiguous_labels(estimator):
    """An asymmetric method warns if labels are words and `pos_label` is not given."""
    need_classifier(estimator)
    X, y = toy()
    asymmetric = get_tags(estimator).input_tags.asymmetric
    words = np.array(["cold", "warm"])[y]
    cases = [
        (words, None, asymmetric),
        (words, "cold", False),
        (y, None, False),
        (2 * y - 1, None, False),
        (y == 1, None, False),
    ]
    for labels, pos_label, expected in cases:
        model = clone(estimator).set_params(pos_label=pos_label)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fit(model, X, labels)
        texts = [str(w.message) for w in caught if "pos_label" in str(w.message)]
        assert len(texts) == int(expected), f"{labels[:2]}, {pos_label}: {texts}"
        for text in texts:
            assert "pos_label='cold'" in text
            assert "'warm'" in text
    for pos_label, y_wrong, word in (
        ("hot", words, "'cold', 'warm'"),
        ("0", y, "0, 1"),
        (1, toy(3)[1], "3 classes"),
    ):
        model = clone(estimator).set_params(pos_label=pos_label)
        raises(lambda m=model, w=y_wrong: m.fit(X, w), ValueError, "pos_label", word)


def check_exchanged_labels(estimator):
    """Exchanging the labels changes the sign, unless the tag says `asymmetric`."""
    need_classifier(estimator)
    if get_tags(estimator).input_tags.asymmetric:
        skip("its tag says that exchanged labels are another problem")
    X, y = toy()
    swapped = output(fit(estimator, X, 1 - y), X)
    assert_same(output(fit(estimator, X, y), X), -swapped, 1e-3, "exchanged labels")


_N_TRAIN, _N_TEST = 60, 100
# From this AUROC on the classes count as separated. The accuracy may then be lower by
# _WORSE than at the best threshold.
_SEPARATED, _WORSE = 0.8, 0.10
# Fits of about ten seconds: tested on one problem only, with few positive bags.
_SLOW = ("NeuralBagClassifier", "BagClassifier")


def _key_instances_far(n_bags):
    return make_bags(n_bags, n_features=4, bag_size=(3, 8), shift=3.0, random_state=1)


def _few_positive(n_bags):
    X, y = make_bags(3 * n_bags, n_features=4, bag_size=(3, 8), random_state=2)
    n_positive = n_bags // 4
    negative, positive = np.flatnonzero(y == 0), np.flatnonzero(y == 1)
    chosen = np.concatenate([negative[: n_bags - n_positive], positive[:n_positive]])
    chosen = np.random.default_rng(2).permutation(chosen)
    return X[chosen], y[chosen]


def _shifted(n_bags):
    """Simulate bags in which every instance of a positive bag is shifted."""
    rng = np.random.default_rng(3)
    y = np.arange(n_bags) % 2
    sizes = rng.integers(3, 9, n_bags)
    bags = [rng.normal(0.6 * k, 1.0, (n, 4)) for n, k in zip(sizes, y, strict=True)]
    return Bags.from_list(bags), y


def _key_instance(n_bags):
    return make_key_instance_bags(
        n_bags, n_features=4, bag_size=(4, 10), random_state=4
    )


_PROBLEMS = (_key_instances_far, _few_positive, _shifted, _key_instance)


def check_default_threshold(estimator):
    """With default parameters, labels are as good as the scores allow."""
    need_classifier(estimator)
    name = type(estimator).__name__
    estimator = type(estimator)()
    n_separated = 0
    for problem in (_few_positive,) if name in _SLOW else _PROBLEMS:
        X, y = problem(_N_TRAIN + _N_TEST)
        train, test = slice(0, _N_TRAIN), slice(_N_TRAIN, None)
        X = OnInstances(StandardScaler()).fit(X[train]).transform(X)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores = output(fit(estimator, X[train], y[train]), X[test])
        positive = y[test] == 1
        area = roc_auc_score(positive, scores)
        if area <= _SEPARATED:
            continue
        n_separated += 1
        ours = np.mean((scores > 0) == positive)
        best = np.mean((scores > best_threshold(scores, positive)) == positive)
        assert ours >= best - _WORSE, (
            f"{problem.__name__}: AUROC is {area:.2f}, and accuracy {best:.2f} at the "
            f"best threshold but {ours:.2f} at the default one"
        )
    if not n_separated:
        skip("its default scores separate no simulated problem")
