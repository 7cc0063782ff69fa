"""Reproduction of tables: verdicts, runs, resuming, what is written."""

import copy
import csv
import math
import tomllib

import numpy as np
import pytest
from test_papers import SMALL

from bagwise.comparison import contributions, interval
from bagwise.comparison.problem import as_problem
from bagwise.datasets import make_generalized_bags
from bagwise.svm import transductive_box_svc
from studies.__main__ import main
from studies.pages import write_results_page
from studies.paper_sets import simulate
from studies.reproduce import Reproduction, _choose, reproduce
from studies.tables import load_table, parse_table
from studies.transductive import TransductiveBoxSVC
from studies.verdicts import judge, measure


def small(rows=None, **changes):
    values = tomllib.loads(SMALL)
    values.update(changes)
    if rows is not None:
        values["rows"] = rows
    return parse_table(values)


ROWS = [
    {"label": "SimpleMI", "method": "SimpleMI", "grid": "none", "values": [90.0]},
    {
        "label": "Wrapper MI",
        "method": "WrapperMI (logistic)",
        "params": {"threshold": "zero"},
        "grid": "none",
        "values": [100.0],
        "note": "for a reason",
    },
    {"label": "Lost", "method": "SimpleMI", "grid": "none", "values": [math.nan]},
    {"label": "Absent", "method": "SimpleMI", "values": [50.0], "skip": "too slow"},
]


@pytest.mark.parametrize(
    ("published", "mean", "std_error", "lower", "verdict"),
    [
        (0.90, 0.90, 0.02, False, "reached"),
        (0.92, 0.90, 0.0201, False, "reached"),
        (0.93, 0.90, 0.02, False, "not reached"),
        (0.10, 0.90, 0.02, False, "reached"),
        (0.10, 0.11, 0.02, True, "reached"),
        (0.08, 0.11, 0.02, True, "not reached"),
        (0.99, 0.11, 0.02, True, "reached"),
        (math.nan, 0.1, 0.2, True, None),
        (0.1, 0.1, math.nan, True, None),
    ],
)
def test_rule(published, mean, std_error, lower, verdict):
    assert judge(published, mean, std_error, lower_is_better=lower) == verdict


def fake(values, status="ok"):
    """Make the rows of runs with given accuracies."""
    return {
        f"k{i}": {
            "key": f"k{i}",
            "status": status,
            "accuracy": value,
            "fit_time": 1.0,
            "tune_time": 2.0,
            "predict_time": 0.5,
            "data_hash": "h",
            "random_state": 0,
            "finished": 1.0,
            "versions": {},
            "error": "ValueError: no",
        }
        for i, value in enumerate(values)
    }


def measured(cell, values, n_repeats=1, drop=()):
    rows = {k: v for k, v in fake(values).items() if k not in drop}
    per = len(values) // n_repeats
    keys = [[f"k{r * per + i}" for i in range(per)] for r in range(n_repeats)]
    arrays = {key: {"cpu_seconds": np.array([3.0])} for key in rows}
    problems = {"h": as_problem(simulate("safe-toy-1"))}
    return measure(cell, keys, rows, arrays, problems)


def test_error_of_runs_without_predictions_is_that_of_their_mean():
    (cell,) = small().cells
    found = measured(cell, [0.8, 0.9, 0.7, 0.9], n_repeats=2)
    assert found.error_of == "runs"
    assert found.std_error == pytest.approx(np.std([80, 90, 70, 90], ddof=1) / 2)
    assert found.mean == pytest.approx(82.5)
    assert found.high - found.mean == pytest.approx(3.1824463 * found.std_error)
    assert (found.repeats, found.n_folds, found.cpu_seconds) == (2, 4, 12.0)
    assert found.cpu_per_repeat == pytest.approx(6.0)


def test_error_of_bags_is_that_of_compare():
    """The interval of a cell is that of the same predictions in `compare`."""
    (cell,) = small().cells
    problem = as_problem(simulate("safe-toy-1"))
    n = len(problem.y)
    label = np.where(np.arange(n) % 4 == 0, 1 - problem.targets, problem.targets)
    folds = [np.arange(n)[k::2] for k in range(2)]
    rows = fake([float(np.mean((label == problem.targets)[t])) for t in folds])
    arrays = {
        key: {"test": test, "label": label[test], "score": label[test] - 0.5}
        for key, test in zip(rows, folds, strict=True)
    }
    found = measure(cell, [list(rows)], rows, arrays, {"h": problem})
    whole = {"truth": problem.targets, "label": label}
    same = contributions("accuracy", whole, np.arange(n), run=np.arange(n) % 2)
    ends = interval(same)
    assert found.error_of == "bags"
    assert (found.low, found.high) == pytest.approx((100 * ends.low, 100 * ends.high))
    assert found.mean == pytest.approx(100 * same.value, abs=1.0)
    assert found.std_error < found.high - found.low


