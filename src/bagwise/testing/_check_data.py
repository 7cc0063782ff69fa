"""Checks of input data: what must work, and what must be refused."""

import tempfile
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from bagwise._config import config_context
from bagwise.bags import Bags
from bagwise.testing._tools import (
    assert_same,
    fit,
    gives_bags,
    need_classifier,
    output,
    raises,
    rows_of,
    skip,
    toy,
)


def check_containers_agree(estimator):
    """A list, `Bags` and a Fortran-ordered list give the same result."""
    X, y = toy()
    model = fit(estimator, X, y)
    expected = output(model, X)
    as_list = X.to_list()
    assert_same(expected, output(fit(estimator, as_list, y), as_list), 1e-7, "list")
    fortran = [np.asfortranarray(b) for b in as_list]
    assert_same(expected, output(fit(estimator, fortran, y), fortran), 1e-7, "F")


def check_sparse_agrees(estimator):
    """CSR gives the same result as dense data."""
    _need_sparse(estimator)
    X, y = toy()
    sparse = X.with_data(sp.csr_matrix(X.data))
    expected = output(fit(estimator, X, y), X)
    assert_same(expected, output(fit(estimator, sparse, y), sparse), 1e-4, "CSR")


def check_test_bag_order(estimator):
    """Permuting the bags at prediction permutes the predictions."""
    X, y = toy()
    model = fit(estimator, X, y)
    order = np.random.default_rng(1).permutation(len(X))
    rows = rows_of(X, order) if gives_bags(model, X) else order
    assert_same(output(model, X)[rows], output(model, X[order]), 1e-7, "bag order")


def _need_order_invariant(estimator):
    if not get_tags(estimator).input_tags.order_invariant:
        skip("its tag says that the order of the training data matters")


def check_training_bag_order(estimator):
    """The order of the training bags does not matter, if the tag says so."""
    _need_order_invariant(estimator)
    X, y = toy()
    order = np.random.default_rng(2).permutation(len(X))
    a, b = fit(estimator, X, y), fit(estimator, X[order], y[order])
    assert_same(output(a, X), output(b, X), 1e-3, "order of training bags")


def _shuffled_inside(X, seed=3):
    """Return the bags with their instances in another order, and that order."""
    rng = np.random.default_rng(seed)
    inside = [rng.permutation(n) for n in X.sizes]
    rows = np.concatenate([a + p for a, p in zip(X.offsets, inside, strict=False)])
    return X.with_data(X.data[rows]), rows


def check_instance_order(estimator):
    """The order of the instances of a bag does not matter at prediction."""
    X, y = toy()
    model = fit(estimator, X, y)
    shuffled, rows = _shuffled_inside(X)
    expected = output(model, X)
    expected = expected[rows] if gives_bags(model, X) else expected
    assert_same(expected, output(model, shuffled), 1e-7, "instance order, predict")


def check_training_instance_order(estimator):
    """The order of the instances does not matter in training, if the tag says so."""
    _need_order_invariant(estimator)
    X, y = toy()
    refit = fit(estimator, _shuffled_inside(X)[0], y)
    expected = output(fit(estimator, X, y), X)
    assert_same(expected, output(refit, X), 1e-3, "instance order, fit")


def check_single_instance_bags(estimator):
    """Bags with a single instance work, in training and at prediction."""
    X, y = toy()
    alone = Bags(X.data[X.offsets[:-1]], np.arange(len(X) + 1))
    assert np.isfinite(output(fit(estimator, alone, y), alone)).all()
    assert np.isfinite(output(fit(estimator, X, y), alone)).all()


