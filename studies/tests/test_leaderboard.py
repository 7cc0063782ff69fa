"""Leaderboard: ranks by brute force, tests against published values, the page."""

import numpy as np
import pytest
from matplotlib.text import Text
from scipy import stats

from bagwise.comparison import CrossValidation
from bagwise.comparison.description import (
    DataRef,
    Run,
)
from bagwise.comparison.run_one import Outcome
from bagwise.comparison.store import Store
from studies.__main__ import main
from studies.leaderboard import (
    critical_difference,
    friedman,
    leaderboard,
    mean_ranks,
)
from studies.leaderboard_page import plot_times

N_FOLDS = 3


def brute_ranks(values):
    """Rank by counting: those that are better, and half of those that are equal."""
    found = []
    for j in range(values.shape[1]):
        per_set = [
            1 + np.sum(row > row[j]) + (np.sum(row == row[j]) - 1) / 2 for row in values
        ]
        found.append(np.mean(per_set))
    return np.array(found)


def fill(path, values, *, skip=(), n_folds=N_FOLDS, seconds=None):
    """Write a store with the given mean accuracies, spread over folds."""
    with Store(path) as store:
        for i, row in enumerate(values):
            ref = DataRef(f"set{i}", f"hash{i}")
            for j, value in enumerate(row):
                if (i, j) in skip:
                    continue
                for fold in range(n_folds):
                    run = Run(f"m{j}", {"class": "x"}, ref, CrossValidation(3), 0, fold)
                    shift = 0.01 * (fold - 1)
                    fit = 1.0 if seconds is None else seconds[j]
                    outcome = Outcome(
                        "ok",
                        {"accuracy": float(value) + shift},
                        {"fit": fit, "tune": 0.0, "predict": 0.0},
                    )
                    store.put(repr(run), run, outcome)
    return path


@pytest.fixture
def values():
    rng = np.random.default_rng(0)
    return np.round(0.7 + 0.05 * np.arange(5) + 0.1 * rng.random((8, 5)), 2)


def test_ranks_by_brute_force(values):
    np.testing.assert_allclose(mean_ranks(values), brute_ranks(values))
    np.testing.assert_allclose(
        mean_ranks(values, higher=False), brute_ranks(-values), atol=1e-12
    )


@pytest.mark.parametrize(
    ("k", "q"),
    # Critical values for the two-tailed Nemenyi test, Demsar (2006), Table 5(a).
    [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (7, 2.949), (10, 3.164)],
)
def test_critical_difference_has_the_published_quantiles(k, q):
    n = 14
    expected = q * np.sqrt(k * (k + 1) / (6 * n))
    assert critical_difference(k, n) == pytest.approx(expected, rel=5e-4)


def test_friedman_agrees_with_scipy():
    rng = np.random.default_rng(1)
    values = rng.random((9, 4)) + 0.2 * np.arange(4)
    n, k = values.shape
    chi2 = stats.friedmanchisquare(*values.T).statistic
    F = (n - 1) * chi2 / (n * (k - 1) - chi2)
    assert friedman(values) == pytest.approx(stats.f.sf(F, k - 1, (k - 1) * (n - 1)))
    assert friedman(np.tile([0.1, 0.2, 0.3], (5, 1))) == 0.0
    assert np.isnan(friedman(values[:1]))


def test_board_of_a_store(tmp_path, values):
    seconds = [1.0, 2.0, 3.0, 4.0, 5.0]
    path = fill(tmp_path / "s.sqlite", values, seconds=seconds)
    board = leaderboard(path)
    expected = brute_ranks(values)
    order = np.argsort(expected, kind="stable")
    assert board.methods == tuple(f"m{j}" for j in order)
    np.testing.assert_allclose(board.ranks, expected[order])
    np.testing.assert_allclose(board.values, values[:, order])
    np.testing.assert_allclose(board.times[0], np.array(seconds)[order])
    assert board.left_out == []
    rows = board.rows()
    assert sum(row["wins"] for row in rows) >= len(values)
    assert rows[0]["with_best"]


def test_gaps_are_left_out_and_named(tmp_path, values):
    path = fill(tmp_path / "s.sqlite", values, skip={(0, 4), (1, 4), (2, 4)})
    board = leaderboard(path)
    assert set(board.methods) == {"m0", "m1", "m2", "m3"}
    assert board.left_out == ["m4: not on 3 of 8 data sets"]
    np.testing.assert_allclose(
        np.sort(board.ranks), np.sort(brute_ranks(values[:, :4]))
    )


def test_the_largest_block_is_taken(tmp_path):
    """Against all subsets of methods and sets, with one set split in two ways."""
    rng = np.random.default_rng(3)
    for case in range(6):
        present = rng.random((6, 7)) < 0.7
        skip = {(i, j) for i, j in np.argwhere(~present).tolist()}
        path = fill(tmp_path / f"{case}.sqlite", rng.random((6, 7)), skip=skip)
        other = rng.random(7) < 0.5
        with Store(path) as store:  # repeat the first set with other folds
            ref = DataRef("set0", "hash0")
            for j in np.flatnonzero(other):
                run = Run(f"m{j}", {"class": "x"}, ref, CrossValidation(5))
                times = {"fit": 1.0, "tune": 0.0, "predict": 0.0}
                done = Outcome("ok", {"accuracy": 0.5}, times)
                store.put(repr(run), run, done)
        largest = 0
        for bits in range(1, 2**7):
            names = np.array([bits >> j & 1 for j in range(7)], dtype=bool)
            if names.sum() > 1:
                complete = present[:, names].all(axis=1)
                complete[0] |= other[names].all()
                largest = max(largest, int(complete.sum() * names.sum()))
        board = leaderboard(path)
        assert len(set(board.datasets)) == len(board.datasets)
        assert board.values.size == largest  # although the search is greedy
        assert np.isfinite(board.values).all()


