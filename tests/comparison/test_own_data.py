"""Groups, the positive class, gaps, several labels and real values in `compare`."""

import numpy as np
import pytest
from sklearn import metrics
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from toy_methods import make_problem, toy

from bagwise import Bags, load
from bagwise.cli._models import explain_file, predict_file
from bagwise.comparison import CrossValidation, Halves, LeaveOneBagOut, compare
from bagwise.comparison.evaluate import value_metrics
from bagwise.comparison.problem import Problem, as_problem
from bagwise.comparison.tuning import fit_method
from bagwise.embedding import BagOfWords

QUIET = {"n_jobs": 1, "time_limit": None, "progress": False}
FIVE = {**QUIET, "protocol": CrossValidation(5)}


def patients(n=40, slides=3, seed=0):
    """Return slides that look alike within a patient, and labels of mere chance."""
    rng = np.random.default_rng(seed)
    y = np.repeat(rng.permutation(np.arange(n) % 2), slides)
    center = np.repeat(rng.normal(size=(n, 5)) * 5, slides, axis=0)
    bags = [rng.normal(c, 0.1, (3, 5)) for c in center]
    groups = np.repeat([f"p{i}" for i in range(n)], slides)
    return Bags.from_list(bags), y, groups


# Groups --------------------------------------------------------------------------


def test_slides_of_a_patient_give_nothing_away():
    X, y, groups = patients()
    leaking = compare(X, y, methods=["SimpleMI"], grid="none", **QUIET)
    honest = compare(X, y, methods=["SimpleMI"], grid="none", groups=groups, **QUIET)
    carried = compare(
        X.with_groups(groups), y, methods=["SimpleMI"], grid="none", **QUIET
    )
    assert leaking.ranking[0].mean > 0.95
    assert honest.ranking[0].mean < 0.7
    assert carried.ranking[0].mean == honest.ranking[0].mean
    for row in honest.rows:
        test = honest.arrays[row["key"]]["test"]
        rest = np.setdiff1d(np.arange(len(y)), test)
        assert not set(groups[test]) & set(groups[rest])
    assert 0 <= honest.ranking[0].group_accuracy <= 1
    assert "never split" in honest.provenance["groups"]


def test_inner_folds_keep_groups_too():
    """With groups split by tuning, the nearest neighbors would look perfect."""
    X, y, groups = patients(20)
    spec = {"class": "bagwise.neighbors.CitationKNN", "params": {}}
    grid = {"n_references": [1, 3], "n_citers": [1]}
    tuning = {"n_splits": 3, "scoring": "accuracy"}
    split = fit_method(spec, X, y, grid=grid, tuning=tuning)
    kept = fit_method(spec, X.with_groups(groups), y, grid=grid, tuning=tuning)
    assert split.tune_score > 0.95
    assert kept.tune_score < 0.75


@pytest.mark.parametrize("protocol", [CrossValidation(4), LeaveOneBagOut()])
def test_every_group_is_tested_whole_and_once(protocol):
    _, y, groups = patients(12)
    seen = []
    for train, test in protocol.splits(y, 1, groups):
        assert not set(groups[train]) & set(groups[test])
        seen.extend(test)
    assert sorted(seen) == list(range(len(y)))


def test_groups_are_drawn_together_where_results_are_per_bag():
    X, y, groups = patients(16)
    found = compare(
        X, y, methods=[toy("a"), toy("b")], groups=groups, grid="none",
        protocol=LeaveOneBagOut(), **QUIET,
    )  # fmt: skip
    assert found.ranking[0].n_folds == 16
    assert found.ranking[1].p == 1.0
    single = compare(
        X, y, methods=[toy("a")], grid="none", protocol=LeaveOneBagOut(), **QUIET
    )
    width = [row.high - row.low for row in (found.ranking[0], single.ranking[0])]
    assert width[0] > width[1]  # three alike slides are not three patients


def test_what_groups_forbid_is_said():
    X, y, groups = patients(10)
    with pytest.raises(ValueError, match="3 entries for 30 bags"):
        compare(X, y, groups=groups[:3], **QUIET)
    with pytest.raises(ValueError, match="class 0 has 5 of 10 groups"):
        compare(
            X,
            y,
            groups=groups,
            methods=["SimpleMI"],
            protocol=CrossValidation(8),
            **QUIET,
        )
    with pytest.raises(ValueError, match="training and in the test file"):
        compare(
            {"X": X[:15].with_groups(groups[:15]), "y": y[:15]},
            test={"X": X[13:].with_groups(groups[13:]), "y": y[13:]},
            methods=["SimpleMI"],
            **QUIET,
        )


# The positive class ------------------------------------------------------------------


def test_two_words_need_a_choice():
    problem = make_problem()
    words = np.where(problem.y == 1, "active", "inactive")
    with pytest.raises(ValueError, match="'active' and 'inactive'.*pos_label='active'"):
        compare(problem.X, words, methods=["SimpleMI"], **QUIET)
    with pytest.raises(ValueError, match="pos_label is 'on', which is not among"):
        compare(problem.X, words, pos_label="on", **QUIET)


