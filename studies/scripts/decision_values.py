"""Decision values of every method of the catalog, recorded and compared.

A change that should not change answers is shown not to by two recordings::

    python studies/scripts/decision_values.py record before.npz
    ... the change ...
    python studies/scripts/decision_values.py record after.npz
    python studies/scripts/decision_values.py compare before.npz after.npz

Every method is fitted with its own settings of the catalog, untuned, on every other
bag and scores all bags, of Musk1 and Elephant (from the folder that ``BAGWISE_DATA``
names) and of digit bags.
"""

import os
import sys
import time
import warnings

import numpy as np

from bagwise.comparison import list_methods
from bagwise.comparison.problem import as_problem
from bagwise.comparison.tuning import fit_method

SETS = ("musk1", "elephant", "digits")
TOLERANCE = 1e-10


def record(path: str) -> None:
    """Write one array of decision values per method and data set."""
    values = {}
    for name in SETS:
        problem = as_problem(name)
        half = np.arange(0, len(problem.y), 2)
        for method in list_methods():
            started = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    model = fit_method(
                        method.spec(),
                        problem.X[half],
                        problem.y[half],
                        scale=method.scale,
                    ).model
                    values[f"{name}/{method.name}"] = _decide(model, problem.X)
                except Exception as error:
                    print(f"  {method.name} on {name}: {error}", flush=True)
            seconds = time.process_time() - started
            print(f"{name:10} {method.name:22} {seconds:6.1f} s", flush=True)
    np.savez(path, **values)


def _decide(model, X):
    if hasattr(model, "decision_function"):
        return np.asarray(model.decision_function(X))
    return np.asarray(model.predict_proba(X))


def compare(before: str, after: str) -> int:
    """Print what differs by more than 1e-10 of the spread; return how many."""
    different = 0
    with np.load(before) as old, np.load(after) as new:
        for key in sorted({*old.files, *new.files}):
            if key not in old.files or key not in new.files:
                print(f"{key}: only {'after' if key in new.files else 'before'}")
                different += 1
                continue
            spread = max(1.0, float(np.abs(old[key]).max()))
            gap = float(np.abs(old[key] - new[key]).max()) / spread
            if not gap <= TOLERANCE:
                print(f"{key}: {gap:.1e}")
                different += 1
        print(f"{len(new.files) - different} of {len(new.files)} equal to {TOLERANCE}")
    return different


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if sys.argv[1] == "record":
        record(sys.argv[2])
    else:
        sys.exit(1 if compare(sys.argv[2], sys.argv[3]) else 0)
