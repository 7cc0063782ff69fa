"""Measured, optimistic and published figures; grids that end too early."""

import ast

import numpy as np
import pytest
from test_reproduce import small

from bagwise.comparison.problem import as_problem
from bagwise.comparison.protocols import CrossValidation
from bagwise.compose import OnInstances, SimpleMI
from bagwise.datasets import make_bags
from studies import paper_sets
from studies.optimism import best_on_reported_folds
from studies.pages import _gaps as gaps
from studies.pages import _verdicts as verdict_table
from studies.pages import reason_of
from studies.paper_sets import SCALED, simulate
from studies.reproduce import Reproduction, reproduce
from studies.rows import keep_earlier, read_rows
from studies.schemes import MAX_REPEATS
from studies.tables import known_dataset

POOLINGS = ["mean", "max", "min"]
TUNED = {
    "label": "SimpleMI",
    "method": "SimpleMI",
    "grid": {"pooling": POOLINGS},
    "values": [99.0],
}


def test_the_optimistic_figure_by_brute_force(tmp_path):
    table = small([TUNED])
    options = {"store": tmp_path / "s.sqlite", "out": tmp_path, "progress": False}
    (honest,) = reproduce(table, **options).cells
    assert np.isnan(honest.optimistic)
    result = reproduce(table, **options, optimistic=True)
    (cell,) = result.cells
    assert cell.mean == honest.mean
    problem = as_problem(simulate(cell.cell.dataset))
    X, y = problem.X, problem.y
    scores = np.zeros((2, len(POOLINGS)))
    for fold in range(2):
        train, test = CrossValidation(2, MAX_REPEATS).split(y, 0, fold, 0)
        scaler = OnInstances().fit(X[train])
        for k, pooling in enumerate(POOLINGS):
            model = SimpleMI(pooling=pooling).fit(scaler.transform(X[train]), y[train])
            scores[fold, k] = model.score(scaler.transform(X[test]), y[test])
    assert cell.optimistic == pytest.approx(100 * scores.mean(axis=0).max())
    page = (tmp_path / "small.md").read_text(encoding="utf-8")
    assert f" / {cell.optimistic:.1f} / 99" in page
    assert "measured ± standard error / optimistic / published" in page


def test_optimism_is_the_reason_in_one_word():
    table = small([TUNED])
    (cell,) = table.cells
    from test_reproduce import measured

    found = measured(cell, [0.90, 0.91])
    assert found.verdict == "not reached"
    assert found.cause == ""
    reached = type(found)(**{**vars(found), "optimistic": 99.5})
    assert reached.cause == "optimism"
    behind = type(found)(**{**vars(found), "optimistic": 93.0})
    assert behind.cause == ""
    page = Reproduction(table, [reached], 1).to_markdown()
    assert "**not reached** (-8.5): optimism" in page
    assert "Not reached: optimism" in page


def test_all_gaps_stand_in_one_table_with_a_reason_each():
    row = {"table": "t", "row": "m", "published": "90", "measured": "80"}
    row |= {"verdict": "not reached", "lower_is_better": "false"}
    rows = [
        row | {"column": "a", "optimistic": "91", "cause": "optimism"},
        row | {"column": "b", "optimistic": "85", "cause": "", "best_threshold": "90"},
        row | {"column": "c", "optimistic": "", "cause": "", "best_threshold": "89.9"},
        row | {"column": "d"},  # a file of an older version
        row | {"column": "e", "lower_is_better": "true", "best_threshold": "89.9"},
        row | {"column": "f", "verdict": "reached"},
    ]
    *_, a, b, c, d, e, end = gaps(rows)
    assert a == "| t | m on a | 90 | 80 | 91 | - | optimism |"
    assert b == "| t | m on b | 90 | 80 | 85 | 90 | threshold |"
    assert c == "| t | m on c | 90 | 80 | - | 89.9 | open |"
    assert d == "| t | m on d | 90 | 80 | - | - | open |"
    assert e.endswith("| threshold |")
    assert end == ""
    assert gaps(rows[-1:]) == []


@pytest.mark.parametrize(
    ("variant", "changes", "reason"),
    [
        ("88", {}, "scaling"),  # 2 below, equal to its standard error
        ("88", {"column": "b"}, "open"),
        ("88", {"explains": "other: scaling"}, "open"),
        ("87.9", {}, "open"),
        ("90", {"std_error": ""}, "open"),
        ("", {}, "open"),
    ],
)
def test_a_variant_that_reaches_a_figure_is_the_reason(variant, changes, reason):
    row = {"table": "t", "column": "a", "row": "m", "published": "90"}
    row |= {"measured": "80", "std_error": "3", "verdict": "not reached"}
    row |= {"lower_is_better": "false", "cause": ""}
    other = {**row, "row": "n", "explains": "m: scaling", "measured": variant}
    other |= {"std_error": "2", "verdict": "not comparable"} | changes
    reached = {**row, "row": "o", "verdict": "reached"}
    rows = [row, other, reached]
    assert reason_of(row, rows) == reason
    assert reason_of({**row, "cause": "optimism"}, rows) == "optimism"
    more = {**other, "explains": "m: clipping", "column": "a", "measured": "89"}
    more["std_error"] = "2"
    both = f"{reason} or clipping" if reason == "scaling" else "clipping"
    assert reason_of(row, [*rows, more, more]) == both
    if reason == "open":
        assert reason_of({**row, "best_threshold": "91"}, rows) == "threshold"
        assert reason_of({**row, "quoted": "somebody"}, rows) == "quoted"
    page = "\n".join(verdict_table(rows))
    assert f"| t | m | a: **{reason}** |" in page
    assert "| t | o | a: reached |" in page
    assert f"Together: 1 {reason}, 1 reached." in page


