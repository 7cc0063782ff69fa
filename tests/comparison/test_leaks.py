"""Columns that hold the label are named before any run; good columns are not."""

import tracemalloc
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array
from scipy.stats import mannwhitneyu

from bagwise import Bags, compare
from bagwise.bags.segments import repeat
from bagwise.comparison.leaks import find_leaks
from bagwise.comparison.problem import Problem
from bagwise.datasets import make_bags, make_key_instance_bags, make_regression_bags
from bagwise.exceptions import DataWarning


def with_columns(problem, **columns):
    X = problem.X
    names = [f"x{j}" for j in range(X.n_features)]
    data = np.column_stack([X.data, *columns.values()])
    return replace(problem, X=X.with_data(data, feature_names=[*names, *columns]))


@pytest.fixture
def problem():
    X, y, z = make_bags(60, shift=2.0, random_state=0, return_instance_labels=True)
    return Problem("toy", X, y, z.values)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("make", [make_bags, make_key_instance_bags])
def test_instance_labels_as_a_column_are_named(make, seed):
    X, y, z = make(60, random_state=seed, return_instance_labels=True)
    clean = Problem("toy", X, y)
    found = find_leaks(with_columns(clean, leak=z.values != 0))
    assert [leak.name for leak in found.leaks] == ["leak"]
    assert found.leaks[0].score == 1.0


def test_instance_labels_with_an_error_are_named(problem):
    labels = (problem.instance_labels != 0) * 1.0
    bag = np.flatnonzero(problem.y == 1)[0]
    labels[problem.X.offsets[bag] : problem.X.offsets[bag + 1]] = 0.0
    (leak,) = find_leaks(with_columns(problem, leak=labels)).leaks
    assert leak.name == "leak"
    assert leak.score == pytest.approx(1 - 0.5 / 30)


