"""Timing shared by the benchmarks: ratios of best-of-several in one run."""

import time


def best_of(function, repeats=5):
    """Return the shortest wall time of several calls, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def show(title, rows):
    """Print rows of (what, value, bar) as a small table."""
    print(f"\n{title}")
    width = max(len(str(what)) for what, _, _ in rows)
    for what, value, bar in rows:
        print(f"  {what:<{width}}  {value:>12}  {bar}")
