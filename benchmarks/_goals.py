"""What the speed of methods was meant to be, what it was, and what it is.

`peers.py --before CHECKOUT` measures all rows with the sources of that checkout and
with the present ones, at the same time, each in a process of its own: what else the
machine does disturbs both alike.
"""

import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).resolve().parent


class Goal(NamedTuple):
    """A row: what is measured, and the most that it may be.

    `unit` is "s" (CPU seconds, of ten folds or of one call), "kernels" (times
    `rbf_kernel` of the training instances of the same folds), "before" (share of the
    seconds of the older checkout), or the name of a package that it is compared with.
    """

    data: str
    method: str
    unit: str
    most: float


# Validation may take a millisecond of a fit: half of what the two simple methods took.
GOALS = [
    Goal("musk1", "MI-SVM", "misvm", 1 / 10),
    Goal("musk1", "mi-SVM", "misvm", 1 / 10),
    Goal("musk1", "sbMIL", "misvm", 1 / 8),
    Goal("musk1", "MILES", "misvm", 1 / 8),
    Goal("musk1", "MIBoosting", "WEKA", 1 / 10),
    Goal("musk1", "DD", "before", 1 / 5),
    Goal("musk1", "Statistics kernel", "before", 1 / 2),
    Goal("musk1", "SimpleMI", "before", 1 / 2),
    Goal("musk2", "MI-SVM", "kernels", 1.7),
    Goal("musk2", "mi-SVM", "kernels", 1.7),
    Goal("elephant", "PC-SVM", "s", 3.0),
    Goal("elephant", "MI-ODM", "s", 3.0),
    Goal("elephant", "Box kernel SVC", "s", 8.0),
    Goal("elephant", "EMD + SVC", "s", 2.0),
    Goal("elephant", "DD", "before", 1 / 5),
    Goal("elephant", "EM-DD", "before", 1 / 5),
    Goal("400 bags", "MILES", "", 0.0),
    Goal("1600 bags", "MILES", "s", 3.0),
    Goal("first call", "MI-SVM", "s", 3.0),
    Goal("first call", "PC-SVM", "s", 3.0),
    Goal("first call", "IAPR", "s", 3.0),
    Goal("first call", "Box kernel SVC", "s", 3.0),
]


def _lines(source, *args):
    """Run the rows with one checkout; compiled code of first calls is not kept."""
    with tempfile.TemporaryDirectory() as empty:
        own = {"PYTHONPATH": str(Path(source) / "src")}
        if args[0] == "first":
            own["NUMBA_CACHE_DIR"] = empty
        done = subprocess.run(
            [sys.executable, str(FOLDER / "_speed_rows.py"), *args],
            env=os.environ | own,
            capture_output=True,
            text=True,
            check=False,
            start_new_session=True,
        )
    if done.returncode:
        print(done.stderr[-2000:], file=sys.stderr, flush=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line[:1] == "{"]


def commands(n_folds):
    """Give the calls that measure all rows."""
    for data in ("musk1", "musk2", "elephant"):
        methods = [goal.method for goal in GOALS if goal.data == data]
        yield data, ",".join(methods), str(n_folds)
    for goal in GOALS:
        if goal.data == "first call":
            yield "first", goal.method
    sizes = [goal.data.split()[0] for goal in GOALS if goal.data.endswith(" bags")]
    yield "growth", "MILES", *sizes


def measure(before, n_folds):
    """Give rows of (data, method) with the seconds before and now."""
    here = FOLDER.parent
    for args in commands(n_folds):
        with ThreadPoolExecutor(2) as both:
            found = list(both.map(lambda s, a=args: _lines(s, *a), (before, here)))
        earlier = {(row["data"], row["method"]): row["seconds"] for row in found[0]}
        for row in found[1]:
            key = row["data"], row["method"]
            yield {
                "data": row["data"],
                "method": row["method"],
                "before": earlier.get(key, ""),
                "now": row["seconds"],
                "kernels": row["seconds"] / row["kernel"] if "kernel" in row else "",
            }


def verdict(goal, row, n_folds):
    """Say what was wanted, and whether it is met: yes, no, or where to look."""
    if not goal.unit:
        return "-", "-"
    if goal.unit == "s":
        share = n_folds / 10 if row["kernels"] else 1.0  # of the folds, for sets
        most = share * goal.most
        return f"{most:.2g} s", "yes" if row["now"] <= most else "no"
    if goal.unit == "kernels":
        met = "yes" if row["kernels"] <= goal.most else "no"
        return f"{goal.most:g} times `rbf_kernel`", met
    if goal.unit == "before":
        met = row["before"] and row["now"] <= goal.most * row["before"]
        return f"{1 / goal.most:g} times faster than before", "yes" if met else "no"
    return f"{1 / goal.most:g} times faster than {goal.unit}", "see above"


def section(rows, before, n_folds):
    """Return the table as lines of text."""
    by = {(row["data"], row["method"]): row for row in rows}
    lines = [
        "",
        "## What was wanted",
        "",
        f"CPU seconds of fit and predict of {n_folds} of ten folds (cut at zero), of",
        "one fit of drawn bags, or of the first call of a fresh install less the",
        f"second, all of which is compiling. Before: {before}; both in one run.",
        "Faster: before over now. Kernels: now over the seconds of `rbf_kernel` on the",
        "training instances of the same folds. The ratio to another package stands in",
        "the first table; it is not measured where the package is not installed.",
        "",
        "| data | method | before, s | now, s | faster | kernels | wanted | met |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for goal in GOALS:
        row = by.get((goal.data, goal.method))
        if row is None:
            lines.append(f"| {goal.data} | {goal.method} | | failed | | | | no |")
            continue
        cells = [goal.data, goal.method]
        cells.append(f"{row['before']:.3g}" if row["before"] else "-")
        cells.append(f"{row['now']:.3g}")
        cells.append(f"{row['before'] / row['now']:.2g}" if row["before"] else "-")
        cells.append(f"{row['kernels']:.3g}" if row["kernels"] else "-")
        lines.append(f"| {' | '.join([*cells, *verdict(goal, row, n_folds)])} |")
    return lines
