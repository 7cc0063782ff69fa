"""How often the optimum is at the end of a default grid.

Tuned methods of the catalog on benchmark sets. In each training fold all values of a
grid that is wider than the catalog's are scored by the inner folds, as in `compare`.
The choice of a narrower grid, and whether it is at an end, then follows without another
fit. A grid is wide enough if this is rare. The page shows the grid of the catalog and
the previous one, with the accuracy of their choices on the held-out bags, which no
choice uses. Where `compare` first tries candidates on a third of the bags, the same is
done here.

    python studies/scripts/grid_ends.py [--sets musk1,fox] [--methods "MI-Kernel,miFV"]

Scores are kept in a file, and the same command continues where it was stopped.
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np

from bagwise.base import bag_folds
from bagwise.comparison._search import (
    FEW,
    Search,
    central,
    ends_of,
    expand,
    resolved,
    score_candidates,
    shared_scores,
)
from bagwise.comparison.catalog._grids import times as widths
from bagwise.comparison.choose import find_method
from bagwise.comparison.description import build_estimator
from bagwise.comparison.tuning import Preparation
from bagwise.datasets import fetch

RESULTS = Path(__file__).parents[1] / "results"
SETS = "musk1,tiger,elephant,fox"
TEXT = "newsgroups_sci.med"
FOLDS = 3
# Slow or rarely used methods: two data sets, a few minutes of processor time each.
HEAVY = "MICA,sMIL,MissSVM,reg-SVM,MILEAGE,stMIL,sbMIL,Box kernel SVC,MIBoosting"
# Methods that support sparse text data in acceptable time.
ON_TEXT = (
    "SAFE,MILR,MI-Kernel,miGraph,EMD + SVC,MI-SVM,MI-SVM (linear),WrapperMI (logistic)"
)


def tens(low, high):
    """Return the powers of ten between two exponents."""
    return [10.0**k for k in range(low, high + 1)]


def fours(low, high, of="scale"):
    """Return widths at powers of four of a named one."""
    return widths(*(4.0**k for k in range(low, high + 1)), of=of)


KERNEL = {"C": tens(-1, 3), "gamma": fours(-3, 2)}
# Wider than the catalog by at least one step on each side without a natural limit.
WIDE = {
    "Mean + logistic": {"estimator__classify__C": tens(-6, 3)},
    "WrapperMI (logistic)": {"estimator__C": tens(-6, 5)},
    "SAFE": {"rho": [3.0 * size for size in tens(-3, 5)], "gamma": fours(-5, 3)},
    "MILR": {"C": tens(-2, 5)},
    "MIDR + MILR": {"embed__n_components": [0.3], "classify__C": tens(-1, 5)},
    "MI-Kernel": {"C": tens(-1, 7), "gamma": fours(-7, 2)},
    "miGraph": {"C": tens(-2, 5), "gamma": fours(-5, 3, of="median")},
    "Statistics kernel": {"C": tens(-3, 4)},
    "EMD + SVC": {"C": tens(-2, 4)},
    "miFV": {"embed__n_components": [1, 2, 4, 8, 16], "classify__C": tens(-3, 3)},
    "miVLAD": {"embed__n_clusters": [1, 2, 4, 8, 16], "classify__C": tens(-4, 3)},
    "Bag of words": {
        "embed__n_clusters": [5, 20, 100, 300],
        "classify__C": tens(-1, 4),
    },
    "MILES": {"C": tens(-2, 3), "gamma": fours(-4, 2, of="median")},
    "MILDE": {"n_clusters": [2, 5, 20, 50], "C": tens(-3, 2)},
    "Citation-kNN": {
        "n_references": [1, 2, 5, 10, 20, 40],
        "n_citers": [0, 2, 4, 7, 15, 30, 60],
    },
    "MILBoost": {"n_estimators": [1, 3, 10, 30, 100, 300, 1000]},
    "MI-SVM": KERNEL,
    "MI-SVM (linear)": {"C": tens(-5, 4)},
    "mi-SVM": KERNEL,
    "MICA": {"C": tens(-2, 7), "gamma": fours(-5, 2)},
    "sMIL": {"C": tens(0, 5), "gamma": fours(-2, 2)},
    "MissSVM": {"C": tens(-1, 7), "gamma": fours(-5, 2)},
    "reg-SVM": {
        "C": tens(-1, 4),
        "gamma": fours(-3, 2),
        "consistency": [0.01, 0.1, 1.0],
    },
    "MILEAGE": {"C": tens(-1, 6), "gamma": fours(-4, 2)},
    "KI-SVM": {"C": tens(-1, 5), "gamma": fours(-4, 2)},
    "stMIL": {"C": tens(0, 5), "gamma": fours(-2, 2)},
    "sbMIL": {"C": tens(-1, 3), "gamma": fours(-2, 3), "eta": [0.1, 0.3, 0.7, 1.0]},
    "Box kernel SVC": {"C": tens(-2, 5)},
    "PC-SVM": {"C": tens(-1, 3), "gamma": fours(-2, 2), "rho": [0.0, 0.3, 0.6, 0.9]},
    "MIBoosting": {"n_estimators": [1, 3, 10, 20, 30, 50, 100, 300, 1000]},
}
SVM_BEFORE = {"C": [1.0, 10.0], "gamma": fours(-1, 1)}
# The grids of the catalog at the time of the first measurement.
BEFORE = {
    "Mean + logistic": {"estimator__classify__C": tens(-3, 0)},
    "WrapperMI (logistic)": {"estimator__C": tens(-3, 1)},
    "SAFE": {"rho": [3.0, 30.0, 300.0], "gamma": fours(-1, 1)},
    "MILR": {"C": tens(-1, 3)},
    "MIDR + MILR": {"embed__n_components": [0.3], "classify__C": tens(0, 3)},
    "MI-Kernel": {"C": tens(0, 2), "gamma": fours(-2, 1)},
    "miGraph": {"C": tens(0, 2), "gamma": fours(-1, 1, of="median")},
    "Statistics kernel": {"C": tens(0, 2)},
    "EMD + SVC": {"C": tens(0, 2)},
    "miFV": {"embed__n_components": [1, 2, 4, 8], "classify__C": tens(-1, 1)},
    "miVLAD": {"embed__n_clusters": [1, 2, 4], "classify__C": tens(-1, 0)},
    "Bag of words": {"embed__n_clusters": [20, 100], "classify__C": tens(0, 1)},
    "MILES": {"C": tens(0, 1), "gamma": fours(-1, 1, of="median")},
    "Citation-kNN": {"n_references": [2, 5], "n_citers": [4, 7]},
    "MILBoost": {"n_estimators": [30, 100]},
    "MI-SVM": SVM_BEFORE,
    "MI-SVM (linear)": {"C": tens(-2, 0)},
    "mi-SVM": SVM_BEFORE,
    "MICA": SVM_BEFORE,
    "sMIL": {"C": tens(2, 4), "gamma": fours(-1, 0)},
    "MissSVM": SVM_BEFORE,
    "reg-SVM": {**SVM_BEFORE, "consistency": [1.0]},
    "MILEAGE": SVM_BEFORE,
    "KI-SVM": {"C": tens(0, 2), "gamma": fours(-1, 0)},
    "stMIL": {"C": tens(2, 4), "gamma": fours(-1, 0)},
    "sbMIL": {"C": [10.0], "gamma": fours(-1, 0), "eta": [0.1, 0.3, 0.7]},
    "Box kernel SVC": {"C": tens(0, 3)},
    "PC-SVM": {"C": tens(0, 1), "gamma": fours(-1, 0), "rho": [0.0, 0.3]},
    "MIBoosting": {"n_estimators": [20, 50]},
}
# Ends with another kind of limit: beyond it, results are equal or too expensive.
LIMITS = {
    ("gamma", "lower"): "flatter is the linear kernel",
    ("eta", "upper"): "no share is above one",
    ("consistency", "lower"): "less is a kernel of sets",
    ("n_estimators", "upper"): "more rounds cost in proportion",
    ("n_components", "upper"): "more components cost in proportion",
    ("n_clusters", "upper"): "more clusters cost in proportion",
}


def one_fold(name, X, y, train, seed):
    """Return the inner scores of all wide candidates, and what they cost."""
    method = find_method(name)
    started = time.process_time()
    _, first = Preparation(method.scale).fit(X[train])
    model = build_estimator(method.spec(), seed)
    params = [resolved(one, first, seed) for one in expand(WIDE[name])]
    splits = bag_folds(first, y[train], 3, seed)
    scores = score_candidates(model, params, first, y[train], splits, "accuracy")
    return {"scores": scores.tolist(), "seconds": time.process_time() - started}


def left_over(name, X, y, train, seed):
    """Return the candidates of the catalogue's grid that a first round keeps.

    None where all of them see all bags: they are few, or share their work.
    """
    method = find_method(name)
    candidates = expand(method.grid)
    if len(candidates) <= FEW:
        return None
    _, first = Preparation(method.scale).fit(X[train])
    model = build_estimator(method.spec(), seed)
    splits = bag_folds(first, y[train], 3, seed)
    one = [resolved(candidates[0], first, seed)]
    if shared_scores(model, one, first, y[train], splits, "accuracy") is not None:
        return None
    search = Search(model, first, y[train], y[train], splits, "accuracy", seed)
    return [json.dumps(one.values) for one in search.screened(candidates)]


def held_out(name, values, X, y, train, test, seed):
    """Return the accuracy on the test bags of one setting of a method."""
    method = find_method(name)
    steps, first = Preparation(method.scale).fit(X[train])
    second = X[test]
    for _, step in steps:
        if not isinstance(step, str):
            second = step.transform(second)
    candidate = expand({key: [value] for key, value in values.items()})[0]
    model = build_estimator(method.spec(), seed)
    model.set_params(**resolved(candidate, first, seed)).fit(first, y[train])
    return float(np.mean(model.predict(second) == y[test]))


def choice(name, grid, scores, kept=None):
    """Return what a grid inside the wide one chooses, or None where it is outside.

    `kept` are the candidates that are left of it.
    """
    wide = [json.dumps(one.values, sort_keys=True) for one in expand(WIDE[name])]
    inside = expand(grid)
    if kept is not None:
        inside = [one for one in inside if json.dumps(one.values) in kept]
    places = [json.dumps(one.values, sort_keys=True) for one in inside]
    if not set(places) <= set(wide):
        return None
    own = np.array([scores[wide.index(place)] for place in places], dtype=float)
    return inside[central(inside, own)]


def run(names, sets, path):
    """Return a row for each method, set and fold; those in the file are not made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    rows = [row for row in map(json.loads, lines) if is_current(row)]
    known = {(row["method"], row["set"], row["fold"]): row for row in rows}
    for name in names:
        few = sets[:2] if name in HEAVY.split(",") else sets
        for dataset in [*few, TEXT] if name in ON_TEXT.split(",") else few:
            data = fetch(dataset)
            folds = bag_folds(data.X, data.y, FOLDS, random_state=0)
            for fold, (train, test) in enumerate(folds):
                row = known.get((name, dataset, fold))
                if row is None:
                    row = {"method": name, "set": dataset, "fold": fold, "tried": {}}
                    row["wide"] = short(WIDE[name])
                    row |= one_fold(name, data.X, data.y, train, fold)
                    known[name, dataset, fold] = row
                new, grid = False, find_method(name).grid
                if row.get("grid") != short(grid):
                    row["kept"] = left_over(name, data.X, data.y, train, fold)
                    row["grid"], new = short(grid), True
                asked = [(BEFORE[name], None), (grid, None), (grid, row["kept"])]
                for values, kept in asked:
                    best = choice(name, values, row["scores"], kept)
                    key = None if best is None else json.dumps(best.values)
                    if key is not None and key not in row["tried"]:
                        found = (data.X, data.y, train, test, fold)
                        row["tried"][key] = held_out(name, best.values, *found)
                        new = True
                if new:
                    with path.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(row) + "\n")
        done = [row for row in known.values() if row["method"] == name]
        print(name, *summary(name, find_method(name).grid, done), flush=True)
    return list(known.values())