def test_only_whole_repeats_count():
    (cell,) = small().cells
    found = measured(cell, [0.8, 0.9, 0.1, 0.1], n_repeats=2, drop=("k3",))
    assert found.mean == pytest.approx(85.0)
    assert found.repeats == 1
    none = measured(cell, [0.8, 0.9], drop=("k1",))
    assert none.verdict == "not run"
    assert none.reason == "1 of 2 runs of a repeat are done"


def test_error_is_one_minus_the_metric():
    (cell,) = small(
        error=True, unit="fraction", rows=[{**ROWS[0], "values": [0.1]}]
    ).cells
    found = measured(cell, [0.95, 0.93])
    assert found.mean == pytest.approx(0.06)
    assert found.verdict == "reached"
    assert measured(cell, [0.5, 0.5]).verdict == "not reached"


def test_being_behind_is_said_even_where_the_rule_is_met():
    (cell,) = small([{**ROWS[0], "values": [88.0]}]).cells
    found = measured(cell, [0.7, 0.9])
    assert (found.verdict, found.behind) == ("reached", True)
    assert not measured(cell, [0.9, 0.9]).behind
    (cell,) = small([{**ROWS[0], "values": [12.0]}], error=True).cells
    assert measured(cell, [0.7, 0.9]).behind
    assert not measured(cell, [0.9, 0.9]).behind


def test_best_threshold_of_the_test_scores():
    """A gap that the best threshold closes differs from one of the ranking."""
    table = small([{**ROWS[0], "values": [60.0]}])
    (cell,) = table.cells
    problem = as_problem(simulate("safe-toy-1"))
    truth = problem.y == problem.classes[1]
    test = np.r_[np.flatnonzero(truth)[:3], np.flatnonzero(~truth)[:3]]
    # Ranked + + - + - -; 0 is below all scores: the three positive bags are correct.
    score = np.array([6.0, 5.0, 3.0, 4.0, 2.0, 1.0])
    rows = fake([0.5, 0.5])
    arrays = {key: {"test": test, "score": score} for key in rows}

    def page(cell):
        found = measure(cell, [list(rows)], rows, arrays, {"h": problem})
        return found, Reproduction(table, [found], 1).to_markdown()

    found, text = page(cell)
    assert found.best_threshold == pytest.approx(100 * 5 / 6)
    assert found.mean == pytest.approx(50.0)  # a diagnostic, not the measured result
    assert "- Reached at the best threshold" in text
    assert f"SimpleMI on {cell.column} (83.3 / 60)" in text
    (cell,) = small([{**ROWS[0], "values": [90.0]}]).cells
    assert "- Not reached at the best threshold" in page(cell)[1]
    (cell,) = small([{**ROWS[0], "values": [0.2]}], error=True, unit="fraction").cells
    found, text = page(cell)
    assert found.best_threshold == pytest.approx(1 / 6)
    assert "- Reached at the best threshold" in text
    (cell,) = small([{**ROWS[0], "values": [40.0]}]).cells
    assert "eached at the best threshold" not in page(cell)[1]


def test_page_over_files_of_an_older_version(tmp_path):
    table = small([{**ROWS[0], "values": [99.0]}])
    result = Reproduction(table, [measured(c, [0.5, 0.6]) for c in table.cells], 1)
    path = result.write(tmp_path)["csv"]
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        assert row["verdict"] == "not reached"
        del row["best_threshold"]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    page = write_results_page(tmp_path).read_text(encoding="utf-8")
    assert "/ 99<br>**not reached**" in page


def test_a_failed_run_is_named():
    (cell,) = small().cells
    rows = fake([0.1, 0.2], status="failed")
    found = measure(cell, [["k0", "k1"]], rows, {}, {})
    assert found.verdict == "not run"
    assert "ValueError: no" in found.reason
    assert found.n_failed == 2


def read_csv(path):
    with path.open(newline="", encoding="utf-8") as file:
        return {row["row"]: row for row in csv.DictReader(file)}