@pytest.mark.parametrize(
    "names", [("inactive", "active"), ("a", "b"), ("b", "a"), (False, True), (1, 0)]
)
def test_names_of_classes_change_nothing(names):
    """The second name is the positive class, wherever it stands in the alphabet."""
    problem = make_problem(40, shift=1.0)
    plain = compare(problem, methods=["MI-SVM"], grid="none", **FIVE)
    y = np.array(names)[problem.y]
    renamed = Problem("toy", problem.X, y, problem.instance_labels)
    found = compare(
        renamed, methods=["MI-SVM"], grid="none", pos_label=names[1], **FIVE
    )
    for one, two in zip(plain.rows, found.rows, strict=True):
        for name in ("accuracy", "auroc", "average_precision", "key_success"):
            assert one[name] == pytest.approx(two[name], abs=1e-12), name
        arrays = plain.arrays[one["key"]], found.arrays[two["key"]]
        for name in ("test", "instances"):
            np.testing.assert_array_equal(arrays[0][name], arrays[1][name])
        # What is stored speaks of the second class in order, as scikit-learn does.
        sign = 1 if list(np.unique(y)).index(names[1]) == 1 else -1
        np.testing.assert_allclose(arrays[0]["score"], sign * arrays[1]["score"])


# Missing values ----------------------------------------------------------------------


def with_gaps(problem, share=0.1):
    rng = np.random.default_rng(3)
    data = problem.X.data.copy()
    data[rng.random(data.shape) < share] = np.nan
    return problem.X.with_data(data)


def test_gaps_are_filled_inside_training_folds():
    problem = make_problem(40, shift=4.0)
    X = with_gaps(problem)
    found = compare(
        X, problem.y, methods=["SimpleMI"], grid="none", impute="median", **QUIET
    )
    assert not found.failures
    assert found.ranking[0].mean > 0.7
    train = np.arange(25)
    spec = {"class": "bagwise.compose.SimpleMI", "params": {}}
    model = fit_method(spec, X[train], problem.y[train], impute="median").model
    filler = model.named_steps["impute"].transformer_
    median = np.nanmedian(X[train].data, axis=0)
    np.testing.assert_allclose(filler.statistics_, median)
    assert model.named_steps["scale"].n_features_in_ == 6  # with three indicators
    with pytest.raises(ValueError, match="unknown impute 'best'"):
        compare(X, problem.y, impute="best", **QUIET)


# Several labels -----------------------------------------------------------------------


def test_several_labels_are_means_over_labels(tmp_path):
    problem = make_problem(48, shift=3.0)
    rng = np.random.default_rng(0)
    Y = np.column_stack([problem.y, rng.permutation(problem.y)])
    both = compare(
        problem.X, Y, methods=["SimpleMI"], grid="none", out=tmp_path,
        permute_features=True, **FIVE,
    )  # fmt: skip
    assert both.problem.task == "multilabel"
    assert both.metric == "auroc"
    assert not both.failures
    for row in both.rows:
        arrays = both.arrays[row["key"]]
        truth, score = Y[arrays["test"]], arrays["score"]
        areas = [metrics.roc_auc_score(truth[:, k], score[:, k]) for k in range(2)]
        assert row["auroc"] == pytest.approx(np.mean(areas))
        assert row["accuracy"] == pytest.approx((arrays["label"] == truth).mean())
    falls = [both.arrays[row["key"]]["feature_falls"] for row in both.rows]
    assert np.mean(falls, axis=0).argmax() == 0  # the one that tells the first label
    model = load(both.paths["model"])
    assert model.predict(problem.X).shape == Y.shape
    assert ((model.decision_function(problem.X) > 0) == model.predict(problem.X)).all()
    rows = predict_file(model, problem.X)
    assert list(rows[0]) == ["bag", "label_1", "label_2", "score_of_1", "score_of_2"]
    for k in (1, 2):
        found = [row[f"label_{k}"] for row in rows]
        assert found == model.predict(problem.X)[:, k - 1].tolist()
        assert all((r[f"score_of_{k}"] > 0) == (r[f"label_{k}"] == 1) for r in rows)
    with pytest.raises(ValueError, match="several labels per bag; explain them one by"):
        explain_file(model, problem.X)
    # Half of the bags have each label.
    assert "as most of them are rare" not in both.metric_reason


def test_tables_that_are_no_labels_are_refused():
    problem = make_problem(12)
    with pytest.raises(ValueError, match="only zeros and ones"):
        compare(problem.X, np.column_stack([problem.y, np.arange(12)]), **QUIET)
    with pytest.raises(ValueError, match="label 1 .* is 0 for all bags"):
        compare(problem.X, np.column_stack([problem.y, 0 * problem.y]), **QUIET)


# Real values --------------------------------------------------------------------------


def bags_of_values(n=40, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=n)
    return Bags.from_list([rng.normal(v, 0.3, (4, 2)) for v in y]), y


def regressors():
    words = BagOfWords(n_clusters=4, random_state=0)
    return [
        ("words", make_pipeline(words, Ridge())),
        ("mean", make_pipeline(words, DummyRegressor())),
    ]


