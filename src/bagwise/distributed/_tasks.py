"""What a task is given and who computes it, so that tasks are few and do not wait."""

from __future__ import annotations

from types import FunctionType

import numpy as np

from bagwise.bags.chunks import add

_SMALL = 2**14  # bytes of an array that may travel with each task


def threads():
    """Return the worker of every thread of the cluster in use; empty without one."""
    try:
        from distributed import default_client

        found = default_client().nthreads()
    except (ImportError, ValueError):
        return []
    # A thread of each worker before the second of any.
    rounds = range(max(found.values(), default=0))
    return [worker for k in rounds for worker in sorted(found) if found[worker] > k]


def together(n_parts, n_threads):
    """Return how many parts to keep together so that few tasks share them evenly.

    A power of two: parts are added by pairs, and the order of additions must not
    depend on it. No thread gets a quarter more than its share.
    """
    width = 1
    if not n_threads:
        return width
    even = -(-n_parts // n_threads)
    for wider in (2**k for k in range(1, n_parts.bit_length())):
        groups = -(-n_parts // wider)
        if wider * -(-groups // n_threads) <= 1.25 * even:
            width = wider
    return width


def is_small(shared):
    """Whether something is numbers, names and functions, and few of them."""
    if isinstance(shared, np.ndarray):
        return shared.nbytes <= _SMALL and not shared.dtype.hasobject
    if isinstance(shared, (tuple, list)):
        return all(is_small(one) for one in shared)
    if isinstance(shared, dict):
        return all(is_small(one) for one in shared.values())
    plain = (bool, int, float, str, np.generic, FunctionType)
    return shared is None or isinstance(shared, plain)


def add_by_pairs(values):
    """Add values in the order of a balanced tree, holding a few sums at a time."""
    sums = []  # (how many levels of pairs it sums, sum)
    for value in values:
        level = 0
        while sums and sums[-1][0] == level:
            value, level = add(sums.pop()[1], value), level + 1
        sums.append((level, value))
    total = sums.pop()[1]
    while sums:
        total = add(sums.pop()[1], total)
    return total
