"""Compiled loops where nothing can be written, as in many containers."""

import gc
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

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
told = [w for w in caught if "compiled code cannot be kept" in str(w.message)]
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


def test_garbage_is_collected_again_after_a_first_call():
    @njit()
    def half(x):
        return x / 2

    @njit()
    def wrong(x):
        return x.no_such_thing

    assert half(3.0) == 1.5
    assert gc.isenabled()
    with pytest.raises(Exception, match="no_such_thing"):
        wrong(3.0)
    assert gc.isenabled()