def check_duplicated_instances(estimator):
    """Repeating every instance changes nothing, if the tag says so."""
    if not getattr(get_tags(estimator).input_tags, "duplicate_invariant", None):
        skip("its tag says that repeated instances may change the prediction")
    X, y = toy()
    doubled = Bags.from_list([np.repeat(b, 2, axis=0) for b in X])
    a, b = fit(estimator, X, y), fit(estimator, doubled, y)
    assert not gives_bags(a, X), "the tag is for decisions and embeddings of bags"
    assert_same(output(a, X), output(b, X), 1e-5, "duplicates in training")
    assert_same(output(a, X), output(a, doubled), 1e-7, "duplicates, predict")


def check_float32(estimator):
    """Single precision works and gives nearly the same result."""
    X, y = toy()
    single = X.with_data(X.data.astype(np.float32))
    ours = output(fit(estimator, single, y), single)
    assert ours.dtype.kind == "f"
    assert np.isfinite(ours).all()
    if is_classifier(estimator):
        model = fit(estimator, X, y)
        agree = (model.predict(X) == model.predict(single)).mean()
        assert agree > 0.9, f"float32 changes {1 - agree:.0%} of the predictions"


def _same_answers(one, X, other, Y, rtol, what):
    """Assert equal scores, up to `rtol` of their scale, and equal labels."""
    expected, ours = output(one, X), output(other, Y)
    assert_same(expected, ours, rtol, what)
    if is_classifier(one) and expected.ndim == 1:
        clear = np.abs(expected) > 2 * rtol * max(1.0, np.abs(expected).max())
        assert clear.mean() > 0.5, f"{what}: nearly all scores are zero"
        np.testing.assert_array_equal(
            one.predict(X)[clear], other.predict(Y)[clear], f"labels, {what}"
        )


def _need_target(estimator):
    if not (is_classifier(estimator) or is_regressor(estimator)):
        skip("an embedding may shift with the data")


def check_offset(estimator):
    """Columns far from zero give the same predictions as columns around zero."""
    _need_target(estimator)
    X, y = toy()
    model = fit(estimator, X, y)
    for offset, rtol in ((1e6, 1e-3), (1e8, 1e-2)):  # 1e8: accuracy of float32
        moved = X.with_data(X.data + offset)
        what = f"offset {offset:.0e}"
        _same_answers(model, X, fit(estimator, moved, y), moved, rtol, what)
    # Rounding to float32 changes the rows: use the rounded rows in both precisions.
    single = X.with_data((X.data + 1e4).astype(np.float32))
    double = X.with_data(single.data.astype(np.float64))
    model = fit(estimator, double, y)
    _same_answers(
        model, double, fit(estimator, single, y), single, 1e-2, "offset, float32"
    )


def check_scales(estimator):
    """Columns in other units give the same predictions, or `fit` warns."""
    _need_target(estimator)
    X, y = toy()
    plain = fit(estimator, X, y).predict(X)
    units = np.array([1e-6, 1.0, 1e3, 1e6])
    for factor in (1e-3, 1e-7, 1e-12, 1e6, units):
        what = "1e-6 to 1e6" if factor is units else f"{factor:.0e}"
        other = X.with_data(X.data * factor)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = fit(estimator, other, y).predict(other)
        if any("cale the " in str(w.message) for w in caught):
            continue
        if is_classifier(estimator):
            off = np.mean(found != plain)
        else:
            off = np.abs(found - plain).max() / np.abs(plain).max()
        assert off < 0.1, (
            f"columns times {what}: predictions change by {off:.2f} without a warning"
        )


def check_offset_of_sparse(estimator):
    """Sparse columns far from zero give the same predictions as around zero."""
    _need_target(estimator)
    _need_sparse(estimator)
    X, y = toy()
    near, far = (X.with_data(sp.csr_matrix(X.data + a)) for a in (0.0, 1e6))
    model = fit(estimator, near, y)
    _same_answers(model, near, fit(estimator, far, y), far, 1e-2, "offset, CSR")


def _need_sparse(estimator):
    if not get_tags(estimator).input_tags.sparse:
        skip("its tag says that it takes no sparse data")


