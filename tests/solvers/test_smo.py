"""The searches of sequential minimal optimization against plain loops."""

import numpy as np
import pytest

from bagwise.solvers.smo import (
    _enlist,
    _first,
    _largest,
    extremes,
    second_of_pair,
    worst_within,
)


@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 32, 50])
def test_the_first_of_equal_numbers_is_found(n):
    rng = np.random.default_rng(n)
    for _ in range(30):
        values = rng.integers(0, 4, n).astype(np.float64)
        bits = values.view(np.int64)
        place = int(np.argmax(values))
        assert _largest(bits) == (place if values[place] > 0.0 else -1)
        start = rng.integers(n)
        wanted = values[rng.integers(start, n)]
        expected = start + int(np.argmax(values[start:] == wanted))
        assert _first(bits, np.array(wanted).view(np.int64)[()], start) == expected


@pytest.mark.parametrize("n", [1, 16, 37])
def test_bounds_of_the_bias_are_those_of_a_loop(n):
    rng = np.random.default_rng(n)
    for _ in range(50):
        gradient = rng.integers(-3, 4, n) / 2.0  # with ties and zeros of both signs
        c = rng.choice([-1.0, 1.0], n)
        upward, downward = rng.random((2, n)) < rng.choice([0.0, 0.5, 1.0], (2, 1))
        scratch = np.empty(n)
        found = extremes(gradient, c, upward, downward, scratch, scratch.view(np.int64))
        values = gradient * c
        top = values[upward].max(initial=-np.inf)
        low = values[downward].min(initial=np.inf)
        assert found[1:] == (top, low)
        if upward.any():
            assert upward[found[0]]
            assert values[found[0]] == top
        else:
            assert found[0] == -1


def test_the_second_row_gains_most():
    rng = np.random.default_rng(0)
    n = 23
    Z = rng.standard_normal((n, 4))
    K, c, scratch = Z @ Z.T, rng.choice([-1.0, 1.0], n), np.empty(n)
    for _ in range(30):
        gradient, downward = rng.standard_normal(n), rng.random(n) < 0.5
        i, top = int(rng.integers(n)), 0.3
        found = second_of_pair(
            gradient,
            c,
            np.diag(K).copy(),
            K,
            i,
            downward,
            i,
            top,
            scratch,
            scratch.view(np.int64),
        )
        gain = {
            j: (top - c[j] * gradient[j]) ** 2
            / max(K[i, i] + K[j, j] - 2 * K[i, j], 1e-12)
            for j in np.flatnonzero(downward & (top - c * gradient > 0.0))
        }
        assert found == (max(gain, key=gain.get) if gain else -1)


def test_pairs_inside_full_groups_are_those_of_all_pairs():
    rng = np.random.default_rng(1)
    for _ in range(50):
        start = np.concatenate([[0], np.cumsum(rng.integers(1, 6, 7))])
        n = start[-1]
        gradient, beta = rng.standard_normal(n), rng.random(n) * (rng.random(n) < 0.6)
        full = np.flatnonzero(rng.random(7) < 0.5)
        crowded = np.zeros(8, dtype=np.int64)
        crowded[: len(full)], crowded[-1] = rng.permutation(full), len(full)
        worst = 0.0
        for g in full:
            rows = range(start[g], start[g + 1])
            for up in rows:
                for down in rows:
                    if beta[down] > 0.0:
                        worst = max(worst, gradient[up] - gradient[down])
        violation, up, down = worst_within(gradient, beta, crowded, start)
        assert violation == worst
        if worst > 0.0:
            assert gradient[up] - gradient[down] == worst
            assert beta[down] > 0.0
        else:
            assert (up, down) == (-1, -1)


def test_the_list_of_full_groups_is_kept():
    rng = np.random.default_rng(2)
    crowded, known = np.zeros(7, dtype=np.int64), set()
    for _ in range(500):
        g, full = int(rng.integers(6)), bool(rng.integers(2))
        _enlist(g, full, crowded)
        known = known | {g} if full else known - {g}
        assert crowded[-1] == len(known)
        assert set(crowded[: crowded[-1]].tolist()) == known