def test_real_values_per_bag_are_named_with_groups(problem):
    signs = np.where(problem.y == 1, 1.0, -1.0)
    value = signs * np.random.default_rng(0).gamma(1.0, size=60)
    age = np.random.default_rng(1).normal(50, 10, 60)
    offsets = problem.X.offsets
    found = with_columns(
        problem, pIC50=repeat(value, offsets), age=repeat(age, offsets)
    )
    found = replace(found, X=found.X.with_groups(np.arange(60) // 2))
    findings = find_leaks(found)
    assert [leak.name for leak in findings.leaks] == ["pIC50"]
    assert {one.name for one in findings.constant} == {"pIC50", "age"}


def test_scores_are_those_of_mann_whitney(problem):
    X, t = problem.X, problem.y == 1
    means = np.array([bag.mean(axis=0) for bag in X])
    tops = np.array([bag.max(axis=0) for bag in X])
    best = 0.0
    for Z in (
        means,
        tops,
        np.array([bag.min(axis=0) for bag in X]),
        np.array([bag.std(axis=0) for bag in X]),
    ):
        U = mannwhitneyu(Z[t], Z[~t], axis=0).statistic / (t.sum() * (~t).sum())
        best = max(best, U.max(), (1 - U).max())
    assert find_leaks(problem).best.score == pytest.approx(best, abs=1e-12)


def test_a_very_good_column_is_no_leak():
    for seed in range(20):
        X, y = make_bags(200, n_features=20, shift=4.0, random_state=seed)
        found = find_leaks(Problem("toy", X, y))
        assert found.best.score > 0.97 or found.leaks
        assert not found.leaks


def test_values_are_compared_by_ranks():
    X, y = make_regression_bags(40, random_state=0)[:2]
    problem = Problem("values", X, y, task="regression")
    assert not find_leaks(problem).leaks
    found = find_leaks(with_columns(problem, leak=repeat(np.exp(y), X.offsets)))
    assert [leak.name for leak in found.leaks] == ["leak"]


def test_several_classes():
    X, y = make_bags(90, n_classes=3, shift=1.0, random_state=0)
    problem = Problem("three", X, y)
    assert not find_leaks(problem).leaks
    found = find_leaks(with_columns(problem, code=repeat(y * 1.0, X.offsets)))
    assert [leak.name for leak in found.leaks] == ["code"]


def test_gaps_that_tell_the_label_are_named(problem):
    column = np.random.default_rng(0).normal(size=problem.X.n_instances)
    column[repeat(problem.y == 1, problem.X.offsets)] = np.nan
    (leak,) = find_leaks(with_columns(problem, result=column)).leaks
    assert leak.name == "result"


def test_sparse_columns(problem):
    from scipy.sparse import csr_matrix

    rng = np.random.default_rng(0)
    words = rng.poisson(0.05, size=(problem.X.n_instances, 3_000)) * 1.0
    words[:, 1_234] = problem.instance_labels != 0
    X = Bags(csr_matrix(words), problem.X.offsets)
    (leak,) = find_leaks(Problem("words", X, problem.y)).leaks
    assert leak.name == "column 1234"


def test_many_rows_need_little_memory():
    """Of 400,000 sparse rows, 200 dense columns would take 640 MB at once."""
    rows = random_array((400_000, 300), density=1e-3, rng=0, dtype=np.float32)
    X = Bags(rows.tocsr(), np.arange(0, 400_001, 10_000))
    tracemalloc.start()
    try:
        find_leaks(Problem("words", X, np.arange(40) % 2))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 300e6


def test_copies_of_bags_and_the_bag_size(problem):
    bags = [*problem.X.to_list(), problem.X[3][::-1], problem.X[5]]
    y = np.append(problem.y, [problem.y[3], 1 - problem.y[5]])
    found = find_leaks(Problem("copies", Bags.from_list(bags), y))
    assert found.copies == [(3, 60), (5, 61)]
    assert found.opposed == 1
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    sizes = np.where(y == 1, rng.integers(20, 30, 60), rng.integers(5, 19, 60))
    X = Bags.from_list([rng.normal(size=(size, 3)) for size in sizes])
    assert [leak.name for leak in find_leaks(Problem("s", X, y)).leaks] == ["bag size"]


def test_order_and_ids_are_facts():
    X, y = make_bags(40, random_state=0)
    order = np.argsort(y, kind="stable")
    X = Bags.from_list([X[i] for i in order], ids=[f"mol{i:02d}" for i in range(40)])
    found = find_leaks(Problem("sorted", X, y[order]))
    facts = {fact.name: fact.score for fact in found.facts}
    assert facts["order of the bags"] == facts["number in the bag id"] == 1.0
    assert not found.leaks  # no method is given these


def test_modification_times_of_a_folder(tmp_path, problem):
    import os

    ids = [f"slide{i}" for i in range(60)]
    for name, label in zip(ids, problem.y, strict=True):
        (tmp_path / f"{name}.npy").touch()
        os.utime(tmp_path / f"{name}.npy", (1e9 + label, 1e9 + label))
    X = Bags.from_list(problem.X.to_list(), ids=ids)
    found = find_leaks(replace(problem, X=X, path=str(tmp_path)))
    facts = {fact.name: fact.score for fact in found.facts}
    assert facts["modification time of the file"] == 1.0


def test_compare_warns_and_reports(problem):
    leaky = with_columns(problem, leak=(problem.instance_labels != 0) * 1.0)
    options = {"methods": ["SimpleMI"], "grid": "none", "n_jobs": 1, "progress": False}
    with pytest.warns(DataWarning, match=r"'leak' \(1.000 by its mean") as caught:
        result = compare(leaky, **options)
    assert "drop=['leak']" in str(caught[0].message)
    assert "leak" in result.provenance["possible leaks"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "possible leaks" not in compare(problem, **options).provenance


def test_methods_that_cannot_fit_are_refused_before_any_run(monkeypatch):
    monkeypatch.setenv("BAGWISE_MEMORY", "1MB")
    X, y = make_bags(100, random_state=0)
    started = []
    with pytest.raises(ValueError, match=r"use 'SAFE \(features\)'") as caught:
        compare(X, y, methods=["SAFE", "mi-SVM"], n_jobs=1, progress=started.append)
    assert "mi-SVM needs" in str(caught.value)
    sparse = X.with_data(csr_array(X.data))
    with pytest.raises(ValueError, match="miFV does not take sparse data"):
        compare(sparse, y, methods=["miFV", "MILR"], n_jobs=1, progress=started.append)
    assert not started
