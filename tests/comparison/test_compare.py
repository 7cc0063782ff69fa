import csv
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import SVC
from toy_methods import make_problem, toy

from bagwise.comparison import CrossValidation, Halves, LeaveOneBagOut, Method, compare
from bagwise.comparison.description import describe_estimator
from bagwise.comparison.problem import Problem, as_problem
from bagwise.comparison.tuning import fit_method
from bagwise.compose import SimpleMI
from bagwise.least_squares import SAFE
from bagwise.report._tables import member_table, notes
from bagwise.report.view import View
from bagwise.svm import BagSVC

QUIET = {"n_jobs": 1, "time_limit": None, "progress": False}
FIVE = {**QUIET, "protocol": CrossValidation(5)}


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    problem = make_problem(50, shift=3.0)
    out = tmp_path_factory.mktemp("out")
    methods = ["SimpleMI", "WrapperMI", toy("broken", "Raises")]
    return compare(problem, methods=methods, out=out, **FIVE)


def test_ranking_holds_figures_of_the_rows(result):
    first = result.ranking[0]
    rows = result.runs(first.method)
    assert first.mean == pytest.approx(np.mean([row["accuracy"] for row in rows]))
    assert first.verdict == "best"
    assert [row.rank for row in result.ranking] == [1, 2, 3]
    assert result.ranking[1].mean <= first.mean


def test_a_failed_method_is_last_and_says_why(result):
    last = result.ranking[-1]
    assert (last.method, last.n_failed, last.verdict) == ("broken", 5, "untested")
    assert all("no such luck" in row["error"] for row in result.failures)


def test_files_are_written(result):
    from bagwise import load

    assert set(result.paths) == {"results", "model", "comparison"}
    with result.paths["results"].open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 15
    assert {row["status"] for row in rows} == {"ok", "failed"}
    model = load(result.paths["model"])
    assert model.score(result.problem.X, result.problem.y) > 0.8


def test_the_notebook_object(result):
    assert len(result.frame) == 15
    assert list(result.ranking_frame["method"])[-1] == "broken"
    assert "<table>" in result._repr_html_()
    assert "ranks first" in repr(result)


def test_a_second_call_does_nothing_again(result):
    done = []
    out = result.paths["results"].parent
    methods = ["SimpleMI", "WrapperMI"]
    again = compare(
        result.problem,
        methods=methods,
        store=out / "runs.sqlite",
        **{**FIVE, "progress": lambda event: done.append(event.cached)},
    )
    assert done == [True] * 10
    assert again.ranking[0].mean == result.ranking[0].mean


def test_scaler_and_tuning_see_training_bags_only(problem):
    """A gross outlier among the test bags must not change the fitted model."""
    X, y = problem.X, problem.y
    train = np.arange(30)
    spec, grid = describe_estimator(SimpleMI()), {"pooling": ["mean", "max"]}
    tuning = {"n_splits": 3, "scoring": "accuracy"}
    fitted = fit_method(spec, X[train], y[train], grid=grid, tuning=tuning)
    scaler = fitted.model.named_steps["scale"].transformer_
    np.testing.assert_allclose(scaler.mean_, X[train].data.mean(axis=0))


def test_outcomes_of_a_fold_do_not_depend_on_test_bags(problem):
    data = problem.X.data.copy()
    one = compare(problem, methods=["SimpleMI"], protocol=Halves(1), **QUIET)
    (run,) = one.rows
    test = one.arrays[run["key"]]["test"]
    spoiled = test[0]
    rows = slice(problem.X.offsets[spoiled], problem.X.offsets[spoiled + 1])
    data[rows] = 1e6
    other = Problem("toy", problem.X.with_data(data), problem.y)
    two = compare(other, methods=["SimpleMI"], protocol=Halves(1), **QUIET)
    first = one.arrays[run["key"]]["score"]
    second = two.arrays[two.rows[0]["key"]]["score"]
    np.testing.assert_array_equal(first[1:], second[1:])
    assert first[0] != second[0]
    assert one.rows[0]["params"] == two.rows[0]["params"]


