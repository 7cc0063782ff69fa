"""Memory maps are referred to, not copied; a budget of time ends a comparison early."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest
from toy_methods import make_problem, toy

from bagwise import Bags
from bagwise.bags import stored as _stored
from bagwise.comparison import CrossValidation, compare
from bagwise.comparison._data_files import (
    DataFileError,
    load_problem,
    write_problem,
)
from bagwise.comparison.choose import choose_methods
from bagwise.comparison.problem import Problem

QUIET = {"n_jobs": 1, "time_limit": None, "progress": False}
FIVE = {**QUIET, "protocol": CrossValidation(5)}


@pytest.fixture
def mapped(tmp_path):
    """Return a problem whose instances are rows of a file, from the third on."""
    plain = make_problem(20)
    path = tmp_path / "features.npy"
    np.save(path, np.concatenate([np.zeros((2, 3)), plain.X.data]))
    rows = np.load(path, mmap_mode="r")[2:]
    X = Bags(rows, plain.X.offsets, ids=plain.X.ids)
    return path, Problem("toy", X, plain.y, plain.instance_labels)


def test_a_memory_map_is_not_copied(tmp_path, mapped):
    path, problem = mapped
    folder = tmp_path / "data"
    write_problem(problem, folder)
    assert "data.npy" not in os.listdir(folder)
    again = load_problem(str(folder))
    np.testing.assert_array_equal(again.X.data, problem.X.data)
    assert again.hash() == problem.hash() == make_problem(20).hash()
    done = compare(problem, methods=[toy("a")], **{**QUIET, "n_jobs": 2})
    plain = compare(make_problem(20), methods=[toy("a")], **QUIET)
    assert done.ranking[0].mean == plain.ranking[0].mean


def test_a_map_that_changed_or_is_gone_is_noticed(tmp_path, mapped):
    path, problem = mapped
    write_problem(problem, tmp_path / "data")
    os.utime(path, ns=(0, 0))
    with pytest.raises(DataFileError, match="has changed since"):
        load_problem(str(tmp_path / "data"))
    path.rename(path.with_name("moved.npy"))
    with pytest.raises(DataFileError, match="was deleted"):
        load_problem(str(tmp_path / "data"))


def test_a_selection_from_a_map_is_written_out(tmp_path, mapped):
    _, problem = mapped
    order = np.arange(20)[::-1]
    part = Problem("part", problem.X[order], problem.y[order])
    write_problem(part, tmp_path / "data")
    assert load_problem(str(tmp_path / "data")).hash() == part.hash()


@pytest.mark.parametrize("name", ["data.npy", "offsets.npy", "meta.json"])
def test_damaged_and_missing_files_are_one_clear_line(tmp_path, name):
    folder = tmp_path / "data"
    write_problem(make_problem(20), folder)
    (folder / name).write_bytes((folder / name).read_bytes()[:20])
    with pytest.raises(DataFileError, match="are damaged"):
        load_problem(str(folder))
    (folder / name).unlink()
    with pytest.raises(DataFileError, match=f"does not find .*{name}"):
        load_problem(str(folder))


def test_a_pickle_in_place_of_an_array_is_refused(tmp_path):
    folder = tmp_path / "data"
    write_problem(make_problem(20), folder)
    np.save(folder / "y.npy", np.array([{}, None]), allow_pickle=True)
    with pytest.raises(DataFileError, match="are damaged"):
        load_problem(str(folder))


def test_slow_methods_run_last_in_every_fold():
    methods = [replace(toy("slow"), slow=True), toy("one"), toy("two")]
    seen = []
    options = {**FIVE, "methods": methods, "grid": "none", "n_jobs": 1}
    options["progress"] = lambda event: seen.append(event.run.method)
    found = compare(make_problem(40), **options)
    assert seen == ["one", "two", "slow"] * 5
    alone = compare(make_problem(40), **{**options, "methods": methods[:1]})
    truth = {row["fold"]: row["accuracy"] for row in alone.runs("slow")}
    assert {row["fold"]: row["accuracy"] for row in found.runs("slow")} == truth


def test_a_budget_of_time_leaves_the_rest_for_later(tmp_path):
    problem = make_problem(40)
    methods = [toy("slow", "Sleeps", seconds=0.4), toy("other", "Sleeps", seconds=0.4)]
    options = {**FIVE, "methods": methods, "out": tmp_path, "grid": "none"}
    begun = compare(problem, time_budget=0.6, **options)
    assert 0 < len(begun.rows) < 10
    assert "did not end within 0.6 s" in begun.provenance["time budget"]
    assert {row.verdict for row in begun.ranking} == {"untested"}
    text = json.dumps(begun.to_json(), default=str)
    assert "the same call continues" in text
    whole = compare(problem, **options)
    assert len(whole.rows) == 10
    assert "time budget" not in whole.provenance


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_budget_of_time_stops_what_runs(n_jobs):
    """A run over the budget is no failed run; results name the folds that ended."""
    problem = make_problem(40)
    _, test = CrossValidation(5).split(problem.targets, 0, 0, 0)
    bag = problem.X.ids.tolist()[test[0]]  # a training bag of all folds but the first
    methods = [toy("quick", "Toy"), toy("slow", "Sleeps", seconds=600.0, bag=bag)]
    options = {**FIVE, "methods": methods, "grid": "none", "n_jobs": n_jobs}
    budget = 3.0 if n_jobs == 1 else 12.0  # worker processes import first
    found = compare(problem, time_budget=budget, **options)
    assert not found.failures
    assert len(found.runs("slow")) == 1
    assert found.protocol_text.startswith("1 of 5 folds of 5-fold")
    assert "1 of 5 folds of 5-fold cross-validation" in found.summary()


@pytest.fixture
def slides(tmp_path, monkeypatch):
    """Slides of patients on disk that take more memory than there is."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(24 * 220, 160)).astype(np.float16)
    y = np.arange(24) // 2 % 2
    rows.reshape(24, 220, 160)[y == 1, :50, 0] += 3
    np.save(tmp_path / "rows.npy", rows)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    X = Bags(mapped, 220 * np.arange(25), groups=[f"p{i // 2}" for i in range(24)])
    monkeypatch.setenv("BAGWISE_MEMORY", "3MB")
    monkeypatch.setattr(_stored, "COPIED_BELOW", 0)  # or a training set is in memory
    return Problem("slides", X, y)


