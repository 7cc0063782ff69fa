"""Fits on partitions equal local fits."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    RobustScaler,
    StandardScaler,
)

from bagwise.compose import OnInstances, SimpleMI
from bagwise.distributed import fit, predict, read_parts, score
from bagwise.embedding import MiFV
from bagwise.io import read_bags
from bagwise.least_squares import SAFE, SAFERegressor
from bagwise.linear_model import MILinearRegression, MILogisticRegression

pytestmark = pytest.mark.usefixtures("here")


# Sums in another order differ by rounding. After many steps rounding decides where
# L-BFGS stops: objective values then agree to eps, and minimizers to about its square
# root times the condition number. Before that the steps agree.
BEFORE_ROUNDING, TO_THE_END, BY_DESCENT = 1e-3, 1e-7, 2e-6


def assert_close(one, other, tol=1e-8):
    np.testing.assert_allclose(one, other, rtol=tol, atol=tol)


def machines(model):
    return getattr(model, "estimators_", [model])


@pytest.mark.parametrize(
    "scaler",
    [
        StandardScaler(),
        StandardScaler(with_mean=False),
        MinMaxScaler(),
        MaxAbsScaler(),
        RBFSampler(gamma="scale", n_components=7, random_state=0),
        RBFSampler(gamma=0.3, n_components=7, random_state=0),
    ],
    ids=repr,
)
def test_scalers_and_random_features(scaler, draw, cut):
    X, y = draw()
    X = X.with_data(np.column_stack([1e3 + X.data, np.full(X.n_instances, 7.0)]))
    local = OnInstances(scaler).fit(X)
    for parts in (cut(X, y), [(X[:20],), (X[20:],)]):
        model = fit(OnInstances(scaler), parts)
        assert_close(model.transform(X).data, local.transform(X).data)
        model = fit(OnInstances(scaler, clip=True), parts)
        assert_close(model.range_, OnInstances(scaler, clip=True).fit(X).range_)
    for name in ("mean_", "var_", "scale_", "data_min_", "max_abs_"):
        if getattr(local.transformer_, name, None) is not None:
            assert_close(
                getattr(model.transformer_, name), getattr(local.transformer_, name)
            )


def test_scalers_of_sparse_parts(draw, cut):
    X, y = draw()
    thin = X.with_data(sp.csr_array(np.where(X.data > 0.5, X.data, 0.0)))
    for scaler in (StandardScaler(with_mean=False), MaxAbsScaler()):
        model = fit(OnInstances(scaler), cut(thin, y))
        local = OnInstances(scaler).fit(thin)
        assert_close(
            model.transform(thin).data.toarray(), local.transform(thin).data.toarray()
        )


@pytest.mark.parametrize("pooling", ["softmax", "max", "noisy_or", "gmean"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_logistic_regression(pooling, n_classes, draw, cut):
    X, y = draw(n_classes=n_classes)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    options = {
        "pooling": pooling,
        "class_weight": "balanced",
        "n_init": 2,
        "random_state": 0,
    }
    for tol, close in ((BEFORE_ROUNDING, 1e-8), (TO_THE_END, BY_DESCENT)):
        method = MILogisticRegression(tol=tol, **options)
        model = fit(method, cut(X, y, weight))
        local = method.fit(X, y, sample_weight=weight)
        assert_close(model.decision_function(X), local.decision_function(X), close)
        assert_close(model.predict_proba(X), local.predict_proba(X), close)
        found = [[m.objective_ for m in machines(f)] for f in (model, local)]
        assert_close(*found, 1e-11)
        assert list(model.classes_) == list(local.classes_)


def test_fisher_vectors_from_all_or_a_sample(draw, cut):
    X, y = draw(n_features=5)
    for options in ({}, {"max_samples": 60}, {"energy": 1.0, "n_components": 3}):
        model = fit(MiFV(random_state=0, **options), cut(X, y))
        local = MiFV(random_state=0, **options).fit(X)
        assert_close(model.transform(X), local.transform(X))
    sample = MiFV(max_samples=60, random_state=0).fit(X)
    whole = MiFV(random_state=0).fit(X)
    assert np.abs(sample.mixture_.means_ - whole.mixture_.means_).max() > 1e-6


@pytest.mark.parametrize("pooling", ["mean", "mean+std", "minmax"])
def test_statistics_of_bags(pooling, draw, cut):
    X, y = draw()
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    learner = LogisticRegression(tol=1e-10)
    model = fit(SimpleMI(learner, pooling=pooling), cut(X, y, weight))
    local = SimpleMI(learner, pooling=pooling).fit(X, y, sample_weight=weight)
    assert_close(model.decision_function(X), local.decision_function(X), BY_DESCENT)


@pytest.mark.parametrize(
    "options",
    [
        {"kernel": "linear", "variance_weight": 0.5},
        {"n_components": 12, "random_state": 0},
        {"kernel": "linear", "aggregation": "sum"},
    ],
)
def test_regression(options, draw, cut):
    X, y = draw()
    y = y + np.sin(np.arange(len(y)))
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    for values in (y, np.column_stack([y, -y + 3.0])):
        model = fit(SAFERegressor(**options), cut(X, values, weight))
        local = SAFERegressor(**options).fit(X, values, sample_weight=weight)
        assert_close(model.predict(X), local.predict(X))
        assert model.gamma_max_ == pytest.approx(local.gamma_max_, rel=1e-8)
        assert score(model, cut(X, values)) == pytest.approx(local.score(X, values))


@pytest.mark.parametrize("pooling", ["mean", "max", "softmax", "prime"])
def test_linear_regression(pooling, draw, cut):
    X, y = draw()
    y = y + np.sin(np.arange(len(y)))
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    for fit_intercept in (True, False):
        options = {
            "pooling": pooling,
            "n_init": 2,
            "fit_intercept": fit_intercept,
            "random_state": 0,
        }
        model = fit(MILinearRegression(**options), cut(X, y, weight))
        local = MILinearRegression(**options).fit(X, y, sample_weight=weight)
        assert_close(model.predict(X), local.predict(X), BY_DESCENT)
        assert_close(model.objective_, local.objective_, 1e-11)


def test_pipelines_and_persisted_parts(draw, cut):
    X, y = draw()
    for last, tol in (
        (SAFE(kernel="linear"), 1e-8),
        (MILogisticRegression(tol=BEFORE_ROUNDING, random_state=0), 1e-8),
        (MILogisticRegression(tol=TO_THE_END, random_state=0), BY_DESCENT),
    ):
        pipe = make_pipeline(OnInstances(), last)
        model, local = fit(pipe, cut(X, y), persist=True), pipe.fit(X, y)
        assert_close(model.decision_function(X), local.decision_function(X), tol)
    pipe = make_pipeline(
        OnInstances(), MiFV(random_state=0), StandardScaler(), LogisticRegression()
    )
    model, local = fit(pipe, cut(X, y)), pipe.fit(X, y)
    assert_close(model.decision_function(X), local.decision_function(X), 1e-6)


def test_answers_and_scores(draw, cut):
    X, y = draw()
    model = SAFE().fit(X, y)
    parts, weight = cut(X, y), np.arange(1.0, len(y) + 1)
    np.testing.assert_array_equal(predict(model, parts), model.predict(X))
    decided = predict(model, [(X[:9],), (X[9:],)], method="decision_function")
    assert_close(decided, model.decision_function(X))
    assert score(model, parts) == pytest.approx(model.score(X, y))
    weighted = score(model, cut(X, y, weight))
    assert weighted == pytest.approx(model.score(X, y, sample_weight=weight))
    auc = score(model, parts, scoring="roc_auc")
    assert auc == pytest.approx(roc_auc_score(y, model.decision_function(X)))


def test_parts_from_a_folder_of_files(tmp_path, draw):
    pytest.importorskip("pyarrow")
    X, y = draw()
    frame = pd.DataFrame(X.data, columns=["u", "v", "w"])
    frame["id"], frame["y"] = X.bag_index, y[X.bag_index]
    for i, (a, b) in enumerate([(0, 20), (20, 45), (45, 60)]):
        folder = tmp_path / f"year={2020 + i}"
        folder.mkdir()
        inside = (frame["id"] >= a) & (frame["id"] < b)
        frame[inside].to_parquet(folder / "part.parquet", index=False)
    (tmp_path / "_SUCCESS").touch()
    local = SAFE(kernel="linear").fit(X, y)
    for options in ({}, {"files_per_part": 2}):
        parts = read_parts(tmp_path, bag="id", label="y", **options)
        assert len(parts) == (2 if options else 3)
        model = fit(SAFE(kernel="linear"), parts)
        assert_close(model.decision_function(X), local.decision_function(X))
        np.testing.assert_array_equal(predict(model, parts), local.predict(X))
    pattern = str(tmp_path / "*" / "part.parquet")
    assert len(read_parts(pattern, bag="id", label="y")) == 3
    frame.iloc[:5].to_parquet(tmp_path / "torn.parquet", index=False)
    with pytest.raises(ValueError, match=r"Bag 0 is in parts .* must hold whole bags"):
        fit(SAFE(kernel="linear"), read_parts(tmp_path, bag="id", label="y"))
    with pytest.raises(ValueError, match="no files found"):
        read_parts(str(tmp_path / "*.xyz"), bag="id")


def test_parts_from_a_folder_of_slides(tmp_path, draw):
    X, y = draw(n_bags=20)
    slides = tmp_path / "features"
    slides.mkdir()
    for k, rows in enumerate(X):
        np.save(slides / f"s{k}.npy", rows.astype(np.float16))
    table = pd.DataFrame({"slide": [f"s{k}" for k in range(20)], "msi": y})
    table.to_csv(tmp_path / "clini.csv", index=False)
    halved = X.with_data(X.data.astype(np.float16))
    local = SAFE(kernel="linear").fit(halved, y)
    for labels in (table, tmp_path / "clini.csv"):
        parts = read_parts(
            slides, labels=labels, bag="slide", label="msi", files_per_part=6
        )
        assert len(parts) == 4
        model = fit(SAFE(kernel="linear"), parts)
        assert_close(model.decision_function(halved), local.decision_function(halved))
    assert list(model.classes_) == [0, 1]
    assert model.classes_.dtype == local.classes_.dtype
    (slides / "s13.npy").write_bytes(b"cut off")
    with pytest.raises(ValueError, match=r"Part 2: .*cannot be read.*s13"):
        fit(SAFE(kernel="linear"), parts)


def test_slides_of_a_patient_stay_in_one_part(tmp_path, draw):
    X, _ = draw(n_bags=12)
    for k, rows in enumerate(X):
        np.save(tmp_path / f"{k:03}.npy", rows)
    lines = [f"{k:03},{7 + k % 5},{'yes' if k % 5 < 2 else 'no'}" for k in range(12)]
    path = tmp_path / "clini.csv"
    path.write_text("slide,patient,msi\n" + "\n".join(lines), encoding="utf-8")
    how = {"labels": path, "bag": "slide", "label": "msi", "pool": "patient"}
    pooled, y = read_bags(tmp_path, **how)
    parts = read_parts(tmp_path, files_per_part=4, **how)
    assert [part()[0].ids.tolist() for part in parts] == [
        ["7", "8"],
        ["9", "10"],
        ["11"],
    ]
    model, local = fit(SAFE(kernel="linear"), parts), SAFE(kernel="linear")
    local.fit(pooled, y)
    assert list(model.classes_) == ["no", "yes"]
    assert_close(model.decision_function(pooled), local.decision_function(pooled))
    (tmp_path / "011.npy").unlink()  # one slide of a patient who has others
    with pytest.raises(ValueError, match=r"Part 0: .*no file for the label of .*'011'"):
        fit(SAFE(kernel="linear"), parts)
    with pytest.raises(TypeError, match="dataset and pool, not on_missing"):
        read_parts(tmp_path, on_missing="drop", **how)
    with pytest.raises(ValueError, match="Pass pos_label to the estimator"):
        read_parts(tmp_path, pos_label="yes", **how)


def test_what_is_no_sum_is_refused(draw, cut):
    X, y = draw()
    with pytest.raises(TypeError, match=r"OnInstances\(RobustScaler\) cannot be"):
        fit(OnInstances(RobustScaler()), cut(X, y))
    with pytest.raises(ValueError, match="Part 0: there are no labels"):
        fit(SAFE(kernel="linear"), [(X,)])
    with pytest.raises(ValueError, match="Part 1: no bag has a positive weight"):
        fit(SAFE(kernel="linear"), [(X, y), (X, y, np.zeros(len(y)))])
