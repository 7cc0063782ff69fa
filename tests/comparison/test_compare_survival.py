"""Comparisons of times until an event: folds, figures, report, command line."""

import json

import numpy as np
import pytest

import bagwise
from bagwise.cli import main
from bagwise.comparison import CrossValidation, LeaveOneBagOut
from bagwise.comparison.problem import Problem, as_problem
from bagwise.datasets import make_survival_bags
from bagwise.metrics import concordance_index
from bagwise.report import write_report

pytest.importorskip("sksurv", reason="needs bagwise[survival]")


@pytest.fixture(scope="module")
def toy():
    X, y = make_survival_bags(36, n_features=3, random_state=0)
    return X.with_groups(np.arange(36) // 2), y


@pytest.fixture(scope="module")
def result(toy):
    return bagwise.compare(
        *toy,
        methods=["Mean + Cox"],
        protocol=CrossValidation(3),
        n_jobs=1,
        progress=False,
        time_limit=None,
    )


def test_figures_are_those_of_the_stored_risks(toy, result):
    X, y = toy
    assert result.problem.task == "survival"
    assert result.metric == "concordance"
    values = []
    for row in result.runs("Mean + Cox"):
        arrays = result.arrays[row["key"]]
        test = arrays["test"].astype(int)
        values.append(concordance_index(y[test], arrays["score"]))
        rest = np.setdiff1d(np.arange(36), test)
        assert not np.intersect1d(X.groups[test], X.groups[rest]).size
        assert abs(y["event"][test].mean() - y["event"].mean()) < 0.15
    assert result.ranking[0].mean == pytest.approx(np.mean(values))
    assert result.ranking[0].concordance == pytest.approx(np.mean(values))
    assert np.mean(values) > 0.6
    fitted = result.fit_best()
    assert fitted.model.score(X, y) > 0.6


def test_one_bag_at_a_time_pools_the_risks(toy):
    X, y = toy
    found = bagwise.compare(
        X[:12],
        y[:12],
        methods=["Mean + Cox", "Statistics + Cox"],
        protocol=LeaveOneBagOut(),
        grid="none",
        n_jobs=1,
        progress=False,
        time_limit=None,
    )
    first = found.ranking[0]
    assert first.low <= first.mean <= first.high
    assert 0 <= found.ranking[1].p <= 1


def test_report_says_what_was_measured(result, tmp_path):
    text = write_report(result, tmp_path / "report.html").read_text("utf-8")
    assert "concordance index" in text
    assert (
        "Kaplan-Meier estimates for thirds of the test bags by predicted risk" in text
    )
    assert "censored" in text


def test_the_estimate_over_time_by_hand():
    from bagwise.report._curves import kaplan_meier

    event = np.array([True, False, True, True])
    x, share = kaplan_meier(event, np.array([1.0, 2.0, 3.0, 3.0]))
    np.testing.assert_allclose(x, [0, 1, 1, 3, 3, 3])
    np.testing.assert_allclose(share, [1, 1, 0.75, 0.75, 0, 0])


def test_methods_and_data_have_to_fit(toy):
    X, y = toy
    with pytest.raises(ValueError, match="Mean \\+ ridge is for regression"):
        bagwise.compare(X, y, methods=["Mean + ridge"])
    with pytest.raises(ValueError, match="the task is regression"):
        as_problem(X, y, task="regression")
    few = y.copy()
    few["event"][1:] = False
    with pytest.raises(ValueError, match="class with event has 1"):
        bagwise.compare(X, few)
    assert as_problem(Problem("p", X, y, task="survival")).task == "survival"


@pytest.fixture
def table(toy, tmp_path):
    X, y = toy
    lines = ["patient,clinic,days,died,u,v,w"]
    for i, bag in enumerate(X):
        head = f"p{i},c{i // 2},{y['time'][i]:.5f},{int(y['event'][i])}"
        lines += [f"{head},{','.join(f'{v:.4f}' for v in row)}" for row in bag]
    path = tmp_path / "slides.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def run(capsys, *words):
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    captured = capsys.readouterr()
    return int(end.value.code or 0), captured.out, captured.err


BAGS = ["--bag", "patient", "--group", "clinic"]
COLUMNS = [*BAGS, "--time", "days", "--event", "died"]


def test_on_the_command_line(capsys, table, tmp_path):
    out = tmp_path / "out"
    words = ["compare", table, *COLUMNS, "--folds", 2, "--jobs", 1]
    words += ["--methods", "Mean + Cox", "--grid", "none", "--out", out]
    status, said, err = run(capsys, *words, "--time-limit", 0, "--json")
    found = json.loads(said)
    assert status == 0, err
    assert found["metric"] == "concordance"
    assert "18, never split" in found["provenance"]["groups"]
    assert (out / "report.html").exists()
    model = out / "model.bagwise"
    words = ["predict", model, table, *COLUMNS, "--json", "--outlier"]
    status, said, err = run(capsys, *words)
    assert status == 0, err
    assert set(json.loads(said)[0]) == {"bag", "risk", "outlier"}
    words = ["evaluate", model, table, *COLUMNS, "--out", tmp_path / "e", "--json"]
    status, said, err = run(capsys, *words)
    assert status == 0, err
    evaluated = json.loads(said)
    assert "much too optimistic" in " ".join(evaluated["notes"])
    assert evaluated["figures"][0]["expected"]["mean"] < 1
    curves = evaluated["risks"]["curves"]
    assert sum(curve["at_risk"][0] for curve in curves) == 36
    page = (tmp_path / "e" / "report.html").read_text(encoding="utf-8")
    assert "Log-rank test" in page
    assert "numbers at risk" in page


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--time", "days"], "--time needs --event"),
        (["--event", "died"], "--event needs --time"),
        (["--time", "days", "--event", "died", "--label", "u"], "replace --label"),
        (["--task", "survival", "--label", "u"], "--time and --event"),
        (["--time", "died", "--event", "days"], "event must be true or false"),
        (["--time", "days", "--event", "days"], "the same column"),
        (["--time", "days", "--event", "dead"], "no column 'dead'"),
    ],
)
def test_bad_columns(capsys, table, words, message):
    status, _, err = run(capsys, "compare", table, *BAGS, *words)
    assert status != 0
    assert message in " ".join(err.split())


def test_fit_writes_a_model_file(capsys, table, tmp_path):
    model = tmp_path / "m.bagwise"
    words = ["fit", table, *COLUMNS, "--grid", "none", "--conformal", 0.1]
    status, _, err = run(capsys, *words, "--out", model)
    assert status == 0, err
    status, _, err = run(capsys, "predict", model, table, *COLUMNS, "--alpha", 0.1)
    assert (status, "predicts risks" in err) == (1, True)
