"""Checks of what the data may look like: containers, order, precision, odd bags."""

import tempfile
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.base import is_classifier, is_regressor
from sklearn.utils import get_tags

from bagwise.bags import Bags
from bagwise.testing._tools import (
    assert_same,
    fit,
    gives_bags,
    output,
    rows_of,
    skip,
    toy,
)


def check_containers_agree(estimator):
    """A list, `Bags`, a Fortran-ordered list and CSR give the same result."""
    X, y = toy()
    model = fit(estimator, X, y)
    expected = output(model, X)
    as_list = X.to_list()
    assert_same(expected, output(fit(estimator, as_list, y), as_list), 1e-7, "list")
    fortran = [np.asfortranarray(b) for b in as_list]
    assert_same(expected, output(fit(estimator, fortran, y), fortran), 1e-7, "F")
    if get_tags(estimator).input_tags.sparse:
        sparse = X.with_data(sp.csr_matrix(X.data))
        ours = output(fit(estimator, sparse, y), sparse)
        if ours.shape == expected.shape and not _own_sparse_default(estimator):
            assert_same(expected, ours, 1e-4, "CSR")
        assert np.isfinite(ours).all()


def _own_sparse_default(estimator):
    """Whether the estimator documents another default learner for sparse data."""
    return "estimator" in estimator.get_params(deep=False) and (
        estimator.estimator is None
    )


def check_test_bag_order(estimator):
    """Permuting the bags at prediction permutes the answers."""
    X, y = toy()
    model = fit(estimator, X, y)
    order = np.random.default_rng(1).permutation(len(X))
    rows = rows_of(X, order) if gives_bags(model, X) else order
    assert_same(output(model, X)[rows], output(model, X[order]), 1e-7, "bag order")


def _need_order_invariant(estimator):
    if not get_tags(estimator).input_tags.order_invariant:
        skip("the order of the training data matters, by its tag")


def check_training_bag_order(estimator):
    """The order of the training bags does not matter, where the tag says so."""
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
    """The order of the instances of a bag does not matter when it is judged."""
    X, y = toy()
    model = fit(estimator, X, y)
    shuffled, rows = _shuffled_inside(X)
    expected = output(model, X)
    expected = expected[rows] if gives_bags(model, X) else expected
    assert_same(expected, output(model, shuffled), 1e-7, "instance order, predict")


def check_training_instance_order(estimator):
    """Nor does it in training, where the tag says so."""
    _need_order_invariant(estimator)
    X, y = toy()
    refit = fit(estimator, _shuffled_inside(X)[0], y)
    expected = output(fit(estimator, X, y), X)
    assert_same(expected, output(refit, X), 1e-3, "instance order, fit")


def check_bags_of_one(estimator):
    """Bags with a single instance are fine, in training and in prediction."""
    X, y = toy()
    alone = Bags(X.data[X.offsets[:-1]], np.arange(len(X) + 1))
    assert np.isfinite(output(fit(estimator, alone, y), alone)).all()
    assert np.isfinite(output(fit(estimator, X, y), alone)).all()


def check_duplicated_instances(estimator):
    """Repeating every instance changes nothing, where the class promises that."""
    if not getattr(get_tags(estimator).input_tags, "duplicate_invariant", None):
        skip("repeated instances may change the answer, by its tag")
    X, y = toy()
    doubled = Bags.from_list([np.repeat(b, 2, axis=0) for b in X])
    a, b = fit(estimator, X, y), fit(estimator, doubled, y)
    assert not gives_bags(a, X), "the tag is for decisions and embeddings of bags"
    assert_same(output(a, X), output(b, X), 1e-5, "duplicates in training")
    assert_same(output(a, X), output(a, doubled), 1e-7, "duplicates, predict")


