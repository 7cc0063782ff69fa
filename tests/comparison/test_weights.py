"""Weights of bags in `compare` and `fit_file`."""

import csv

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from toy_methods import make_problem, toy

from bagwise.cli._models import fit_file
from bagwise.comparison import CrossValidation, compare, list_methods
from bagwise.comparison._data_files import load_problem, write_problem
from bagwise.comparison.description import describe_estimator
from bagwise.comparison.evaluate import predictions
from bagwise.comparison.problem import as_problem
from bagwise.comparison.tuning import fit_method
from bagwise.compose import SimpleMI
from bagwise.report._page import render_report, report_context

QUIET = {"n_jobs": 1, "time_limit": None, "progress": False, "grid": "none"}
WEIGHT = np.random.default_rng(0).uniform(0.1, 3.0, 40)


@pytest.fixture(scope="module")
def problem():
    return make_problem(40, shift=1.0)


def test_bags_of_no_weight_might_as_well_not_be_there(problem):
    spec = describe_estimator(SimpleMI(LogisticRegression()))
    weight = (np.arange(40) % 3 > 0).astype(float)
    kept = weight > 0
    tuning = {"n_splits": 3, "scoring": "accuracy"}
    grid = {"pooling": ["mean", "max"]}
    more = {"scale": "none", "grid": grid, "tuning": tuning}
    found = fit_method(spec, problem.X, problem.y, sample_weight=weight, **more).model
    alone = SimpleMI(LogisticRegression(), pooling=found[-1].pooling)
    alone.fit(problem.X[kept], problem.y[kept])
    np.testing.assert_allclose(
        found.decision_function(problem.X),
        alone.decision_function(problem.X),
        atol=1e-4,
    )


@pytest.mark.parametrize("method", ["SimpleMI", "miFV"])
@pytest.mark.parametrize("calibrate", [False, True])
def test_every_fold_gets_the_weights_of_its_own_bags(problem, method, calibrate):
    """Methods and pipelines that end in one are fitted with them, calibrated or not."""
    found = compare(
        problem, methods=[method], protocol=CrossValidation(3), sample_weight=WEIGHT,
        calibrate=calibrate, **QUIET,
    )  # fmt: skip
    assert found.unweighted == []
    entry = found.methods[0]
    for row in found.rows:
        arrays = found.arrays[row["key"]]
        train = np.setdiff1d(np.arange(40), arrays["test"])
        how = {
            "random_state": row["fold"],
            "scale": entry.scale,
            "calibrate": calibrate,
        }
        told, untold = (
            predictions(
                fit_method(
                    entry.spec(), problem.X[train], problem.y[train],
                    sample_weight=weight, **how,
                ).model,
                problem.X[arrays["test"]],
                np.arange(2),
            )["score"]
            for weight in (WEIGHT[train], None)
        )  # fmt: skip
        np.testing.assert_allclose(arrays["score"], told, atol=1e-9)
        assert not np.allclose(told, untold, atol=1e-4)
    best = found.fit_best().model
    plain = compare(
        problem, methods=[method], protocol=CrossValidation(3), **QUIET
    ).fit_best()
    score = [
        predictions(m, problem.X, np.arange(2))["score"] for m in (best, plain.model)
    ]
    assert not np.allclose(*score, atol=1e-4)


def test_figures_count_all_test_bags_alike(problem):
    """A method that takes no weights has the figures it had, and is named."""
    methods = ["SimpleMI", toy("deaf")]
    plain = compare(problem, methods=methods, protocol=CrossValidation(3), **QUIET)
    found = compare(
        problem,
        methods=methods,
        protocol=CrossValidation(3),
        sample_weight=WEIGHT,
        **QUIET,
    )
    assert found.unweighted == ["deaf"]
    assert plain.unweighted == []
    for one, two in zip(plain.runs("deaf"), found.runs("deaf"), strict=True):
        assert (one["accuracy"], one["auroc"]) == (two["accuracy"], two["auroc"])
    for row in found.runs("SimpleMI"):
        arrays = found.arrays[row["key"]]
        hits = arrays["label"] == problem.targets[arrays["test"]]
        assert row["accuracy"] == pytest.approx(hits.mean())
    assert found.provenance["weights"].endswith("not supported by deaf")
    assert "not supported by deaf" in render_report(report_context(found))
    assert "Weights of bags" not in render_report(report_context(plain))


def test_weights_are_part_of_the_data(problem, tmp_path):
    weighted = as_problem(problem, sample_weight=WEIGHT)
    assert weighted.hash() != problem.hash()
    assert weighted.hash() != as_problem(problem, sample_weight=WEIGHT[::-1]).hash()
    write_problem(weighted, tmp_path)
    back = load_problem(str(tmp_path))
    np.testing.assert_array_equal(back.sample_weight, WEIGHT)


def test_a_column_of_a_file(problem, tmp_path):
    path = tmp_path / "bags.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(
            ["bag", "y", "w", *(f"f{k}" for k in range(problem.X.n_features))]
        )
        for i, bag in enumerate(problem.X):
            rows.writerows([i, problem.y[i], WEIGHT[i], *row] for row in bag.tolist())
    columns = {"bag": "bag", "label": "y", "sample_weight": "w"}
    named = fit_file(path, "SimpleMI", grid="none", **columns)
    given = fit_file(as_problem(problem, sample_weight=WEIGHT), "SimpleMI", grid="none")
    np.testing.assert_allclose(
        named.model.decision_function(problem.X),
        given.model.decision_function(problem.X),
    )
    with pytest.warns(UserWarning, match="Citation-kNN does not support weights"):
        fit_file(path, "Citation-kNN", grid="none", **columns)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.ones(3), r"shape \(3,\) for 40 bags"),
        (np.full(40, np.nan), "weight of bag 0 is nan"),
        (np.arange(40.0) - 1, "weight of bag 0 is -1"),
        (np.zeros(40), "all weights are zero"),
        (["a"] * 40, "must hold numbers"),
        ("w", "names a column, but the data are not a file"),
    ],
)
def test_weights_that_cannot_be_meant(problem, weight, message):
    with pytest.raises(ValueError, match=message):
        compare(problem, methods=["SimpleMI"], sample_weight=weight, **QUIET)


def test_a_class_without_weight_is_named(problem):
    with pytest.raises(ValueError, match="all bags of class 1 have a weight of zero"):
        as_problem(problem, sample_weight=1.0 - problem.y)


def test_most_of_the_catalogue_takes_weights():
    methods = [method for method in list_methods() if method.task != "survival"]
    without = {method.name for method in methods if not method.weights}
    assert without == {"Citation-kNN", "IAPR", "GMIL"}