def is_current(row):
    """Return whether the scores of a row are those of the wide grid as it is now."""
    grid = WIDE.get(row["method"])
    if grid is None:
        return False
    if "wide" in row:
        return row["wide"] == short(grid)
    return len(row["scores"]) == len(expand(grid))


def summary(name, grid, rows):
    """Return the ends of a grid in words, the accuracy, and candidates."""
    counts, accuracy = {}, []
    for row in rows:
        best = choice(name, grid, row["scores"])
        if best is None:
            return "outside what was tried", "", len(expand(grid))
        accuracy.append(row["tried"].get(json.dumps(best.values), np.nan))
        for parameter, end in ends_of(best).items():
            counts[parameter, end] = counts.get((parameter, end), 0) + 1
    parts = []
    for (parameter, end), n in sorted(counts.items()):
        short_name = parameter.rpartition("__")[2]
        limit = LIMITS.get((short_name, end))
        text = f"{short_name} {end} {n / len(rows):.0%}"
        parts.append(text + (f" ({limit})" if limit else ""))
    error = np.std(accuracy, ddof=1) / np.sqrt(len(accuracy))
    figure = f"{100 * np.mean(accuracy):.1f} ± {100 * error:.1f}"
    return "; ".join(parts) or "never", figure, len(expand(grid))