def count_runs(events):
    return sum(not event.cached for event in events)


def test_measured_next_to_published(tmp_path):
    events = []
    table = small(ROWS)
    options = {"store": tmp_path / "s.sqlite", "out": tmp_path / "out"}
    result = reproduce(table, **options, progress=events.append)
    assert count_runs(events) == 4  # "Lost" is the same run as "SimpleMI"
    verdicts = {cell.cell.row: cell.verdict for cell in result.cells}
    assert verdicts["SimpleMI"] == "reached"
    assert verdicts["Lost"] == "not comparable"
    assert verdicts["Absent"] == "not run"
    by_row = {cell.cell.row: cell for cell in result.cells}
    assert by_row["Lost"].mean == by_row["SimpleMI"].mean
    with (tmp_path / "out" / "small.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4
    first = rows[0]
    assert first["command"] == "python -m studies reproduce small --repeats 1"
    assert first["bagwise"]
    assert len(first["data_hash"]) == 64
    assert float(first["cpu_seconds"]) >= 0
    assert first["protocol"] == "2-fold cross-validation"
    assert str(tmp_path) not in (tmp_path / "out" / "small.csv").read_text()

    # Nothing is run twice, and a second repeat adds to the first.
    events.clear()
    again = reproduce(table, **options, progress=events.append)
    assert count_runs(events) == 0
    assert [c.mean for c in again.cells[:3]] == [c.mean for c in result.cells[:3]]
    reproduce(table, **options, repeats=2, methods=["SimpleMI"], progress=events.append)
    assert count_runs(events) == 2
    more = reproduce(table, **options, run=False, progress=False)
    assert [c.repeats for c in more.cells] == [2, 1, 2, 0]


def test_cells_that_are_not_run_again_keep_their_figures(tmp_path):
    out = tmp_path / "out"
    reproduce(small(ROWS), store=tmp_path / "a.sqlite", out=out, progress=False)
    before = read_csv(out / "small.csv")
    # A fresh store with one row only, while the settings of another row have changed.
    changed = copy.deepcopy(ROWS)
    changed[2]["params"] = {"pooling": "max"}
    options = {"store": tmp_path / "b.sqlite", "out": out, "progress": False}
    reproduce(small(changed), methods=["Wrapper MI"], **options)
    after = read_csv(out / "small.csv")
    assert after["Wrapper MI"]["kept"] == ""
    assert after["Wrapper MI"]["measured"] == before["Wrapper MI"]["measured"]
    assert after["SimpleMI"]["measured"] == before["SimpleMI"]["measured"] != ""
    since = before["SimpleMI"]["finished"][:10]
    assert after["SimpleMI"]["kept"] == since != ""
    assert after["Lost"]["measured"] == ""
    page = (out / "small.md").read_text(encoding="utf-8")
    assert f"- Measured on {since} — SimpleMI on Toy" in page


def test_page_over_all_tables(tmp_path):
    options = {"store": tmp_path / "s.sqlite", "out": tmp_path, "progress": False}
    rows = [{**row} for row in ROWS[:2]]
    rows[1]["estimator"] = {"class": "sklearn.svm.LinearSVC"}
    del rows[1]["method"], rows[1]["params"]
    rows[1]["name"] = "On rows"
    result = reproduce(small(rows), **options)
    # A classifier that knows nothing about bags fails, and the page says so.
    assert result.failures
    (tmp_path / "speed.csv").write_text("what,seconds\nfit,1.5\n", encoding="utf-8")
    page = write_results_page(tmp_path).read_text(encoding="utf-8")
    assert "| [small](small.md) | Table 1 | 1 | 1 | 0 | 0 | 1 | 1 |" in page
    assert "runs failed" in page
    assert "/ 90<br>reached" in page
    assert "| safe-table3 | Table 3 | | | | | all | 0 | |" in page
    with pytest.raises(FileNotFoundError, match="no CSV"):
        write_results_page(tmp_path / "nothing")


def test_rows_behind_everywhere_are_named():
    labels = ("a", "b", "c")
    columns = [{"label": label, "dataset": "safe-toy-1"} for label in labels]
    values = {"Ahead": [10.0] * 3, "Behind": [100.0] * 3, "Mixed": [10.0, 100.0, 10.0]}
    method = {"method": "SimpleMI", "grid": "none"}
    rows = [{"label": k, "values": v, **method} for k, v in values.items()]
    table = small(rows, columns=columns)
    cells = [measured(cell, [0.5, 0.9]) for cell in table.cells]
    page = Reproduction(table, cells, 1).to_markdown()
    assert "with any verdict: Behind (-30 on average, 3 columns)." in page


def test_first_runs_alone_show_the_cost(tmp_path):
    options = {"store": tmp_path / "s.sqlite", "out": None, "progress": False}
    result = reproduce(small(ROWS[:1]), folds=1, **options)
    (cell,) = result.cells
    assert cell.verdict == "not run"
    assert cell.cpu_per_repeat == pytest.approx(2 * cell.cpu_seconds)


def test_drawn_sets_are_new_in_every_run(tmp_path):
    column = {
        "label": "Binding",
        "dataset": "safe-toy-2-500",
        "redraw": True,
        "protocol": {"kind": "train_test", "n_splits": 3},
    }
    events = []
    result = reproduce(
        small(ROWS[:1], columns=[column]),
        store=tmp_path / "s.sqlite",
        out=None,
        progress=events.append,
    )
    assert len({event.run.data.hash for event in events}) == 3
    (cell,) = result.cells
    values = [100 * event.row["accuracy"] for event in events]
    assert cell.mean == pytest.approx(np.mean(values))
    # Draws are independent, so the usual standard error applies.
    assert cell.std_error == pytest.approx(np.std(values, ddof=1) / math.sqrt(3))


def test_rand_index_of_instance_scores(tmp_path):
    column = {"label": "ARI", "dataset": "safe-toy-1", "redraw": True, "metric": "ari"}
    row = {"label": "SAFE", "method": "SAFE", "grid": "none", "values": [94.0]}
    options = {"store": tmp_path / "s.sqlite", "out": None, "progress": False}
    result = reproduce(small([row], columns=[column]), **options)
    assert result.cells[0].mean > 80  # clusters are classes in this set


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"repeats": 0}, "between 1 and 10"),
        ({"datasets": ["musk9"]}, "no data set 'musk9'"),
        ({"methods": ["DD"]}, "no method 'DD'"),
    ],
)
def test_wrong_requests(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        reproduce(small(), store=tmp_path / "s.sqlite", out=None, **options)


def test_rows_with_commas_in_their_names_can_be_asked_for():
    """The command line splits at all commas."""
    table = load_table("pcsvm-benchmark")
    row = "PC-SVM, rho = 0.3, slack per bag"
    name = "PC-SVM (rho 0.3, bag slack)"
    several = ["MI-SVM", *name.split(", "), "dd"]
    for asked, n_rows in (([row], 1), (row.split(", "), 1), (several, 3)):
        kept = _choose(table, None, asked)
        found = {cell.row for cell in table.cells if id(cell) in kept}
        assert row in found
        assert len(found) == n_rows
    with pytest.raises(ValueError, match="has no method 'slack per bag'"):
        _choose(table, None, ["DD", "slack per bag"])


def test_absent_data_are_not_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("BAGWISE_DATA", str(tmp_path))
    monkeypatch.setenv("BAGWISE_CACHE", str(tmp_path / "cache"))
    column = {"label": "Protein", "dataset": "protein"}  # has no public source
    options = {"store": tmp_path / "s.sqlite", "out": None, "progress": False}
    result = reproduce(small(ROWS[:1], columns=[column]), **options)
    assert result.cells[0].verdict == "not run"
    assert "BAGWISE_DATA" in result.cells[0].reason


def test_transductive_adapter_is_the_function():
    X, y = make_generalized_bags(40, random_state=0)
    model = TransductiveBoxSVC(C=10.0, random_state=0).fit(X[:30], y[:30])
    found = transductive_box_svc(
        X[:30], y[:30], X[30:], C=10.0, threshold="zero", random_state=0
    )
    np.testing.assert_array_equal(
        model.decision_function(X[30:]), found.decision_function
    )
    np.testing.assert_array_equal(model.predict(X[30:]), found.predictions)


def test_command_lists_tables(capsys):
    assert main(["reproduce", "--list"]) == 0
    assert "safe-table3" in capsys.readouterr().out


def test_command_reports_what_is_stored(capsys, tmp_path):
    out = tmp_path / "o"
    words = ["reproduce", "midr-table1", "--stored", "--out", str(out)]
    assert main([*words, "--store", str(tmp_path / "s.sqlite")]) == 0
    assert "20 not run" in capsys.readouterr().out
    assert (out / "README.md").exists()
    assert (out / "midr-table1.csv").exists()
