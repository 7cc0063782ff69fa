"""Where a grid ends, what lies beyond, and grids that widen by themselves."""

import numpy as np
import pytest
from sklearn.model_selection import ParameterGrid
from toy_methods import make_problem

from bagwise.comparison import CrossValidation, Method, compare
from bagwise.comparison._search import (
    beyond,
    central,
    ends_of,
    expand,
    widen_note,
)
from bagwise.comparison.description import describe_estimator
from bagwise.comparison.tuning import fit_method
from bagwise.linear_model import MILogisticRegression

QUIET = {"n_jobs": 1, "time_limit": None, "progress": False}
WIDTH = [{"gamma": "scale", "times": factor} for factor in (0.25, 1.0, 4.0)]


def test_candidates_come_in_the_order_of_scikit_learn():
    grid = [{"b": [1, 2], "a": ["x", "y", "z"]}, {"c": [3]}]
    assert [one.values for one in expand(grid)] == list(ParameterGrid(grid))
    assert [one.values for one in expand(None)] == [{}]


@pytest.mark.parametrize(
    ("grid", "values", "ends"),
    [
        ({"C": [1.0, 10.0, 100.0]}, {"C": 100.0}, {"C": "upper"}),
        ({"C": [1.0, 10.0, 100.0]}, {"C": 10.0}, {}),
        ({"C": [100.0, 1.0]}, {"C": 1.0}, {"C": "lower"}),
        ({"rho": [0.0, 0.3]}, {"rho": 0.0}, {}),
        ({"n": [1, 2, 4]}, {"n": 1}, {}),
        ({"n": [1, 2, 4]}, {"n": 4}, {"n": "upper"}),
        ({"energy": [0.8, 0.9, 1.0]}, {"energy": 1.0}, {}),
        ({"gamma": WIDTH}, {"gamma": WIDTH[2]}, {"gamma": "upper"}),
        ({"pooling": ["mean", "max"]}, {"pooling": "max"}, {}),
        ({"C": [1.0]}, {"C": 1.0}, {}),
        ({"flag": [False, True]}, {"flag": True}, {}),
    ],
)
def test_ends_and_natural_limits(grid, values, ends):
    (chosen,) = [one for one in expand(grid) if one.values == values]
    assert ends_of(chosen) == ends


@pytest.mark.parametrize(
    ("grid", "scores", "values"),
    [
        ({"C": [1.0, 10.0, 100.0]}, [0.9, 0.9, 0.9], {"C": 10.0}),
        ({"C": [1.0, 10.0, 100.0]}, [0.9, 0.8, 0.8], {"C": 1.0}),
        ({"C": [1.0, 10.0, 100.0]}, [0.8, 0.9, 0.9 + 1e-12], {"C": 10.0}),
        ({"C": [1.0, 10.0, 100.0]}, [np.nan, 0.5, 0.9], {"C": 100.0}),
        ({"C": [1.0, 10.0, 100.0, 1e3, 1e4]}, [0.1, 1, 1, 1, 0.1], {"C": 100.0}),
        ({"rho": [0.0, 0.3, 0.6]}, [0.9, 0.7, 0.9], {"rho": 0.0}),
        ({"pooling": ["mean", "max"]}, [0.9, 0.9], {"pooling": "mean"}),
    ],
)
def test_of_equals_the_one_far_from_the_ends_is_chosen(grid, scores, values):
    candidates = expand(grid)
    assert candidates[central(candidates, np.array(scores))].values == values


@pytest.mark.parametrize(
    ("axis", "end", "value"),
    [
        ([1.0, 10.0, 100.0], "upper", 1000.0),
        ([1.0, 10.0, 100.0], "lower", 0.1),
        ([0.0, 0.3], "upper", 0.6),
        ([2, 5], "upper", 13),
        ([20, 100], "lower", 4),
        (WIDTH, "upper", {"gamma": "scale", "times": 16.0}),
    ],
)
def test_one_step_beyond(axis, end, value):
    found = beyond(expand({"a": axis})[0], "a", end)
    assert found.values == {"a": value}
    assert found.grid == {"a": [*axis, value]}


def test_a_grid_widens_only_where_asked_and_finds_what_a_wide_one_finds():
    problem = make_problem(60, shift=1.0)
    spec = describe_estimator(MILogisticRegression())
    narrow, wide = {"C": [1e-5, 1e-4]}, {"C": [10.0**k for k in range(-5, 0)]}
    tuning = {"n_splits": 3, "scoring": "roc_auc"}
    X, y = problem.X, problem.y
    plain = fit_method(spec, X, y, grid=narrow, tuning=tuning)
    assert plain.grid_ends in ({"C": "upper"}, {"C": "lower"})
    extended = fit_method(spec, X, y, grid=narrow, tuning={**tuning, "extend": True})
    full = fit_method(spec, X, y, grid=wide, tuning=tuning)
    assert plain.tune_score <= extended.tune_score <= full.tune_score + 1e-12


def test_comparisons_say_which_grid_is_too_narrow():
    problem = make_problem(40, shift=1.0)
    method = Method(
        "narrow",
        "bagwise.linear_model.MILogisticRegression",
        grid={"C": [1e-6, 1e-5]},
    )
    options = {"protocol": CrossValidation(5), **QUIET}
    found = compare(problem, methods=[method], metric="log_loss", **options)
    ends = [row["grid_ends"].get("C") for row in found.runs("narrow")]
    notes = found.grid_ends("narrow")
    for end in {e for e in ends if e}:
        n = ends.count(end)
        expected = f"C at the {end} end of its grid in {n} of 5 folds: "
        assert expected + 'grid="auto" extends it' in notes
        often = found.grid_ends("narrow", share=0.5)
        assert any(note.startswith(expected) for note in often) == (n > 2)
    assert found.to_json()["ranking"][0]["grid_ends"] == notes
    assert len(notes) == len({e for e in ends if e})
    assert widen_note([{}, {}]) == []
    assert np.isfinite(found.ranking[0].mean)
