"""Timing shared by the benchmarks: ratios of best-of-several in one run."""

import time


def best_of(function, repeats=5, *, clock=time.perf_counter):
    """Return the shortest time of several calls, in seconds by `clock`."""
    times = []
    for _ in range(repeats):
        start = clock()
        function()
        times.append(clock() - start)
    return min(times)


def show(title, rows):
    """Print rows of (what, value, bar) as a small table."""
    print(f"\n{title}")
    width = max(len(str(what)) for what, _, _ in rows)
    for what, value, bar in rows:
        print(f"  {what:<{width}}  {value:>12}  {bar}")