def worth(name, rows):
    """Return the difference of accuracy to the grid before, over the same folds."""
    change = []
    for row in rows:
        pair = [
            row["tried"].get(json.dumps(choice(name, grid, row["scores"]).values))
            for grid in (find_method(name).grid, BEFORE[name])
        ]
        if None not in pair:
            change.append(100 * (pair[0] - pair[1]))
    if len(change) < 2:
        return "-"
    error = np.std(change, ddof=1) / np.sqrt(len(change))
    return f"{np.mean(change):+.1f} ± {error:.1f}"


def screening(name, rows):
    """Return what a first round on a third of the bags costs, over the same folds."""
    grid, change, same = find_method(name).grid, [], []
    for row in rows:
        if row.get("kept") is None or row["grid"] != short(grid):
            continue
        pair = [
            json.dumps(choice(name, grid, row["scores"], kept).values)
            for kept in (row["kept"], None)
        ]
        same.append(pair[0] == pair[1])
        change.append(100 * (row["tried"][pair[0]] - row["tried"][pair[1]]))
    if len(change) < 2:
        return "-"
    error = np.std(change, ddof=1) / np.sqrt(len(change))
    return f"{np.mean(change):+.1f} ± {error:.1f} (same in {np.mean(same):.0%})"


def short(grid):
    """Return a grid in a few words."""
    parts = []
    for name, values in grid.items():
        sizes = [v["times"] if isinstance(v, dict) else v for v in values]
        unit = values[0]["gamma"] if isinstance(values[0], dict) else ""
        text = ", ".join(f"{size:g}" for size in sizes)
        parts.append(f"{name.rpartition('__')[2]} {text}" + (f" x {unit}" * bool(unit)))
    return "; ".join(parts)


