"""Compiled loops where nothing can be written, as in many containers."""

import subprocess
import sys

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
    from bagwise.bags.segments import segment_argmax, segment_max
    from bagwise.svm import MISVM
told = [w for w in caught if "compiled code cannot be kept" in str(w.message)]
assert len(told) == 1, [str(w.message) for w in caught]
assert "NUMBA_CACHE_DIR" in str(told[0].message)
assert segment_max(np.array([1.0, 3.0, 2.0]), np.array([0, 2, 3])).tolist() == [3, 2]
assert segment_argmax(np.array([1.0, 3.0]), np.array([0, 2])).tolist() == [1]
print("compiled anew")
"""


def test_a_package_without_a_cache_compiles_anew_and_says_so_once():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "compiled anew"