def test_real_values_are_regression():
    X, y = bags_of_values()
    found = compare(X, y, methods=regressors(), **QUIET)
    assert (found.problem.task, found.metric) == ("regression", "r2")
    assert not found.failures
    first, second = found.ranking
    assert (first.method, second.method) == ("words", "mean")
    assert first.r2 > 0.5 > 0.1 > second.r2
    assert second.verdict == "worse"
    errors = []
    for row in found.runs("words"):
        arrays = found.arrays[row["key"]]
        errors.append(np.mean((arrays["prediction"] - y[arrays["test"]]) ** 2))
    assert first.r2 == pytest.approx(1 - np.mean(errors) / np.var(y))
    assert first.rmse == pytest.approx(np.sqrt(np.mean(errors)))
    by_rmse = compare(X, y, methods=regressors(), metric="rmse", **QUIET)
    low, high = by_rmse.ranking[0].low, by_rmse.ranking[0].high
    assert by_rmse.ranking[0].mean == pytest.approx(first.rmse)
    assert low < first.rmse < high
    # R2 and squared errors are one figure: the tests must agree.
    assert by_rmse.ranking[1].p == pytest.approx(second.p)


def test_metrics_of_values_agree_with_scikit_learn():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=30)
    found = value_metrics(truth, truth + 0.5 * rng.normal(size=30), np.var(truth))
    again = truth + 0.5 * np.random.default_rng(0).normal(size=60)[30:]
    assert found["r2"] == pytest.approx(metrics.r2_score(truth, again))
    assert found["mae"] == pytest.approx(metrics.mean_absolute_error(truth, again))
    assert value_metrics(truth, np.zeros(30), 1.0)["spearman"] is None


def test_whole_numbers_are_classes_unless_told_otherwise():
    X, y = bags_of_values(44)
    counts = np.arange(44) % 11
    assert as_problem(X, counts).task == "classification"
    asked = as_problem(X, counts, task="regression")
    assert asked.task == "regression"
    assert len(list(CrossValidation(4).splits(asked.targets))) == 4
    with pytest.raises(ValueError, match="SimpleMI is for classification"):
        compare(X, y, methods=["SimpleMI"], **QUIET)
    with pytest.raises(ValueError, match="nothing to predict"):
        compare(X, np.ones(44), task="regression", **QUIET)
    with pytest.raises(ValueError, match="too few bags: there are 3"):
        compare(X[:3], y[:3], task="regression", methods=regressors(), **QUIET)


def test_names_that_look_like_files_are_known_sets(benchmark):
    benchmark("newsgroups_sci.med")  # skips where it is absent
    assert as_problem("newsgroups_sci.med").X.n_bags == 100


# Copies of a bag -------------------------------------------------------------------


def copied(n=30, times=3):
    """Return bags that are there three times each, with coin tosses as labels."""
    rng = np.random.default_rng(0)
    bags = [rng.normal(size=(4, 5)) for _ in range(n)]
    original = np.tile(np.arange(n), times)
    labels = rng.permutation(np.arange(n) % 2)
    return Bags.from_list([bags[i] for i in original]), labels[original], original


@pytest.mark.parametrize(
    "protocol", [CrossValidation(3), LeaveOneBagOut(), Halves(2)], ids=lambda p: p.kind
)
def test_copies_of_a_bag_give_nothing_away(protocol):
    X, y, original = copied()
    kwargs = {"methods": ["Citation-kNN"], "grid": "none", "protocol": protocol}
    found = compare(X, y, **kwargs, **QUIET)
    assert not found.failures
    for row in found.rows:
        test = found.arrays[row["key"]]["test"]
        rest = np.setdiff1d(np.arange(len(y)), test)
        assert not set(original[test]) & set(original[rest])
    assert found.ranking[0].mean < 0.75  # 1.0 if the nearest neighbor is a copy
    assert "60 bags are copies" in found.provenance["copies"]
    # Thirty bags were tested, whatever their number of copies.
    alone = compare(X[:30], y[:30], **kwargs, **QUIET).ranking[0]
    width, plain = (row.high - row.low for row in (found.ranking[0], alone))
    assert width > 0.7 * plain


def test_inner_folds_keep_copies_too():
    X, y, _ = copied()
    spec = {"class": "bagwise.neighbors.CitationKNN", "params": {}}
    grid = {"n_references": [1, 3], "n_citers": [1]}
    tuning = {"n_splits": 3, "scoring": "accuracy"}
    assert fit_method(spec, X, y, grid=grid, tuning=tuning).tune_score < 0.75


def test_copies_in_the_test_file_are_called_out():
    X, y, _ = copied()
    kwargs = {"methods": ["SimpleMI"], "grid": "none", **QUIET}
    with pytest.warns(UserWarning, match="5 of 10 test bags are copies of training"):
        compare(X[:25], y[:25], test=(X[20:30], y[20:30]), **kwargs)


def test_too_few_different_bags_are_said_before_any_work():
    X, y, _ = copied(6, 10)
    with pytest.raises(ValueError, match="too few different bags: class 0 has 3 of 6"):
        compare(X, y, methods=["SimpleMI"], **QUIET)