@pytest.mark.parametrize(
    ("model", "grid"),
    [
        (
            BagSVC(kernel="set", gamma=0.3),
            {"C": [0.1, 1.0, 10.0], "gamma": [0.05, 0.3]},
        ),
        (
            SAFE(tol=1e-12),
            {
                "gamma": [0.05, 0.3],
                "rho": [1.0, 30.0],
                "variance_weight": [0.0, 0.5],
                "aggregation": ["sum", "mean"],
            },
        ),
    ],
    ids=["one Gram matrix", "paths of SAFE"],
)
def test_shared_work_chooses_as_a_plain_search_does(problem, model, grid):
    X, y = problem.X, problem.y
    tuning = {"n_splits": 3, "scoring": "roc_auc"}
    fitted = fit_method(
        describe_estimator(model),
        X,
        y,
        scale="none",
        grid=grid,
        tuning=tuning,
        random_state=1,
    )
    splits = StratifiedKFold(3, shuffle=True, random_state=1)
    plain = GridSearchCV(model, grid, scoring="roc_auc", cv=splits).fit(X, y)
    assert fitted.tune_score == pytest.approx(plain.best_score_, abs=1e-12)
    where = plain.cv_results_["params"].index(fitted.params)
    assert plain.cv_results_["mean_test_score"][where] == pytest.approx(
        plain.best_score_, abs=1e-12
    )


def test_leave_one_out_pools_bags(problem):
    found = compare(
        problem,
        methods=[toy("a"), toy("b")],
        protocol=LeaveOneBagOut(),
        grid="none",
        **QUIET,
    )
    first = found.ranking[0]
    assert first.n_folds == 40
    assert first.low < first.mean < first.high
    assert 0 < first.auroc < 1
    assert found.ranking[1].p == 1.0  # the same method twice


def test_a_test_file_is_one_split(problem):
    other = make_problem(20, seed=5, name="more")
    found = compare(problem, test=other, methods=["SimpleMI"], grid="none", **QUIET)
    (row,) = found.rows
    np.testing.assert_array_equal(found.arrays[row["key"]]["test"], np.arange(40, 60))


def test_several_classes_with_text_labels():
    problem = make_problem(45)
    y = np.array(["ant", "bee", "cat"] * 15, dtype=object)
    X = problem.X.with_data(
        problem.X.data + np.repeat(np.arange(45) % 3, problem.X.sizes)[:, None] * 3
    )
    found = compare(X, y, methods=["SimpleMI", "WrapperMI"], grid="none", **QUIET)
    assert not found.failures
    assert found.ranking[0].mean > 0.7
    assert found.ranking[0].auroc > 0.8


@pytest.mark.parametrize(
    ("y", "metric"),
    [
        (np.arange(60) % 6 == 0, "average_precision"),
        (np.arange(60) % 6 != 0, "auroc"),
        (np.arange(60) % 2 == 0, "accuracy"),
    ],
)
def test_the_metric_suits_the_classes(y, metric):
    problem = make_problem(60)
    found = compare(problem.X, y.astype(int), methods=[toy("a")], grid="none", **QUIET)
    assert found.metric == metric
    assert metric == "accuracy" or "17%" in found.metric_reason


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": ["SimpelMI"]}, "did you mean"),
        ({"metric": "speed"}, "unknown metric 'speed'; known"),
        ({"grid": "huge"}, "unknown grid"),
        ({"memory_limit": "lots"}, "is not a size"),
    ],
)
def test_bad_options_are_refused_before_any_work(problem, options, message):
    with pytest.raises(ValueError, match=message):
        compare(problem, **{"methods": ["SimpleMI"], **QUIET, **options})


def test_what_would_be_misread_is_refused():
    bags = [np.ones((2, 2)) for _ in range(10)]
    hidden = np.ma.array([0, 1] * 5, mask=np.arange(10) == 4)
    with pytest.raises(ValueError, match=r"y is a masked array.*\[4\]"):
        compare(bags, hidden)
    with pytest.raises(ValueError, match=r"sample_weight is a masked array.*\[4\]"):
        compare(bags, [0, 1] * 5, sample_weight=hidden + 1.0)
    for labels in (
        ["a", None] * 5,
        ["a", np.nan] * 5,
        np.array(["2026-01-01", "NaT"] * 5, dtype="M8[D]"),
    ):
        y = labels if isinstance(labels, np.ndarray) else np.array(labels, dtype=object)
        with pytest.raises(ValueError, match="label of bag 1 is missing"):
            compare(bags, y)
    for name in ("time_budget", "time_limit"):
        for value in (0, -1.0, np.nan):
            with pytest.raises(ValueError, match=f"{name} must be a positive time"):
                compare(bags, [0, 1] * 5, **{name: value})


