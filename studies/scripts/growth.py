"""Growth of time and memory of every method with bags, instances and features.

One axis at a time is doubled from small simulated bags until a fit takes longer than
the limit (three sizes at least, and no more for methods that fit many models); the
slope of log seconds against log size over the last three sizes is the exponent. Memory
is what numpy and Python had allocated at most, from two further fits (buffers inside
compiled loops do not count). What the docstring of a class promises, its O(...) terms,
is read as a power of the same axis and compared.

    python studies/scripts/growth.py [--methods MILES,SAFE] [--limit 1] [--out FOLDER]

Writes growth.csv, a row as soon as it is measured, and README.md, the page of it. With
`--keep` rows that are there already are not re-run, which goes on where a run
was stopped; with `--methods` only the rows of these methods are.
"""

import argparse
import csv
import inspect
import platform
import re
import sys
import time
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

import bagwise
from bagwise.bags import Bags, segments
from bagwise.base.survival import survival_target
from bagwise.comparison import list_methods
from bagwise.comparison.description import build_estimator
from bagwise.comparison.run_one import Limits, RunTimeLimit

RESULTS = Path(__file__).parents[1] / "results"
AXES = {"bags": 0, "instances": 1, "features": 2}
BASE = (40, 5, 10)  # bags, instances per bag, features
DOUBLINGS = 8
MEMORY = 2 * 10**9
WALL = 60  # limit for a fit in seconds of wall-clock time
LONG = {"ensemble": 600, "network": 300}  # the same for methods that fit many models
TWICE = 5.0  # slower fits are measured once, and without memory
COLUMNS = [
    "method",
    "axis",
    "exponent",
    "memory_exponent",
    "claimed",
    "within",
    "smallest",
    "largest",
    "seconds",
    "megabytes",
    "note",
]
SLACK = 0.35  # a measured exponent may exceed the documented one by this


def drawn(n_bags, n_instances, n_features, task):
    """Draw scaled bags: instances of positive bags are shifted a little, one more."""
    rng = np.random.default_rng(0)
    y = np.arange(n_bags) % 2
    data = rng.standard_normal((n_bags * n_instances, n_features))
    data[:, 0] += 0.5 * np.repeat(y, n_instances)
    data[::n_instances, : min(3, n_features)] += 2.0 * y[:, None]
    offsets = np.arange(0, len(data) + 1, n_instances)
    X = Bags(StandardScaler().fit_transform(data), offsets)
    if task == "classification":
        return X, y
    value = y + 0.5 * rng.standard_normal(n_bags)
    if task == "regression":
        return X, value
    return X, survival_target(rng.random(n_bags) < 0.7, np.exp(value))


def load_reductions():
    """Load the compiled sums of long columns; small bags do without them."""
    long, ends = np.zeros(100_000), np.array([0, 5, 100_000])
    for reduce in (segments.segment_sum, segments.segment_max, segments.segment_min):
        reduce(long, ends)


def model_of(method):
    """Build the estimator of an entry, with a fixed seed where it takes one."""
    model = build_estimator(method.spec())
    seeds = [name for name in model.get_params() if name.endswith("random_state")]
    return model.set_params(**dict.fromkeys(seeds, 0))


def seconds_of(method, size, limit):
    """Fit once; CPU seconds, or None where it took too long, or the refusal."""
    X, y = drawn(*size, method.task)
    model = model_of(method)
    start = time.process_time()
    try:
        with Limits(LONG.get(method.kind, WALL), MEMORY).hold():
            model.fit(X, y)
    except RunTimeLimit:
        return None
    return time.process_time() - start


def bytes_of(method, size, limit):
    """Fit once more under tracemalloc; the highest mark."""
    X, y = drawn(*size, method.task)
    model = model_of(method)
    tracemalloc.start()
    try:
        with Limits(LONG.get(method.kind, WALL), MEMORY).hold():
            model.fit(X, y)
        return tracemalloc.get_traced_memory()[1]
    except (RunTimeLimit, MemoryError):
        return None
    finally:
        tracemalloc.stop()