def test_a_hardly_started_method_takes_no_folds_from_the_others(tmp_path, values):
    started = tmp_path / "t.sqlite"
    fill(started, values)
    fill(
        started,
        np.full((8, 6), 0.9),
        skip={(i, j) for i in range(8) for j in range(5)},
        n_folds=1,
    )
    board = leaderboard(started)
    assert "m5" not in board.methods
    np.testing.assert_allclose(np.sort(board.ranks), np.sort(brute_ranks(values)))


def test_a_method_with_one_repeat_stands_beside_those_with_more(tmp_path, values):
    path = fill(tmp_path / "s.sqlite", values)
    times = {"fit": 1.0, "tune": 0.0, "predict": 0.0}
    with Store(path) as store:  # repeat all but the last method at chance level
        for i in range(len(values)):
            ref = DataRef(f"set{i}", f"hash{i}")
            for j in range(4):
                for fold in range(N_FOLDS):
                    run = Run(f"m{j}", {"class": "x"}, ref, CrossValidation(3), 1, fold)
                    done = Outcome("ok", {"accuracy": 0.5}, times)
                    store.put(repr(run), run, done)
    board = leaderboard(path)
    assert len(board.methods) == 5
    np.testing.assert_allclose(np.sort(board.ranks), np.sort(brute_ranks(values)))


def test_of_several_settings_of_a_method_one_is_taken_whole(tmp_path):
    path = fill(tmp_path / "s.sqlite", np.array([[0.9, 0.5]]))
    times = {"fit": 1.0, "tune": 0.0, "predict": 0.0}
    with Store(path) as store:
        ref = DataRef("set0", "hash0")
        for fold in range(N_FOLDS - 1):  # better, but with fewer folds
            run = Run("m1", {"class": "y"}, ref, CrossValidation(3), 0, fold)
            store.put(repr(run), run, Outcome("ok", {"accuracy": 1.0}, times))
    board = leaderboard(path)
    assert board.methods == ("m0", "m1")
    np.testing.assert_allclose(board.values, [[0.9, 0.5]])


def test_draws_of_one_set_count_once(tmp_path):
    path = tmp_path / "s.sqlite"
    with Store(path) as store:
        for draw in range(4):
            ref = DataRef(f"toy:{draw}", f"hash{draw}")
            for name, value in (("a", 0.9), ("b", 0.8)):
                run = Run(name, {"class": "x"}, ref, CrossValidation(3))
                times = {"fit": 1.0, "tune": 0.0, "predict": 0.0}
                store.put(repr(run), run, Outcome("ok", {"accuracy": value}, times))
    board = leaderboard(path)
    assert board.datasets == ("toy",)
    np.testing.assert_array_equal(board.ranks, [1, 2])


def test_page_holds_everything(capsys, tmp_path, values):
    path = fill(tmp_path / "s.sqlite", values)
    page = tmp_path / "board.html"
    assert main(["leaderboard", str(path), "--out", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert text.count("data:image/png;base64,") == 2
    assert "http" not in text.replace("http-equiv", "")
    assert "Content-Security-Policy" in text
    assert "default-src 'none'" in text
    for name in ("m0", "m4", "set7"):
        assert name in text
    assert "critical difference" in capsys.readouterr().out


def test_wrong_requests(tmp_path, values):
    path = fill(tmp_path / "s.sqlite", values[:, :1])
    with pytest.raises(ValueError, match="no two methods"):
        leaderboard(path)
    with pytest.raises(ValueError, match="unknown metric"):
        leaderboard(path, metric="f1")
    with pytest.raises(FileNotFoundError, match="no such store"):
        leaderboard(tmp_path / "none.sqlite")


def test_names_next_to_points_do_not_cover_one_another(tmp_path):
    """A dozen methods at nearly the same place, and every name can be read."""
    rng = np.random.default_rng(0)
    values = 0.8 + 0.01 * rng.random((4, 12))
    path = fill(tmp_path / "s.sqlite", values, seconds=1 + 0.2 * rng.random(12))
    figure = plot_times(leaderboard(path))
    figure.draw_without_rendering()
    (ax,) = figure.axes
    boxes = [Text.get_window_extent(text) for text in ax.texts]
    assert len(boxes) == 12
    pixels = ax.transData.transform(ax.collections[0].get_offsets())
    for i, box in enumerate(boxes):
        assert box.count_overlaps(boxes[:i]) == 0
        assert not any(box.contains(*pixel) for pixel in pixels)


def test_names_with_a_colon_but_no_seed_are_sets_of_their_own(tmp_path):
    path = tmp_path / "s.sqlite"
    times = {"fit": 1.0, "tune": 0.0, "predict": 0.0}
    names = ("simulated: one", "simulated: two")
    with Store(path) as store:
        for k, title in enumerate(names):
            for name, value in (("a", 0.9), ("b", 0.8)):
                ref = DataRef(title, f"hash{k}")
                run = Run(name, {"class": "x"}, ref, CrossValidation(3))
                store.put(repr(run), run, Outcome("ok", {"accuracy": value}, times))
    assert leaderboard(path).datasets == names
    assert leaderboard(path, datasets=names[:1]).datasets == names[:1]