def test_bad_data_are_refused():
    bags = [np.ones((2, 2)) for _ in range(10)]
    with pytest.raises(ValueError, match="labels are missing"):
        compare(bags)
    bags[3] = np.array([[1.0, np.nan]])
    with pytest.raises(ValueError, match="missing.*columns 1 .*bag 3.*impute='median'"):
        compare(bags, [0, 1] * 5)
    bags[3] = np.array([[np.inf, 1.0]])
    with pytest.raises(ValueError, match="infinite values in columns 0"):
        compare(bags, [0, 1] * 5, impute="median")
    with pytest.raises(ValueError, match="y is missing or infinite for bag 1"):
        as_problem([np.ones((1, 1))] * 3, [0.0, np.nan, 1.0])


def test_estimators_of_ones_own(problem):
    found = compare(
        problem, methods=[("mine", SimpleMI(SVC(C=5.0), pooling="max"))], **QUIET
    )
    assert found.best == "mine"
    assert found.rows[0]["description"]["estimator"]["params"]["pooling"] == "max"


def test_a_model_that_cannot_be_saved_loses_no_figures(problem, tmp_path):
    """A report of hours of work is worth more than the file."""
    method = Method("own", "toy_methods.Unsavable")
    with pytest.warns(UserWarning, match="own could not be refitted and saved.*lambda"):
        found = compare(problem, methods=[method], out=tmp_path, **QUIET)
    assert found.best == "own"
    assert found.provenance["model"].startswith("not written: own")
    assert set(found.paths) == {"results", "comparison"}
    assert found.paths["results"].exists()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_what_a_stack_trusts_is_stored(tmp_path, n_classes):
    problem = make_problem(36, shift=3.0)
    if n_classes == 3:
        problem = Problem("three", problem.X, np.arange(36) % 3)
    method = Method("stack", "bagwise.ensemble.BagStackingClassifier")
    done = compare(problem, methods=[method], out=tmp_path, **FIVE)
    table = member_table(View(done), "stack")
    assert {member["name"] for member in table} == {"simple", "wrapper"}
    stored = [done.arrays[row["key"]] for row in done.runs("stack")]
    heaviest = list(stored[0]["member_names"]).index(table[0]["name"])
    weights = [float(arrays["member_weights"][heaviest]) for arrays in stored]
    assert table[0]["folds"] == len(weights) == 5
    assert table[0]["weight"] == pytest.approx(np.mean(weights))
    assert table[0]["weight"] >= table[1]["weight"]
    assert member_table(View(done), "another") is None


def test_pictures_of_instances_come_with_the_data(tmp_path):
    problem = make_problem(30)
    pictures = np.arange(problem.X.n_instances * 9).reshape(-1, 3, 3)
    np.savez(tmp_path / "pictures.npz", images=pictures)
    options = {"methods": ["SimpleMI"], "grid": "none", **QUIET}
    found = compare(problem, images=tmp_path / "pictures.npz", **options)
    np.testing.assert_array_equal(found.problem.images, pictures)
    with pytest.raises(ValueError, match="images has 2 entries"):
        compare(problem, images=pictures[:2], **options)


def test_warnings_are_counted_per_method():
    """Of the chosen model in each fold; those of candidates are counted apart."""
    method = replace(toy("a", "Unsettled"), grid={"level": [0.0, 1.0, 2.0]})
    found = compare(make_problem(40), methods=[method, toy("b")], **FIVE)
    assert found.unconverged == ["a did not converge in 5 of 5 fits"]
    (row,) = [row for row in notes(found) if "gap" in row["note"]]
    assert row["count"] == 5  # though the gaps differ
    tuning = [row for row in notes(found) if row["note"].endswith("of the tuning")]
    assert [row["note"] for row in tuning] == [
        "ConvergenceWarning: 9 in fits of the tuning"
    ]
    fitted = found.fit_best("b")
    assert fitted.notes == []
    with pytest.warns(ConvergenceWarning) as caught:
        assert found.fit_best("a").notes == [
            "ConvergenceWarning: 9 in fits of the tuning"
        ]
    assert len(caught) == 1