def page(names, rows):
    """Return the page: a table with a row for each method."""
    text = __doc__.splitlines()
    out = ["# " + text[0].rstrip("."), "", *text[2:9], ""]
    sets = list(dict.fromkeys(row["set"] for row in rows))
    out += [
        f"Sets: {', '.join(sets)};",
        "slow methods on musk1 and tiger alone, some on the text as well.",
        f"{FOLDS} outer and 3 inner folds, inner score: accuracy. All candidates see",
        "all bags here, but for the last column: `compare` tries candidates that share",
        "no work on a third of the bags first, and only the best third of them on all;",
        "how often the same setting was chosen, and what this changes on the held-out",
        "bags. Of settings that score the same, the one farthest from the ends is",
        "chosen. An end beyond which no value exists (one cluster, one neighbor, no",
        "neighbor, rho of zero) is not counted. Percentages are of folds; the accuracy",
        "is the mean over folds, sets mixed, with the standard error of that mean, and",
        "the last two columns are mean differences over the same folds with their",
        "standard errors. These ignore that folds share training bags: the figures of",
        "folds are stored, not the predictions of bags that",
        "`bagwise.comparison.difference` needs.",
        "",
        "| method | folds | grid | candidates | at an end | accuracy |"
        " candidates before | at an end before | effect of the wider grid |"
        " effect of the first round |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name in names:
        own = [row for row in rows if row["method"] == name]
        if not own:
            continue
        grid = find_method(name).grid
        ends, figure, n = summary(name, grid, own)
        old_ends, _, old_n = summary(name, BEFORE[name], own)
        cells = [name, len(own), short(grid), n, ends, figure]
        cells += [old_n, old_ends, worth(name, own), screening(name, own)]
        out.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    spent = sum(row["seconds"] for row in rows) / 60.0
    absent = [name for name in names if all(row["method"] != name for row in rows)]
    if absent:
        out += ["", f"Not measured: {', '.join(absent)}."]
    out += ["", f"All wide grids together took {spent:.0f} processor minutes.", ""]
    out.append("Made by `python studies/scripts/grid_ends.py`.")
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default=SETS, help="separated by commas")
    parser.add_argument("--methods", default="", help="separated by commas; all else")
    parser.add_argument("--out", default=RESULTS / "grids")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    names = [name.strip() for name in asked.methods.split(",") if name.strip()]
    out = Path(asked.out)
    rows = run(names or list(WIDE), asked.sets.split(","), out / "scores.jsonl")
    lines = page(list(WIDE), rows)
    (out / "README.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
