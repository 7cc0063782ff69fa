"""The files of published tables: complete, known to the library, in range."""

import copy
import math
import tomllib

import numpy as np
import pytest
from sklearn.model_selection import ParameterGrid

from bagwise.comparison.description import build_estimator, build_value
from studies.paper_sets import is_simulated
from studies.schemes import Draws, TwoWay
from studies.tables import known_dataset, list_tables, load_table, parse_table

SMALL = """
name = "small"
paper = "Somebody, Somewhere, 2000"
where = "Table 1"
title = "A test"
metric = "accuracy"
unit = "percent"
repeats = 10
protocol = { kind = "kfold", n_splits = 2 }

[[columns]]
label = "Toy"
dataset = "safe-toy-1"

[[rows]]
label = "SimpleMI"
method = "SimpleMI"
values = [99.0]
"""
ROW = {"label": "a", "method": "SimpleMI", "values": [1]}


def parse(**changes):
    values = tomllib.loads(SMALL)
    values.update(changes)
    return parse_table(values)


def test_all_tables_are_there():
    asked = {
        "midr-table1",
        "midr-table2",
        "midr-figure3",
        "pcsvm-benchmark",
        "pcsvm-corel",
        "safe-table2",
        "safe-table3",
        "safe-table4",
        "safe-figure5",
        "miodm-table2",
        "miodm-table3",
        "box-table1",
        "box-table2",
        "rivals",
    }
    assert asked <= set(list_tables())


@pytest.mark.parametrize("name", list_tables())
def test_every_cell_can_be_run_or_says_why_not(name):
    table = load_table(name)
    assert len(table.cells) == len(table.rows) * len(table.columns)
    for cell in table.cells:
        where = f"{cell.row} on {cell.column}"
        if cell.dataset:
            assert known_dataset(cell.dataset), where
        else:
            assert cell.not_comparable, where
        if math.isnan(cell.published):
            assert cell.not_comparable, where
        assert cell.method is not None or cell.skip, where
        if cell.scheme.redraw:
            assert is_simulated(cell.dataset), where


@pytest.mark.parametrize("name", list_tables())
def test_every_candidate_is_a_parameter_of_its_method(name):
    seen = set()
    for cell in load_table(name).cells:
        method = cell.method
        key = repr((method.spec(), method.grid))
        if key in seen:
            continue
        seen.add(key)
        model = build_estimator(method.spec(), 0)
        for chosen in ParameterGrid(method.grid or {}):
            model.set_params(**{k: build_value(v) for k, v in chosen.items()})


@pytest.mark.parametrize(
    ("table", "row", "column", "printed"),
    [
        ("safe-table3", "SAFE", "Musk1", 0.92),
        ("safe-table3", "MIBoosting", "Tiger", 0.80),
        ("midr-table1", "MIDR", "Fox", 0.778),
        ("midr-table2", "PCA", "Musk2", 479.371),
        ("miodm-table3", "MI-ODM", "Musk2", 89.8),
        ("miodm-table2", "MI-ODM", "waterfall", 65.91),
        ("box-table1", "GMIL-2", "protein", 0.251),
        ("box-table2", "IAPR", "Musk 2", 0.108),
        ("safe-table4", "miFV", "N = 500000", 0.94),
        ("safe-table2", "SKSC + LS-SVM", "Synthetic 2, Acc", 66.2),
    ],
)
def test_figures_as_printed(table, row, column, printed):
    assert load_table(table).cell(row, column).published == printed


@pytest.mark.parametrize("name", list_tables())
def test_figures_on_drawn_data_are_not_held_against_printed_ones(name):
    """No paper printed its generators: one reason for all tables alike."""
    for cell in load_table(name).cells:
        if cell.scheme.redraw or isinstance(cell.scheme, Draws):
            assert cell.not_comparable, (cell.row, cell.column)


def test_errors_are_smaller_the_better():
    assert all(cell.lower and cell.error for cell in load_table("box-table2").cells)
    assert not any(cell.lower for cell in load_table("safe-table3").cells)
    times = load_table("midr-table2").cells
    assert all(cell.lower and not cell.error for cell in times)


def test_tables_that_measure_the_same_share_their_runs():
    one = load_table("midr-table1").cell("MIDR", "Musk1")
    two = load_table("midr-table2").cell("MIDR", "Musk1")
    assert one.method == two.method
    assert one.scheme == two.scheme
    assert one.tuning == two.tuning
    three = load_table("safe-table3").cell("MI-SVM", "Musk1")
    four = load_table("box-table2").cell("MI-SVM", "Musk 1")
    assert (three.method, three.scheme) == (four.method, four.scheme)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rows": []}, "needs columns and rows"),
        ({"unit": "permille"}, "unknown unit"),
        ({"metric": "f1"}, "unknown metric"),
        ({"protocol": {"kind": "bootstrap"}}, "unknown protocol"),
        ({"color": "red"}, "unknown color"),
        (
            {"rows": [{"label": "a", "method": "SimpleMI", "values": [1, 2]}]},
            "2 values",
        ),
        (
            {"rows": [{"label": "a", "method": "SimpleM", "values": [1]}]},
            "did you mean",
        ),
        ({"rows": [{"label": "a", "method": "SimpleMI", "values": [101]}]}, "outside"),
        ({"rows": [{**ROW, "cells": {"No": {}}}]}, "no column"),
    ],
)
def test_a_wrong_file_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        parse(**changes)


def test_a_missing_key_is_named():
    values = copy.deepcopy(tomllib.loads(SMALL))
    del values["where"]
    with pytest.raises(ValueError, match="where is missing"):
        parse_table(values)


def test_unknown_table():
    with pytest.raises(ValueError, match="did you mean safe-table3"):
        load_table("safe-tabel3")


def test_two_way_folds_cross_the_classes():
    y = np.array([0] * 24 + [1] * 10)
    protocol = TwoWay(5, 4)
    protocol.check(y, 3)
    pairs = protocol.folds(len(y))
    assert len(pairs) == 20
    held_out, seen = np.zeros(len(y)), np.zeros(len(y))
    for repeat, fold in pairs:
        train, test = protocol.split(y, repeat, fold, 0)
        assert not set(train) & set(test)
        assert len(train) + len(test) == len(y)
        assert (y[train] == 1).sum() == 8
        assert (y[train] == 0).sum() == 6
        held_out[test] += y[test]
        seen[train] += 1 - y[train]
    # Each positive bag is tested once with each negative fold, and each negative
    # bag trains once with each positive fold.
    np.testing.assert_array_equal(held_out[y == 1], 4)
    np.testing.assert_array_equal(seen[y == 0], 5)


def test_two_way_refuses_too_few_bags():
    with pytest.raises(ValueError, match="too few bags"):
        TwoWay(5, 4).check(np.array([0] * 8 + [1] * 10), 3)


def test_two_way_refuses_groups_and_single_folds():
    y = np.array([0] * 12 + [1] * 12)
    with pytest.raises(ValueError, match="cannot keep groups"):
        TwoWay(2, 2).split(y, 0, 0, 0, np.arange(24))
    with pytest.raises(ValueError, match="n_positive >= 2"):
        TwoWay(1, 3)
