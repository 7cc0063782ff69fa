"""scikit-learn's estimators on bags, against doing it by hand."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bagwise import Bags
from bagwise.compose import OnInstances, SimpleMI, SimpleMIRegressor, WrapperMI
from bagwise.compose.pooling import POOLINGS, pool
from bagwise.datasets import make_bags


@pytest.fixture
def toy():
    return make_bags(40, n_features=4, random_state=0)


def test_on_instances_is_the_transformer_on_the_rows(toy):
    X, _ = toy
    named = X.with_data(X.data, feature_names=list("abcd"))
    lifted = OnInstances(StandardScaler()).fit(named)
    Z = lifted.transform(named)
    np.testing.assert_array_equal(Z.data, StandardScaler().fit_transform(X.data))
    assert list(Z.feature_names) == list("abcd")
    np.testing.assert_array_equal(Z.ids, X.ids)
    np.testing.assert_allclose(lifted.inverse_transform(Z).data, X.data, atol=1e-12)
    assert OnInstances(PCA(2)).fit_transform(X).n_features == 2


def test_on_instances_can_label_rows(toy):
    X, y = toy
    lifted = OnInstances(LinearDiscriminantAnalysis(), label_instances=True).fit(X, y)
    expected = LinearDiscriminantAnalysis().fit(X.data, np.repeat(y, X.sizes))
    np.testing.assert_array_equal(lifted.transform(X).data, expected.transform(X.data))
    with pytest.raises(ValueError, match="requires y"):
        OnInstances(LinearDiscriminantAnalysis(), label_instances=True).fit(X)


def test_on_instances_imputes():
    bags = [np.array([[1.0, np.nan], [3.0, 4.0]]), np.array([[5.0, 6.0]])]
    Z = OnInstances(SimpleImputer()).fit_transform(bags)
    assert Z.data[0, 1] == 5.0


def test_on_instances_needs_a_row_per_instance(toy):
    class Shortener:
        def fit(self, X, y=None):
            return self

        def transform(self, X):
            return X[1:]

        def get_params(self, deep=True):
            return {}

        def set_params(self):
            return self

    lifted = OnInstances().fit(toy[0])
    lifted.transformer_ = Shortener()
    with pytest.raises(ValueError, match="one row per instance"):
        lifted.transform(toy[0])


@pytest.mark.parametrize("pooling", POOLINGS)
def test_pooling_against_loops(toy, pooling):
    X, _ = toy
    reference = {
        "mean": lambda b: b.mean(0),
        "max": lambda b: b.max(0),
        "min": lambda b: b.min(0),
        "minmax": lambda b: np.hstack([b.min(0), b.max(0)]),
        "midpoint": lambda b: (b.min(0) + b.max(0)) / 2,
        "mean+std": lambda b: np.hstack([b.mean(0), b.std(0)]),
        "statistics": lambda b: np.hstack(
            [b.mean(0), b.std(0), b.min(0), b.max(0), np.log(len(b))]
        ),
    }[pooling]
    expected = np.array([reference(b) for b in X])
    np.testing.assert_allclose(pool(X, pooling), expected, atol=1e-12)
    sparse = X.with_data(sp.csr_matrix(X.data))
    np.testing.assert_allclose(pool(sparse, pooling).toarray(), expected, atol=1e-7)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_sparse_bags_without_an_entry_are_bags_of_zeros(pooling):
    zeros = Bags(np.zeros((5, 3)), [0, 2, 5])
    sparse = zeros.with_data(sp.csr_matrix(zeros.data))
    found = pool(sparse, pooling).toarray()
    np.testing.assert_array_equal(found, pool(zeros, pooling))


def test_simple_mi_is_the_classifier_on_summaries(toy):
    X, y = toy
    ours = SimpleMI(LogisticRegression(), pooling="max").fit(X, y)
    expected = LogisticRegression().fit(pool(X, "max"), y)
    np.testing.assert_array_equal(
        ours.decision_function(X), expected.decision_function(pool(X, "max"))
    )
    own = SimpleMI(LogisticRegression(), pooling=lambda B: pool(B, "max")).fit(X, y)
    np.testing.assert_array_equal(ours.predict_proba(X), own.predict_proba(X))
    with pytest.raises(ValueError, match="one row"):
        SimpleMI(pooling=lambda B: B.data).fit(X, y)
    with pytest.raises(ValueError, match="KNeighborsClassifier"):
        SimpleMI(KNeighborsClassifier()).fit(X, y, sample_weight=np.ones(len(X)))


def test_the_default_width_counts_weights(toy):
    X, y = toy
    twice = np.concatenate([np.arange(len(X)), np.arange(10)])
    weight = np.where(np.arange(len(X)) < 10, 2.0, 1.0)
    a = SimpleMI().fit(X, y, sample_weight=weight)
    b = SimpleMI().fit(X[twice], y[twice])
    assert a.estimator_._gamma == pytest.approx(b.estimator_._gamma, rel=1e-12)
    # libsvm stops at a violation of 1e-3.
    np.testing.assert_allclose(
        a.decision_function(X), b.decision_function(X), atol=5e-3
    )


@pytest.mark.parametrize(
    ("model", "options"), [(SimpleMI, {}), (WrapperMI, {"threshold": "zero"})]
)
def test_bags_of_one_are_the_base_classifier(toy, model, options):
    X, y = toy
    rows = X.data[X.offsets[:-1]]
    bags = Bags(rows, np.arange(len(y) + 1))
    base = LogisticRegression(C=0.3, solver="newton-cholesky", tol=1e-14)
    ours = model(base, **options).fit(bags, y).predict_proba(bags)
    # WrapperMI solves it about the mean of the columns.
    theirs = base.fit(rows, y).predict_proba(rows)
    np.testing.assert_allclose(ours, theirs, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_an_svc_decides_as_it_would_by_itself(toy, dtype):
    """Also far from the origin, where squared distances lose their digits."""
    X, y = toy
    far = X.with_data((X.data + 1_000.0).astype(dtype))
    model = SimpleMI(SVC(gamma=0.2)).fit(far, y)
    rows = pool(far)
    values = model.decision_function(far)
    truth = model.estimator_.decision_function(rows)
    np.testing.assert_allclose(values, truth, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(model.predict(far), np.where(values > 0, 1, 0))
    assert 0 < values.std()


@pytest.mark.parametrize("aggregation", ["arithmetic", "geometric", "max"])
def test_wrapper_mi_aggregates_probabilities(toy, aggregation):
    X, y = toy
    exact = LogisticRegression(solver="newton-cholesky", tol=1e-14)
    ours = WrapperMI(exact, aggregation=aggregation, threshold="zero").fit(X, y)
    rows_y, weight = np.repeat(y, X.sizes), np.repeat(1 / X.sizes, X.sizes)
    base = clone(exact).fit(X.data, rows_y, sample_weight=weight)
    p = [base.predict_proba(b)[:, 1] for b in X]
    if aggregation == "arithmetic":
        expected = [q.mean() for q in p]
    elif aggregation == "max":
        expected = [q.max() for q in p]
    else:
        expected = [1 / (1 + np.exp(-np.log(q / (1 - q)).mean())) for q in p]
    np.testing.assert_allclose(ours.predict_proba(X)[:, 1], expected, atol=1e-9)


def test_wrapper_mi_refuses_a_base_without_weights(toy):
    with pytest.raises(ValueError, match="sample_weight"):
        WrapperMI(KNeighborsClassifier()).fit(*toy)


def test_wrapper_mi_finds_the_witness():
    X, y, truth = make_bags(60, shift=5.0, random_state=0, return_instance_labels=True)
    model = WrapperMI(
        RandomForestClassifier(50, min_samples_leaf=5, random_state=0)
    ).fit(X, y)
    keys = model.key_instances(X)
    found = [truth[i][keys[i]] for i in np.flatnonzero(y)]
    assert np.mean(found) > 0.9


def test_class_weight_is_sample_weight(toy):
    X, y = toy
    a = WrapperMI(class_weight={0: 1.0, 1: 3.0}).fit(X, y)
    b = WrapperMI().fit(X, y, sample_weight=np.where(y == 1, 3.0, 1.0))
    np.testing.assert_allclose(a.decision_function(X), b.decision_function(X))
    zero = np.where(np.arange(len(y)) < 10, 0.0, 1.0)
    c = WrapperMI().fit(X, y, sample_weight=zero)
    d = WrapperMI().fit(X[10:], y[10:])
    np.testing.assert_allclose(c.decision_function(X), d.decision_function(X))
    with pytest.raises(ValueError, match="bag 3"):
        WrapperMI().fit(X, y, sample_weight=np.where(np.arange(len(y)) == 3, -1, 1))


def test_a_pipeline_lets_in_what_its_first_step_fills():
    rng = np.random.default_rng(0)
    X = Bags.from_list([rng.normal(size=(3, 2)) for _ in range(6)])
    data = X.data.copy()
    data[::5, 1] = np.nan
    X = X.with_data(data)
    for inner in (
        make_pipeline(SimpleImputer(), StandardScaler()),
        Pipeline([("nothing", "passthrough"), ("fill", SimpleImputer())]),
    ):
        assert np.isfinite(OnInstances(inner).fit_transform(X).data).all()
    with pytest.raises(ValueError, match="NaN"):
        OnInstances(make_pipeline(PCA(1), SimpleImputer())).fit(X)


@pytest.mark.parametrize("labels", [(0, 1), ("a", "b")])
def test_labels_are_those_of_the_default_learner(labels):
    X, y = make_bags(n_bags=60, random_state=0)
    model = SimpleMI().fit(X, np.array(labels)[y])
    expected = model.estimator_.predict(model._placed(model._rows(X)))
    np.testing.assert_array_equal(model.predict(X), expected)


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize(
    "model",
    [
        SimpleMI(make_pipeline(StandardScaler(), LogisticRegression())),
        SimpleMIRegressor(make_pipeline(StandardScaler(), Ridge())),
    ],
)
def test_rows_become_dense_where_the_estimator_needs_it(toy, model, dense):
    X, y = toy
    sparse = X.with_data(sp.csr_array(X.data))
    expected = clone(model).fit(X, y)
    found = clone(model).fit(X if dense else sparse, y)
    with config_context(working_memory=1e-3):  # (a few instances per block)
        scores = found.instance_scores(sparse).values
    np.testing.assert_allclose(scores, expected.instance_scores(X).values, atol=1e-9)
    for Z in (X, sparse):
        np.testing.assert_allclose(found.predict(Z), expected.predict(X), atol=1e-9)


@pytest.mark.parametrize("store", [np.asarray, sp.csr_matrix])
def test_results_are_clipped_to_the_training_range(store):
    rng = np.random.default_rng(0)
    rows, far = rng.normal(size=(20, 3)), 3.0 * rng.normal(size=(12, 3))
    rows[:, 2] = 0.0  # constant in training
    X, new = Bags(store(rows), [0, 9, 20]), Bags(store(far), [0, 5, 12])
    scaler = StandardScaler(with_mean=store is np.asarray)
    model = OnInstances(scaler, clip=True).fit(X)
    expected = clone(scaler).fit(rows).transform(rows)
    low, high = expected.min(axis=0), expected.max(axis=0)
    np.testing.assert_allclose(model.range_, [low, high])
    found, plain = model.transform(new).data, OnInstances(scaler).fit(X).transform(new)
    if store is sp.csr_matrix:
        found, plain = found.toarray(), plain.with_data(plain.data.toarray())
    np.testing.assert_allclose(found, np.clip(plain.data, low, high))
    assert (found != plain.data).any()
    assert abs(model.transform(X).data - model.transformer_.transform(X.data)).max() < (
        1e-12
    )