def test_features_are_scaled_over_all_bags(monkeypatch):
    X, y = make_bags(30, random_state=0)
    known = as_problem(X, y)
    monkeypatch.setattr(paper_sets, "as_problem", lambda name: known)
    found = simulate("a set" + SCALED)
    low, high = X.data.min(axis=0), X.data.max(axis=0)
    np.testing.assert_allclose(found.X.data, (X.data - low) / (high - low), atol=1e-12)
    np.testing.assert_array_equal(found.X.offsets, X.offsets)
    assert known_dataset("musk1" + SCALED)
    assert not known_dataset("nothing" + SCALED)


def test_optimistic_figures_are_put_beside_earlier_honest_ones(tmp_path):
    table = small([TUNED])
    options = {"out": tmp_path, "progress": False}
    (honest,) = reproduce(table, store=tmp_path / "a.sqlite", **options).cells
    (before,) = read_rows(tmp_path / "small.csv")
    again = reproduce(table, store=tmp_path / "b.sqlite", optimistic="only", **options)
    (cell,) = again.cells
    assert np.isnan(cell.mean)
    assert cell.verdict == "not run"
    assert np.isfinite(cell.optimistic)
    (row,) = read_rows(tmp_path / "small.csv")
    assert row["measured"] == before["measured"]
    assert row["verdict"] == before["verdict"] == honest.verdict
    assert float(row["optimistic"]) == pytest.approx(cell.optimistic, rel=1e-5)
    assert row["kept"] == before["finished"][:10] != ""
    old = {**before, "measured": "90", "std_error": "0.5", "verdict": "not reached"}
    for looked, cause in (("98.7", "optimism"), ("98.3", "")):
        new = {**before, "measured": "", "std_error": "", "optimistic": looked}
        (kept,) = keep_earlier([new], [old])
        assert (kept["optimistic"], kept["cause"]) == (looked, cause)
        assert kept["kept"] == before["finished"][:10]
    (kept,) = keep_earlier([{**new, "grid": "another"}], [old])
    assert (kept["measured"], kept["grid"]) == ("90", before["grid"])
    assert kept["optimistic"] == before["optimistic"] == ""
    assert "with the grid of that day" in kept["kept"]
    # A parameter set by the grid is not a setting of the row; any other parameter is.
    tuned = next(iter(ast.literal_eval(before["grid"])))
    for name, measured in ((tuned, "90"), ("threshold", "")):
        (kept,) = keep_earlier([new], [{**old, "params": str({name: 1.0})}])
        assert kept["measured"] == measured
    made = {"estimator": "bagwise.svm.MISVM", "params": "{}"}
    bare = {**new, **made}
    # A parameter named only in the earlier row must equal the current default. A
    # default that only the current row names may have been different before.
    for value, measured in (("train", "90"), ("cv", "")):
        params = str({"threshold": value})
        (kept,) = keep_earlier([bare], [{**old, **made, "params": params}])
        assert kept["measured"] == measured
        (kept,) = keep_earlier([{**bare, "params": params}], [{**old, **made}])
        assert kept["measured"] == ""
    often = {**old, "repeats": "10"}
    once = {**old, "measured": "91", "verdict": "reached", "repeats": "1"}
    (kept,) = keep_earlier([once], [often])
    assert (kept["measured"], kept["verdict"]) == ("90", "not reached")
    assert "fewer repeats" in kept["kept"]
    (kept,) = keep_earlier([{**once, "repeats": "10"}], [often])
    assert (kept["measured"], kept["kept"]) == ("91", "")
    (kept,) = keep_earlier([{**once, "verdict": "not reached"}], [often])
    assert kept["measured"] == "91"


def test_no_candidates_no_figure():
    assert np.isnan(best_on_reported_folds([]))
    assert np.isnan(best_on_reported_folds([np.array([np.nan])]))
    scores = [np.array([1.0, np.nan, 0.0]), np.array([0.0, 1.0, 0.8])]
    assert best_on_reported_folds(scores) == 0.5


def test_tables_say_where_a_grid_ends_too_early(tmp_path):
    row = {
        "label": "MILR",
        "method": "MILR",
        "grid": {"C": [1e-6, 1e-5]},
        "values": [99.0],
    }
    options = {"store": tmp_path / "s.sqlite", "out": tmp_path, "progress": False}
    (cell,) = reproduce(small([row]), **options).cells
    assert cell.grid_ends
    assert all(note.startswith("C at the ") for note in cell.grid_ends)
    page = (tmp_path / "small.md").read_text(encoding="utf-8")
    assert "- The grid may be too narrow, C at the" in page
