"""The tables of the page on intervals, by hand."""

from math import comb

import numpy as np
import pytest

from studies.inference.cells import MEASURED, merged, one
from studies.inference.data_sets import TRUTHS, DataSet
from studies.inference.page import chosen, judged, missed, others, summary

CELL = {"generator": "a", "learner": "tree", "metric": "auroc", "sets": "100"}


def cell(n, repeats, **values):
    """Return a row as it is read from a file."""
    zeros = dict.fromkeys(
        ("coverage", "size", "width", "width_before", "power", "power_before"), 0.0
    )
    row = {**CELL, "n": n, "repeats": repeats, **zeros, **values}
    return {name: str(value) for name, value in row.items()}


ROWS = [
    cell(30, 1, coverage=0.99, size=0.08, width=9.0, width_before=1.0),
    cell(
        60, 1, coverage=0.95, width=0.6, width_before=1.0, power=0.4, power_before=0.2
    ),
    cell(
        60, 2, coverage=0.90, width=0.5, width_before=0.8, power=0.3, power_before=0.6
    ),
    cell(
        300, 1, coverage=0.96, width=0.2, width_before=0.4, power=0.9, power_before=0.6
    ),
]


def test_the_default_is_compared_with_the_former_default():
    own, before = chosen(ROWS, "auroc", "default")
    assert [row["repeats"] for row in own] == ["1", "2", "1"]
    assert [row["repeats"] for row in before] == ["1", "1", "1"]
    mean, found, good = judged("width / before", own, before)
    assert found.tolist() == pytest.approx([0.5, 0.5])  # from 60 bags on
    assert mean == pytest.approx(0.7 / 1.4)
    assert good.all()
    mean, found, _ = judged("power / before", own, before)
    assert found.tolist() == pytest.approx([1.5])  # was 0.1 to 0.5
    assert mean == pytest.approx(1.5)


def test_all_cells_outside_the_limits_are_listed():
    found = [(row[0], *row[4:]) for row in missed(ROWS)]
    assert found == [
        ("30", "one", "coverage", "0.990", 100, "no"),
        ("30", "one", "size", "0.080", 100, "no"),
        ("60", "two", "coverage", "0.900", 100, "no"),
    ]
    worse = next(missed([cell(60, 1, coverage=0.85)]))
    assert worse[-1] == "yes"  # 0.08 is more than twice 0.0255


def test_the_summary_counts_the_cells_that_meet_a_limit():
    lines = {tuple(row[:3]): row[4:] for row in summary(ROWS)}
    # Of 100 sets with coverage 0.95, 93 to 98 are covered in 83% of all cells.
    inside = sum(comb(100, k) * 0.95**k * 0.05 ** (100 - k) for k in range(93, 99))
    ends = ["0.967", "0.950", "0.990", 3, 2]
    assert lines["coverage", "AUROC", "one"] == [*ends, f"{3 * inside:.0f}", 0]
    ends = ["0.950", "0.900", "0.990", 3, 1]
    assert lines["coverage", "AUROC", "default"] == [*ends, f"{3 * inside:.0f}", 0]
    # More than chance explains.
    low = cell(60, 1, coverage=0.85, width=0.6, width_before=1.0)
    lines = {tuple(row[:3]): row for row in summary([low])}
    assert lines["coverage", "AUROC", "one"][-1] == 1


def test_two_rounds_of_a_cell_are_one():
    old = {"sets": "100", "simulated": "100"} | dict.fromkeys(MEASURED, "0.9")
    new = {"sets": 50, "simulated": 60} | dict.fromkeys(MEASURED, 0.96)
    row = merged(old, new)
    assert (row["sets"], row["simulated"]) == (150, 160)
    assert row["coverage"] == pytest.approx(0.92)
    share = (0.92 * 150 + 1) / 152
    assert row["coverage_error"] == pytest.approx(
        (share * (1 - share) / 150) ** 0.5, abs=1e-4
    )


def test_other_metrics_are_averaged_by_protocol(tmp_path):
    path = tmp_path / "metrics.csv"
    rows = ["r2,5-fold,50,0.96", "r2,5-fold,50,0.80", "mae,test set,50,0.94"]
    path.write_text("\n".join(["metric,protocol,sets,coverage", *rows]))
    error = (0.88 * 0.12 / 100) ** 0.5
    mae, r2 = others(path)
    assert mae[:4] == ["mae", "test set", 1, "0.940"]
    assert r2 == ["r2", "5-fold", 2, "0.880", f"{error:.3f}", "0.800", 1]
    assert list(others(tmp_path / "none.csv")) == []


@pytest.mark.parametrize(("rest", "inside"), [(1.0, 0), (0.25, 1)])
def test_errors_on_the_rest_of_a_population_are_larger(rest, inside):
    """With a quarter of all bags left, an error counts half."""
    y = np.arange(100) % 2
    right = np.where(np.arange(100) < 80, 1, -1)  # accuracy 0.8, up to about 0.87
    scores = np.tile(right * (2.0 * y - 1.0), (3, 1, 1))
    truth = np.full((1, len(TRUTHS)), 0.9)
    fold = np.arange(100)[None] // 20
    found = one(DataSet(y, None, fold, scores, truth, rest), "accuracy", 1)
    assert found[MEASURED.index("coverage")] == inside
    assert found[MEASURED.index("bias")] == pytest.approx(-0.1)