def slope(sizes, values):
    """Exponent of a power law through the points."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def measure(method, axis, limit):
    """Return a row of the table."""
    where = AXES[axis]
    sizes, seconds, note = [], [], ""
    for step in range(DOUBLINGS + 1):
        size = list(BASE)
        size[where] *= 2**step
        try:
            spent = seconds_of(method, size, limit)
            # The first fit may compile a loop, so short fits are measured twice.
            if spent is not None and spent <= TWICE:
                again = seconds_of(method, size, limit)
                spent = spent if again is None else min(spent, again)
        except Exception as error:
            note = f"{type(error).__name__}: {error}".splitlines()[0][:120]
            break
        if spent is None:
            note = f"stopped after {LONG.get(method.kind, WALL)} s at {size[where]}"
            break
        sizes.append(size[where])
        seconds.append(max(spent, 1e-6))
        if len(sizes) > 2 and (spent > limit or method.kind in LONG):
            break
    row = {"method": method.name, "axis": axis, "note": note}
    if len(sizes) < 3:
        return row
    row["exponent"] = round(slope(sizes[-3:], seconds[-3:]), 2)
    row["smallest"], row["largest"] = sizes[0], sizes[-1]
    row["seconds"] = f"{seconds[-1]:.3g}"
    marks, at = [], sizes[-3:-1]
    for value in at if seconds[-2] <= TWICE else ():
        size = list(BASE)
        size[where] = value
        marks.append(bytes_of(method, size, limit))
    if marks and all(marks):
        row["memory_exponent"] = round(slope(at, marks), 2)
        row["megabytes"] = f"{marks[-1] / 1e6:.3g}"
    return row | checked(method, row)


def checked(method, row):
    """Return what the docstring promises on the axis of a row, and whether it holds."""
    claim = claimed(method, row["axis"])
    if claim is None or row.get("exponent") in (None, ""):
        return {"claimed": "", "within": ""}
    within = float(row["exponent"]) <= claim + SLACK
    return {"claimed": f"{claim:g}", "within": "yes" if within else "no"}


SYMBOLS = {
    "bags": ("bag", "instance", "row", "positive", "candidate", "prototype"),
    "instances": (
        "instance",
        "row",
        "positive_i",
        "bag_size",
        "candidate",
        "prototype",
    ),
    "features": ("feature",),
}


def claimed(method, axis):
    """Highest power of the axis in the O(...) terms of the docstring, or None."""
    model = model_of(method)
    steps = list(model) if isinstance(model, Pipeline) else [model]
    if axis == "bags" and not type(steps[-1]).__module__.startswith("bagwise"):
        return None  # the estimator after an embedding gives no guarantee
    text = " ".join(" ".join(inspect.getdoc(type(s)) or "" for s in steps).split())
    terms = [match[1] for match in re.finditer(r"O\(((?:[^()]|\([^()]*\))*)\)", text)]
    # ``n_bags ** 2`` without the O counts as well.
    terms += [match[1] for match in re.finditer(r"``([^`(]*\*\*[^`(]*)``", text)]
    if not terms:
        return None
    return max(degree(term, SYMBOLS[axis]) for term in terms) or None


def degree(term, names):
    """Power of the axis in a term such as ``n_bags**2 * n_features + n_instances``."""
    best = 0.0
    for product in term.replace("**", "^").split("+"):
        power = 0.0
        for factor in product.split("*"):
            if any(name in factor for name in names):
                times = re.search(r"\^\s*(\d+(?:\.\d+)?)", factor)
                power += float(times[1]) if times else 1.0
        best = max(best, power)
    return best


def write(rows, path):
    """Write the file of all rows."""
    with path.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def page(rows, folder):
    """Write the table of the exponents, one line for each method."""
    methods = list(dict.fromkeys(row["method"] for row in rows))
    by = {(row["method"], row["axis"]): row for row in rows}
    lines = [
        "# Growth of the cost with the data",
        "",
        "Made by `python studies/scripts/growth.py` from `growth.csv`; nothing is",
        "edited by hand. Each axis is doubled (from 40 bags of 5 instances with 10",
        "features) until a fit takes longer than the limit; ensembles of all methods",
        "and networks are fitted at three sizes. The table shows the exponent of the",
        "CPU seconds of one fit, with the settings of the catalog, over the last",
        "three sizes, and in brackets that of the memory (not of fits that take longer",
        "than five seconds). Fixed costs dominate small sizes: the exponent for very",
        "large data can be larger. A star: above the docstring.",
        "",
        f"bagwise {bagwise.__version__}, Python {platform.python_version()}, "
        f"{platform.machine()}, one thread.",
        "",
        "| method | bags | instances in a bag | features | largest fits, s |",
        "|---|---|---|---|---|",
    ]
    for name in methods:
        cells, largest = [], []
        for axis in AXES:
            row = by.get((name, axis), {})
            if not row.get("exponent"):
                cells.append(row.get("note") or "-")
                continue
            star = "*" if row.get("within") == "no" else ""
            cells.append(
                f"{row['exponent']}{star} ({row.get('memory_exponent') or '-'})"
            )
            largest.append(f"{row['seconds']} ({row['largest']})")
        lines.append(f"| {name} | {' | '.join(cells)} | {', '.join(largest)} |")
    (folder / "README.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", default="", help="names, by commas; all")
    parser.add_argument("--limit", type=float, default=1.0, help="seconds of a fit")
    parser.add_argument("--out", default=RESULTS / "growth")
    parser.add_argument("--keep", action="store_true", help="go on with what is there")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    folder = Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "growth.csv"
    wanted = [name for name in options.methods.split(",") if name]
    rows = []
    if path.exists() and (options.keep or wanted):
        with path.open(encoding="utf-8", newline="") as handle:
            rows = list(csv.DictReader(handle))
    # Docstrings may have changed since the rows were written.
    known = {method.name: method for method in list_methods()}
    rows = [row for row in rows if row["method"] in known]
    for row in rows:
        row.update(checked(known[row["method"]], row))
    if wanted and not options.keep:
        rows = [row for row in rows if row["method"] not in wanted]
    there = {(row["method"], row["axis"]) for row in rows}
    load_reductions()
    # Ensembles, which fit the other methods, come last.
    for method in sorted(list_methods(), key=lambda method: method.kind == "ensemble"):
        axes = [axis for axis in AXES if (method.name, axis) not in there]
        if not axes or (wanted and method.name not in wanted):
            continue
        try:
            if method.kind != "ensemble":  # ensembles fit many other models first
                seconds_of(method, BASE, 10.0)  # compiles
        except Exception as error:
            print(f"{method.name}: {error}", file=sys.stderr)
        for axis in axes:
            row = measure(method, axis, options.limit)
            rows.append({column: row.get(column, "") for column in COLUMNS})
            print(rows[-1], flush=True)
            write(rows, path)
    order = {name: k for k, name in enumerate(known)}
    rows.sort(key=lambda row: (order[row["method"]], AXES[row["axis"]]))
    write(rows, path)
    page(rows, folder)


if __name__ == "__main__":
    main()
