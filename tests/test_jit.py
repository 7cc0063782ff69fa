"""Compiled functions: when they are compiled, kept on disk, and what they refuse."""

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from bagwise._jit import njit

SCRIPT = """
import warnings
import numpy as np
import numba.core.caching as caching

# No place for a cache: a read-only package, no home folder.
for name in ("CacheImpl", "_CacheImpl"):  # of newer and older versions
    if hasattr(caching, name):
        getattr(caching, name)._locator_classes = []
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    from bagwise.bags.segments import segment_max, segment_min

    values, offsets = np.arange(20_000.0), np.array([0, 5, 20_000])
    assert segment_max(values, offsets).tolist() == [4.0, 19_999.0]
    assert segment_min(values, offsets).tolist() == [0.0, 5.0]
told = [w for w in caught if "compiled code cannot be cached" in str(w.message)]
assert len(told) == 1, [str(w.message) for w in caught]
assert "NUMBA_CACHE_DIR" in str(told[0].message)
print("compiled anew")
"""


def test_a_package_without_a_cache_compiles_anew_and_says_so_once():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "compiled anew"


HEAVY = ("numba", "scipy", "sklearn", "pandas", "torch")


@pytest.mark.parametrize("statement", ["import bagwise", "import bagwise.cli"])
def test_importing_bagwise_waits_with_the_slow_packages(statement):
    script = (
        f"import sys; {statement}; print(*[m for m in {HEAVY} if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


def test_importing_methods_waits_with_the_compiler():
    script = "import sys, bagwise.svm, bagwise.ensemble; print('numba' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


@njit()
def _twice(x):
    return 2.0 * x


@njit()
def _four_times(x):
    """Call another compiled function, by its name."""
    return _twice(_twice(x))


def test_compiled_functions_call_each_other_and_keep_their_names():
    assert _four_times.__doc__.startswith("Call another")
    assert _four_times.py_func(1.0) == _four_times(1.0) == 4.0
    assert len(_four_times.signatures) == 1
    assert pickle.loads(pickle.dumps(_four_times))(2.0) == 8.0


def test_threads_may_make_the_first_call_together():
    @njit()
    def shifted(x):
        return x + 1.0

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(shifted, range(8))) == [x + 1.0 for x in range(8)]


SHAPES = {
    "rows": "n d",
    "offsets": "b+1 to n",
    "chosen": "b in n",
    "out": "b 2d",
    "pair": ("d", "d"),
}


@njit(shapes=SHAPES)
def _sums(rows, offsets, chosen, out, pair):
    for i in range(len(chosen)):
        for j in range(rows.shape[1]):
            out[i, j] = rows[chosen[i], j] * pair[0][j]
            for row in range(offsets[i], offsets[i + 1]):
                out[i, rows.shape[1] + j] += rows[row, j] * pair[1][j]


def arguments():
    return {
        "rows": np.arange(10.0).reshape(5, 2),
        "offsets": np.array([0, 2, 3, 5]),
        "chosen": np.array([4, 0, 1]),
        "out": np.zeros((3, 4)),
        "pair": (np.ones(2), np.ones(2)),
    }


def test_arrays_that_fit_are_computed_with():
    known = arguments()
    for _ in range(2):  # the second call compares with the sizes of the first
        known["out"][:] = 0.0
        _sums(*known.values())
        assert known["out"].tolist() == [[8, 9, 2, 4], [0, 1, 4, 5], [2, 3, 14, 16]]


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("rows", np.zeros((5, 3)), ValueError),
        ("rows", np.zeros(10), ValueError),
        ("rows", np.zeros((4, 2)), IndexError),
        ("offsets", np.array([0, 2, 3, 6]), IndexError),
        ("offsets", np.array([-1, 2, 3, 5]), IndexError),
        ("offsets", np.array([0, 2, 5]), ValueError),
        ("chosen", np.array([5, 0, 1]), IndexError),
        ("chosen", np.array([4, -1, 1]), IndexError),
        ("out", np.zeros((3, 3)), ValueError),
        ("out", np.zeros((2, 4)), ValueError),
        ("pair", (np.ones(2), np.ones(1)), ValueError),
    ],
)
def test_arrays_that_do_not_fit_are_refused(name, value, error):
    _sums(*arguments().values())
    with pytest.raises(error):
        _sums(*{**arguments(), name: value}.values())


def test_an_array_without_a_declared_shape_is_refused():
    with pytest.raises(TypeError, match="no shape is declared for the array x"):
        _twice(np.ones(3))


def test_names_and_axes_that_do_not_exist_are_refused():
    for shapes in ({"y": "n"}, {"x": "N"}):
        with pytest.raises((TypeError, ValueError)):
            njit(shapes=shapes)(_twice.py_func)