def check_other_storage(estimator):
    """A model fitted on dense bags predicts for CSR, and vice versa."""
    _need_sparse(estimator)
    X, y = toy()
    thin = X.data * (np.abs(X.data) > 0.3)
    thin = thin.astype(np.float32).astype(np.float64)  # equal in both formats
    dense, sparse = X.with_data(thin), X.with_data(sp.csr_matrix(thin))
    for trained, what in ((dense, "fitted on dense bags"), (sparse, "fitted on CSR")):
        model = fit(estimator, trained, y)
        assert_same(output(model, dense), output(model, sparse), 1e-7, what)
    single = X.with_data(sp.csr_matrix(thin.astype(np.float32)))
    assert_same(output(model, sparse), output(model, single), 1e-2, "float32, predict")
    model = fit(estimator, single, y)
    assert_same(output(model, single), output(model, sparse), 1e-2, "float32, fit")
    matrix = sp.csr_array(thin)
    matrix.indices = matrix.indices.astype(np.int64)
    matrix.indptr = matrix.indptr.astype(np.int64)
    long = Bags(matrix, X.offsets)
    expected = output(fit(estimator, sparse, y), sparse)
    assert_same(expected, output(fit(estimator, long, y), long), 1e-12, "int64")


def check_read_only_memory_map(estimator):
    """A read-only memory map works: joblib passes large data to workers as one."""
    X, y = toy()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        np.save(path, X.data)
        mapped = Bags(np.load(path, mmap_mode="r"), X.offsets)
        expected = output(fit(estimator, X, y), X)
        assert_same(expected, output(fit(estimator, mapped, y), mapped), 1e-7, "map")
        del mapped


def check_awkward_data(estimator):
    """Constant columns, one feature, bags of very different sizes and repeats work."""
    X, y = toy()
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
        assert np.isfinite(output(fit(estimator, bags, y), bags)).all(), what


def check_bad_bags(estimator):
    """Invalid bags raise an error that names the bag, the row and the column."""
    X, y = toy()
    bags = X.to_list()
    fit = lambda bags, labels=y: clone(estimator).fit(bags, labels)  # noqa: E731
    wrong = (ValueError, TypeError)
    raises(lambda: fit([], []), wrong, "empty")
    raises(lambda: fit([bags[0], bags[1][:0], *bags[2:]]), wrong, "bag 1", "empty")
    raises(lambda: fit([*bags[:-1], bags[-1][:, :2]]), wrong, "bag 23", "features")
    raises(lambda: fit(X.data), wrong, "bag_ids")
    raises(lambda: fit("abc"), wrong, "bags")
    if not get_tags(estimator).input_tags.allow_nan:
        for value, word in ((np.nan, "NaN"), (np.inf, "infinity")):
            broken = [b.copy() for b in bags]
            broken[5][1, 2] = value
            message = ("bag 5", "instance 1", "column 2", word)
            raises(lambda broken=broken: fit(broken), wrong, *message)
    text = [*bags[:-1], np.full(bags[-1].shape, "red", dtype=object)]
    raises(lambda: fit(text), wrong, "numeric")


def check_bad_labels(estimator):
    """Labels that do not match the bags raise an error."""
    need_classifier(estimator)
    X, y = toy()
    raises(lambda: clone(estimator).fit(X, y[:-1]), ValueError, "23", "24")
    raises(lambda: clone(estimator).fit(X, np.zeros(len(X))), ValueError, "class")
    per_row = np.repeat(y, X.sizes)
    raises(lambda: clone(estimator).fit(X, per_row), ValueError, "per instance")