def test_larger_than_memory_takes_what_reads_pieces(slides, monkeypatch):
    choices = {c.method.name: c for c in choose_methods(slides)}
    chosen = {name for name, c in choices.items() if c.chosen}
    assert chosen == {
        "Mean + logistic",
        "SimpleMI",
        "miFV",
        "MILR",
        "SAFE (features)",
        "MI-SVM (linear)",
    }
    for name in ("WrapperMI (logistic)", "MI-Kernel", "BagClassifier"):
        assert "would take 0.0 GB of the 0.0 GB" in choices[name].reason
        assert "it does not read them in chunks" in choices[name].reason
    assert "in place of SAFE" in choices["SAFE (features)"].reason
    result = compare(
        slides,
        methods=sorted(chosen),
        protocol=CrossValidation(2),
        grid="none",
        **QUIET,
    )
    assert [(r["method"], r["error"]) for r in result.failures] == []
    monkeypatch.setenv("BAGWISE_MEMORY", "1GB")
    with_room = {c.method.name for c in choose_methods(slides) if c.chosen}
    assert {"WrapperMI (logistic)", "MI-Kernel", "SAFE"} <= with_room


def test_the_baseline_is_first_and_patients_have_an_interval(slides):
    from bagwise.report._page import report_context

    result = compare(
        slides,
        methods=["MILR", "Mean + logistic"],
        protocol=CrossValidation(3),
        grid="none",
        **QUIET,
    )
    page = report_context(result)
    assert [row["baseline"] for row in page["ranking"]] == [True, False]
    assert page["ranking"][0]["method"] == "Mean + logistic"
    best = result.ranking[0].method
    found = result.group_interval(best)
    folds = [row["group_auroc"] for row in result.runs(best)]
    assert found.mean == pytest.approx(np.mean(folds))
    assert 0 <= found.low <= found.mean <= found.high <= 1
    own = result.group_winner.corrected
    told = f"Per group (12 groups): AUROC {own.mean:.3f} [{own.low:.3f}, "
    assert told in result.summary()
    assert f"({found.mean:.3f} [{found.low:.3f}, " in result.summary()
    intervals = [row["interval"] for row in page["groups"]["rows"]]
    assert f"{found.low:.3f} to {found.high:.3f}" in intervals