def check_float32(estimator):
    """Data in single precision work and give nearly the same result."""
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
    """Decisions agree to `rtol` of their scale, and labels where that is sure."""
    expected, ours = output(one, X), output(other, Y)
    assert_same(expected, ours, rtol, what)
    if is_classifier(one) and expected.ndim == 1:
        sure = np.abs(expected) > 2 * rtol * max(1.0, np.abs(expected).max())
        assert sure.mean() > 0.5, f"{what}: decisions are all about zero"
        np.testing.assert_array_equal(
            one.predict(X)[sure], other.predict(Y)[sure], f"labels, {what}"
        )


def _need_target(estimator):
    if not (is_classifier(estimator) or is_regressor(estimator)):
        skip("an embedding may move with the data")


def check_offset(estimator):
    """Columns far from zero give the same answers as columns about zero."""
    _need_target(estimator)
    X, y = toy()
    model = fit(estimator, X, y)
    moved = X.with_data(X.data + 1e6)
    _same_answers(model, X, fit(estimator, moved, y), moved, 1e-3, "offset")
    # Rounded to single precision the rows are others: these, in both precisions.
    single = X.with_data((X.data + 1e4).astype(np.float32))
    double = X.with_data(single.data.astype(np.float64))
    model = fit(estimator, double, y)
    _same_answers(
        model, double, fit(estimator, single, y), single, 1e-2, "offset, float32"
    )


def check_units(estimator):
    """Columns in other units are answered as before, or `fit` says what to do."""
    _need_target(estimator)
    X, y = toy()
    plain = fit(estimator, X, y).predict(X)
    units = np.array([1e-6, 1.0, 1e3, 1e6])
    for factor, what in ((1e-6, "1e-6"), (1e6, "1e6"), (units, "1e-6 to 1e6")):
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
        assert off < 0.1, f"columns times {what}: {off:.2f} off, without a word"


def check_offset_of_sparse(estimator):
    """And so they do when they are stored as CSR."""
    _need_target(estimator)
    _need_sparse(estimator)
    X, y = toy()
    near, far = (X.with_data(sp.csr_matrix(X.data + a)) for a in (0.0, 1e6))
    model = fit(estimator, near, y)
    _same_answers(model, near, fit(estimator, far, y), far, 1e-2, "offset, CSR")


def _need_sparse(estimator):
    if not get_tags(estimator).input_tags.sparse:
        skip("takes no sparse data, by its tag")


def check_other_storage(estimator):
    """Fitted on dense bags it takes CSR, and the reverse, in any precision."""
    _need_sparse(estimator)
    X, y = toy()
    thin = X.data * (np.abs(X.data) > 0.3)
    thin = thin.astype(np.float32).astype(np.float64)  # the same numbers in both
    dense, sparse = X.with_data(thin), X.with_data(sp.csr_matrix(thin))
    for trained, what in ((dense, "fitted on dense bags"), (sparse, "fitted on CSR")):
        model = fit(estimator, trained, y)
        assert_same(output(model, dense), output(model, sparse), 1e-7, what)
    single = X.with_data(sp.csr_matrix(thin.astype(np.float32)))
    assert_same(output(model, sparse), output(model, single), 1e-2, "asked in float32")
    model = fit(estimator, single, y)
    assert_same(output(model, single), output(model, sparse), 1e-2, "fitted in float32")
    matrix = sp.csr_array(thin)
    matrix.indices = matrix.indices.astype(np.int64)
    matrix.indptr = matrix.indptr.astype(np.int64)
    long = Bags(matrix, X.offsets)
    expected = output(fit(estimator, sparse, y), sparse)
    assert_same(expected, output(fit(estimator, long, y), long), 1e-12, "int64")


def check_read_only_memory_map(estimator):
    """A read-only memory map works, as workers get one for large data."""
    X, y = toy()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        np.save(path, X.data)
        mapped = Bags(np.load(path, mmap_mode="r"), X.offsets)
        expected = output(fit(estimator, X, y), X)
        assert_same(expected, output(fit(estimator, mapped, y), mapped), 1e-7, "map")
        del mapped


def check_awkward_data(estimator):
    """Constant columns, one feature, unequal bags and repeats simply work."""
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