def check_bad_prediction(estimator):
    """Prediction before `fit`, or without a feature, raises an error.

    Columns with names may be in another order, and others are ignored with a warning.
    """
    X, y = toy()
    raises(lambda: output(clone(estimator), X), NotFittedError, "fit")
    model = fit(estimator, X, y)
    narrow = X.with_data(X.data[:, :3])
    raises(lambda: output(model, narrow), ValueError, "3", "4", "features")
    named = X.with_data(X.data, feature_names=["a", "b", "c", "d"])
    other = X.with_data(X.data, feature_names=["a", "b", "c", "e"])
    model = fit(estimator, named, y)
    raises(lambda: output(model, other), ValueError, "'d'", "'e'")
    wide = X.with_data(
        np.column_stack([X.data[:, 0], X.data[:, ::-1]]),
        feature_names=["label", *"dcba"],
    )
    expected = output(model, named)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = output(model, wide)
    assert_same(expected, found, 1e-7, "columns in another order")
    assert any("Other columns are ignored: 'label'" in str(w.message) for w in caught)
    with config_context(columns="strict"):
        raises(lambda: output(model, wide), ValueError, "not seen in fit: 'label'")


def check_unusable_values(estimator):
    """Values that NumPy would convert silently raise an error before any work."""
    X, y = toy()
    wrong = (ValueError, TypeError)
    fit_on = lambda bags: clone(estimator).fit(bags, y)  # noqa: E731
    bags = X.to_list()
    mask = np.zeros(bags[2].shape, dtype=bool)
    mask[0, 1] = True
    masked = [*bags[:2], np.ma.array(bags[2], mask=mask), *bags[3:]]
    raises(lambda: fit_on(masked), wrong, "bag 2", "masked", "[0, 1]")
    raises(lambda: fit_on([b + 1j for b in bags]), wrong, "complex")
    dates = np.full(bags[0].shape, np.datetime64("NaT", "s"))
    raises(lambda: fit_on([dates, *bags[1:]]), wrong, "bag 0", "dates")
    if get_tags(estimator).target_tags.required:
        model = clone(estimator)
        hidden = np.ma.array(y, mask=np.arange(len(y)) == 2)
        raises(lambda: model.fit(X, hidden), ValueError, "y is a masked", "[2]")
    if is_classifier(estimator):
        words = np.where(y == y[2], None, "word").astype(object)
        raises(lambda: clone(estimator).fit(X, words), ValueError, "label of bag")
    if not get_tags(estimator).input_tags.allow_nan:
        for factor in (1e160, 1e-160):
            raises(lambda f=factor: fit_on(X.with_data(X.data * f)), wrong, "scale")


def check_zero_weights(estimator):
    """A bag with weight zero has no influence, whatever it holds."""
    if not has_fit_parameter(estimator, "sample_weight"):
        skip("takes no sample_weight")
    X, y = toy()
    weight = np.ones(len(X))
    weight[[2, 5, 9]] = 0.0
    rows = np.repeat(weight == 0.0, X.sizes)
    far = X.with_data(np.where(rows[:, None], 1e3, X.data))
    model = clone(estimator)
    if "random_state" in model.get_params(deep=False):
        model.set_params(random_state=0)
    model.fit(far, y, sample_weight=weight)
    used = np.flatnonzero(weight)
    expected = output(fit(estimator, X[used], y[used]), X)
    assert_same(expected, output(model, X), 1e-9, "bags of weight zero")


def check_bad_weights(estimator):
    """Negative and huge weights raise an error that names the bag."""
    if not has_fit_parameter(estimator, "sample_weight"):
        skip("takes no sample_weight")
    X, y = toy()
    for value, word in ((-1.0, "negative"), (1e300, "exceed"), (1e12, "exceed")):
        weight = np.ones(len(X))
        weight[3] = value
        model = clone(estimator)
        raises(
            lambda m=model, w=weight: m.fit(X, y, sample_weight=w),
            ValueError,
            word,
            "bag 3",
        )
    weight = np.ma.array(np.ones(len(X)), mask=np.arange(len(X)) == 3)
    model = clone(estimator)
    raises(lambda: model.fit(X, y, sample_weight=weight), ValueError, "masked", "[3]")
