"""What the speed of methods was meant to be, what it was, and what it is.

`peers.py --before CHECKOUT` measures all rows with the sources of that checkout and
with the present ones, at the same time, each in a process of its own: what else the
machine does disturbs both alike.
"""

import contextlib
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).resolve().parent


class Goal(NamedTuple):
    """A row: what is measured, and the most that it may be.

    `unit` is "s" (CPU seconds, of ten folds or of one call), "kernels" (times
    `rbf_kernel` of the training instances of the same folds, or of all for a Gram
    matrix), "before" (share of the seconds of the older checkout), "exponent" (of the
    seconds between the two numbers of bags), "MB", or the name of a package that it is
    compared with.
    """

    data: str
    method: str
    unit: str
    most: float


GRAM = "Box kernel Gram"
SIMILARITIES = "MILES' similarities"
SIZES = ("400", "1600")

# Validation may take a millisecond of a fit: half of what the two simple methods took.
GOALS = [
    Goal("musk1", "MI-SVM", "misvm", 1 / 10),
    Goal("musk1", "mi-SVM", "misvm", 1 / 10),
    Goal("musk1", "mi-SVM", "kernels", 2.0),
    Goal("musk1", "sbMIL", "misvm", 1 / 8),
    Goal("musk1", "MILES", "mil", 1 / 8),
    Goal("musk1", "MIBoosting", "WEKA", 1 / 10),
    Goal("musk1", "DD", "MILpy", 1 / 10),
    Goal("musk1", "Statistics kernel", "misvm", 1 / 2),
    Goal("musk1", "SimpleMI", "MILpy", 1 / 2),
    Goal("musk1", "SimpleMI", "scikit-learn", 2.0),
    Goal("musk1", "Statistics kernel", "before", 1 / 2),
    Goal("musk1", "SimpleMI", "before", 1 / 2),
    Goal("validation", "Statistics kernel", "s", 1e-3),
    Goal("validation", "SimpleMI", "s", 1e-3),
    Goal("musk2", "MI-SVM", "kernels", 1.7),
    Goal("musk2", "mi-SVM", "kernels", 1.7),
    Goal("musk2", "Box kernel Gram", "kernels", 5.0),
    Goal("elephant", "MI-SVM", "misvm", 1 / 10),
    Goal("elephant", "mi-SVM", "misvm", 1 / 10),
    Goal("elephant", "sbMIL", "misvm", 1 / 8),
    Goal("elephant", "MILES", "mil", 1 / 8),
    Goal("elephant", "MIBoosting", "WEKA", 1 / 10),
    Goal("elephant", "DD", "MILpy", 1 / 10),
    Goal("elephant", "PC-SVM", "s", 3.0),
    Goal("elephant", "MI-ODM", "s", 3.0),
    Goal("elephant", "Box kernel SVC", "s", 8.0),
    Goal("elephant", "EMD + SVC", "s", 2.0),
    Goal("elephant", "DD", "before", 1 / 5),
    Goal("elephant", "EM-DD", "before", 1 / 5),
    Goal("400 bags", "MILES", "", 0.0),
    Goal("1600 bags", "MILES", "s", 3.0),
    Goal("400 to 1600 bags", "MILES", "exponent", 1.6),
    Goal("400 bags", SIMILARITIES, "", 0.0),
    Goal("1600 bags", SIMILARITIES, "", 0.0),
    Goal("400 to 1600 bags", SIMILARITIES, "", 0.0),
    Goal("first call", "MI-SVM", "s", 3.0),
    Goal("first call", "PC-SVM", "s", 3.0),
    Goal("first call", "IAPR", "s", 3.0),
    Goal("first call", "Box kernel SVC", "s", 3.0),
    Goal("import", "bagwise", "s", 0.25),
    Goal("install", "bagwise", "MB", 700.0),
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
        methods = list(dict.fromkeys(g.method for g in GOALS if g.data == data))
        yield data, ",".join(m for m in methods if m != GRAM), str(n_folds)
        if GRAM in methods:
            yield "gram", data
    for goal in GOALS:
        if goal.data == "first call":
            yield "first", goal.method
    methods = [goal.method for goal in GOALS if goal.data == "validation"]
    yield "validation", ",".join(methods)
    yield "growth", f"MILES,{SIMILARITIES}", *SIZES
    yield ("import",)


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
    seen = {"data": "install", "method": "bagwise", "before": "", "kernels": ""}
    yield seen | {"now": megabytes("bagwise")}


def megabytes(package):
    """Size of the files of a package and of all that it needs, without extras."""
    todo, sizes = [package], {}
    while todo:
        name = todo.pop().lower().replace("_", "-")
        if name in sizes:
            continue
        sizes[name] = 0
        with contextlib.suppress(metadata.PackageNotFoundError):
            found = metadata.distribution(name)
            paths = [Path(found.locate_file(path)) for path in found.files or ()]
            sizes[name] = sum(path.stat().st_size for path in paths if path.exists())
            todo += [
                re.match(r"[\w.-]+", need).group()
                for need in found.requires or ()
                if ";" not in need
            ]
    return sum(sizes.values()) / 1e6


def exponents(rows):
    """Give the rows of the growth between the two numbers of bags."""
    few, many = (
        {row["method"]: row for row in rows if row["data"] == f"{n} bags"}
        for n in SIZES
    )
    steps = math.log(int(SIZES[1]) / int(SIZES[0]))
    for method in few.keys() & many.keys():
        row = {"data": f"{SIZES[0]} to {SIZES[1]} bags", "method": method}
        for key in ("before", "now"):
            first, last = few[method][key], many[method][key]
            row[key] = math.log(last / first) / steps if first and last else ""
        yield row | {"kernels": ""}


def verdict(goal, row, n_folds, ratios=None):
    """Say what was wanted, and whether it is met.

    `ratios` are those of the first table, by data, method and other.
    """
    if not goal.unit:
        return "-", "-"
    if goal.unit in ("exponent", "MB"):
        unit = "exponent " if goal.unit == "exponent" else ""
        wanted = f"{unit}{goal.most:g}{' MB' if goal.unit == 'MB' else ''}"
        return wanted, "yes" if row["now"] <= goal.most else "no"
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
    ratio = (ratios or {}).get((goal.data, goal.method, goal.unit))
    met = "not measured"
    if ratio is not None:
        met = f"{'yes' if ratio * goal.most >= 1.0 else 'no'}: {ratio:g}"
    if goal.most > 1.0:
        return f"{goal.most:g} times {goal.unit} at most", met
    return f"{1 / goal.most:g} times faster than {goal.unit}", met


def section(rows, before, n_folds, others=()):
    """Return the table as lines of text; `others` are the rows of the first table."""
    rows = [*rows, *exponents(rows)]
    by = {(row["data"], row["method"]): row for row in rows}
    ratios = {
        (row["data"], row["method"], row["other"]): float(row["ratio"])
        for row in others
        if row["ratio"]
    }
    lines = [
        "",
        "## What was wanted",
        "",
        f"CPU seconds of fit and predict of {n_folds} of ten folds (cut at zero), of",
        "the fastest of three fits of drawn bags, or of the first call of a fresh",
        "install less the second, all of which is compiling. Before:",
        f"{before}; both in one run.",
        "Faster: before over now. Kernels: now over the seconds of `rbf_kernel` on the",
        "training instances of the same folds, or on all of them for a Gram matrix (of",
        "the integer grid). The ratio to another package is that of the first table.",
        "Validation is what a fit spends on parameters, bags and labels. Installed are",
        "the files of the package and of all that it needs. MILES computes the",
        "similarities of all bags to all instances; the rest is its 1-norm machine,",
        "whose working sets grow with the prototypes that it selects.",
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
        cells += verdict(goal, row, n_folds, ratios)
        lines.append(f"| {' | '.join(cells)} |")
    return lines
