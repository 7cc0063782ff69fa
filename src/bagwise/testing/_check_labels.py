"""Checks of classifiers: shapes, names of labels, which class is positive."""

import warnings

import numpy as np
from sklearn.base import clone
from sklearn.utils import get_tags

from bagwise.bags import Ragged
from bagwise.testing._tools import (
    assert_same,
    fit,
    need_classifier,
    output,
    raises,
    skip,
    toy,
)


def check_classifier_outputs(estimator):
    """Labels, scores and instance scores have their shapes and agree."""
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
        assert (labels == names).mean() > 0.6, "no better than guessing on easy data"


def _check_instance_outputs(model, X):
    scores = model.instance_scores(X)
    assert isinstance(scores, Ragged)
    np.testing.assert_array_equal(scores.offsets, X.offsets)
    assert np.isfinite(scores.values).all()
    assert model.predict_instances(X).values.shape == (X.n_instances,)
    keys = model.key_instances(X)
    assert keys.shape == (len(X),)
    assert ((keys >= 0) & (keys < X.sizes)).all()


# (negative, positive): both alphabetical orders of words, numbers and booleans.
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
    """Whatever the labels are called, with `pos_label` the answers are the same."""
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


def check_doubtful_labels(estimator):
    """A one-sided method says which of two words it takes for the positive class."""
    need_classifier(estimator)
    X, y = toy()
    one_sided = get_tags(estimator).input_tags.one_sided
    words = np.array(["cold", "warm"])[y]
    cases = [
        (words, None, one_sided),
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
        said = [str(w.message) for w in caught if "pos_label" in str(w.message)]
        assert len(said) == int(expected), f"{labels[:2]}, {pos_label}: {said}"
        for text in said:
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
    """Exchanging the labels turns the sign, unless the tag says `one_sided`."""
    need_classifier(estimator)
    if get_tags(estimator).input_tags.one_sided:
        skip("one-sided by its tag: exchanged labels are another problem")
    X, y = toy()
    turned = output(fit(estimator, X, 1 - y), X)
    assert_same(output(fit(estimator, X, y), X), -turned, 1e-3, "exchanged labels")
