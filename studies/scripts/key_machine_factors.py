"""The effect of the choices that the papers of MI-ODM and KI-SVM leave open.

One factor at a time differs from a base setting. Cross-validation is nested: five outer
folds, the same for all; the width is chosen by the AUROC of three inner folds, and
thresholds use training bags only. The page shows the accuracy with the base threshold
and its difference from the base over the same folds, the AUROC, and the accuracy with
the width that is best on the reported folds ("optimistic"), which may be how published
figures were chosen. Standard errors are those over folds. They ignore that folds share
training bags: the figures of folds are stored, not the predictions of bags that
`bagwise.comparison.difference` needs.

The last rows check the claim of the paper that MI-ODM with theta = nu = 0 is KI-SVM, on
the same folds: the largest difference of decision values between MI-ODM and KI-SVM with
the row weights made equal.

    python studies/scripts/key_machine_factors.py [--out FOLDER]

`--quick`: one set, one repeat; `--stored`: the page from the runs there are. Runs are
kept in a file and continue where they stopped.
"""

import argparse
import itertools
import json
import warnings
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from bagwise.base import bag_folds
from bagwise.compose import OnInstances
from bagwise.datasets import fetch
from bagwise.kernels.instance import resolve_gamma
from bagwise.svm import KISVM, MIODM

RESULTS = Path(__file__).parents[1] / "results"
MACHINES = {
    "Bag-KI-SVM": (KISVM(level="bag"), ("musk1", "tiger", "elephant"), 2),
    "MI-ODM, bag level": (MIODM(level="bag"), ("musk1", "tiger", "elephant"), 2),
    "MI-ODM": (MIODM(level="instance"), ("musk1", "tiger", "elephant"), 1),
    "Ins-KI-SVM": (KISVM(level="instance"), ("musk1", "tiger", "elephant"), 1),
}
PUBLISHED = {
    "MI-ODM": {"musk1": 88.2, "elephant": 84.5, "tiger": 85.2},
    "Bag-KI-SVM": {"musk1": 88.0, "elephant": 84.5, "tiger": 85.0},
    "Ins-KI-SVM": {"musk1": 84.0, "elephant": 83.5, "tiger": 82.9},
}
PUBLISHED["MI-ODM, bag level"] = PUBLISHED["MI-ODM"]
WIDTHS = (0.25, 1.0)
# Name of a setting: scaling, widths, and parameters of the model.
BASE = {"scale": "standard", "widths": WIDTHS, "threshold": "cv"}
FACTORS = {
    "base: z-scored, out-of-fold cut": {},
    "threshold: zero": {"threshold": "zero"},
    "threshold: training scores": {"threshold": "train"},
    "scaling: to [0, 1]": {"scale": "minmax"},
    "scaling: none": {"scale": "none"},
    "widths: five, 1/16 to 16": {"widths": (0.0625, 0.25, 1.0, 4.0, 16.0)},
    "no intercept": {"fit_intercept": False},
    "rounded to one choice (polish)": {"polish": True},
    "tighter gap (1e-3)": {"tol": 1e-3, "max_iter": 150},
    "another start (seed 1)": {"random_state": 1},
}
OWN = {
    "MI-ODM": {
        "positive loss ten times smaller": {"lambda1": 100.0},
        "negative loss ten times larger": {"lambda2": 1000.0},
        "negative loss ten times smaller": {"lambda2": 10.0},
        "wide zone: theta 0.6": {"theta": 0.6},
        "theta 0, nu 0": {"theta": 0.0, "nu": 0.0},
        "nu 1": {"nu": 1.0},
    },
    "Bag-KI-SVM": {"C 1": {"C": 1.0}, "C 100": {"C": 100.0}},
}
OWN["MI-ODM, bag level"] = OWN["MI-ODM"]
OWN["Ins-KI-SVM"] = OWN["Bag-KI-SVM"]
EQUAL = ("musk1", "tiger")
SCALERS = {"standard": StandardScaler, "minmax": MinMaxScaler}


def auroc_inside(machine, X, y, gammas):
    """Return the mean AUROC of every width over three inner folds."""
    scores = np.zeros(len(gammas))
    for train, test in bag_folds(X, y, 3, random_state=0):
        for k, gamma in enumerate(gammas):
            machine.set_params(gamma=gamma, threshold="zero").fit(X[train], y[train])
            scores[k] += roc_auc_score(y[test], machine.decision_function(X[test]))
    return scores


def one_fold(machine, setting, X, y, train, test):
    """Return accuracy, AUROC, and the accuracy of every width on the test bags."""
    setting = {**BASE, **setting}
    scale, widths, cut = (setting.pop(key) for key in ("scale", "widths", "threshold"))
    machine = clone(machine).set_params(**{"random_state": 0, **setting})
    first, second = X[train], X[test]
    if scale in SCALERS:
        scaler = OnInstances(SCALERS[scale]()).fit(first)
        first, second = scaler.transform(first), scaler.transform(second)
    base = resolve_gamma("scale", first.data)
    gammas = [base * factor for factor in widths]
    chosen = int(np.argmax(auroc_inside(machine, first, y[train], gammas)))
    of_width, auroc = [], 0.0
    for k, gamma in enumerate(gammas):
        machine.set_params(gamma=gamma, threshold=cut).fit(first, y[train])
        of_width.append(float(np.mean(machine.predict(second) == y[test])))
        if k == chosen:
            auroc = roc_auc_score(y[test], machine.decision_function(second))
    return {"accuracy": of_width[chosen], "auroc": float(auroc), "of_width": of_width}


def equal_machines(name, repeats):
    """Return the largest difference of decision values, relative to their spread."""
    data = fetch(name)
    worst = 0.0
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    for train, test in list(folds.split(data.y, data.y))[:repeats]:
        X, y = data.X[train], data.y[train]
        scaler = OnInstances().fit(X)
        X, held_out = scaler.transform(X), scaler.transform(data.X[test])
        p, q = int(y.sum()), int((1 - y).sum())
        options = {"level": "bag", "threshold": "zero", "random_state": 0, "tol": 1e-4}
        options["max_iter"] = 200
        # KI-SVM weights all rows by C / 2; MI-ODM by lambda / (bags of the class).
        ours = MIODM(5.0 * p, 5.0 * q, theta=0.0, nu=0.0, **options).fit(X, y)
        other = KISVM(10.0, **options).fit(X, y)
        a, b = ours.decision_function(held_out), other.decision_function(held_out)
        worst = max(worst, float(np.abs(a - b).max() / np.std(b)))
    return worst


def run(path, quick):
    """Return all rows, computing those that the file does not hold yet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    rows = [json.loads(line) for line in lines]
    done = {(row["machine"], row["factor"], row["set"], row["repeat"]) for row in rows}
    most = max(repeats for _, _, repeats in MACHINES.values())
    plan = itertools.product(range(1 if quick else most), MACHINES.items())
    for repeat, (name, (machine, sets, repeats)) in plan:
        if repeat >= repeats:
            continue
        for dataset in sets[:1] if quick else sets:
            data = fetch(dataset)
            for factor, setting in {**FACTORS, **OWN[name]}.items():
                if (name, factor, dataset, repeat) in done:
                    continue
                folds = StratifiedKFold(5, shuffle=True, random_state=repeat)
                found = [
                    one_fold(machine, setting, data.X, data.y, train, test)
                    for train, test in folds.split(data.y, data.y)
                ]
                row = {"machine": name, "factor": factor, "set": dataset}
                row |= {"repeat": repeat, "folds": found}
                rows.append(row)
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
    return rows


def page(rows):
    """Return the page: one table for each machine."""
    text = __doc__.splitlines()
    stop = next(k for k, line in enumerate(text) if line.startswith("    python"))
    out = ["# " + text[0].rstrip("."), "", *text[2:stop]]
    for name in MACHINES:
        own = [row for row in rows if row["machine"] == name]
        sets = [s for s in MACHINES[name][1] if any(row["set"] == s for row in own)]
        if not own:
            continue
        out += [f"## {name}", "", "Accuracy in percent (difference from the base ± its"]
        out += ["standard error over folds) / AUROC / optimistic accuracy.", ""]
        titles = [f"{s} (paper {PUBLISHED[name][s]})" for s in sets]
        titles.append("difference over all sets")
        out += ["| | " + " | ".join(titles) + " |", "|---" * (len(titles) + 1) + "|"]
        telling = []
        for factor in {**FACTORS, **OWN[name]}:
            cells = [_cell(own, factor, dataset) for dataset in sets]
            change = np.concatenate([_change(own, factor, s) for s in sets])
            cells.append("-" if not len(change) else _difference(change))
            if len(change) and abs(change.mean()) > 2 * _error(change):
                telling.append(
                    f"{factor} ({change.mean():+.1f} ± {_error(change):.1f})"
                )
            out.append(f"| {factor} | " + " | ".join(cells) + " |")
        found = "; ".join(telling) or "none"
        out += ["", f"Differences above two standard errors: {found}.", ""]
    return out + _levels(rows)


def _levels(rows):
    """Return the lines on the level: the same base with other negative units."""
    out = ["## Means of negative bags instead of their instances", ""]
    base = next(iter(FACTORS))
    for bag, instance in (
        ("MI-ODM, bag level", "MI-ODM"),
        ("Bag-KI-SVM", "Ins-KI-SVM"),
    ):
        parts = {
            name: [row for row in rows if row["machine"] == name]
            for name in (bag, instance)
        }
        for dataset in MACHINES[instance][1]:
            one, two = (_folds(parts[name], base, dataset) for name in (bag, instance))
            pairs = [
                p for k in one if k in two for p in zip(one[k], two[k], strict=True)
            ]
            change = [100 * (a["accuracy"] - b["accuracy"]) for a, b in pairs]
            if change:
                found = _difference(np.array(change))
                out.append(f"- {bag} less {instance}, base, {dataset}: {found}.")
    return [*out, ""]


def _folds(rows, factor, dataset):
    """Return the folds of a cell by repeat."""
    chosen = [r for r in rows if r["factor"] == factor and r["set"] == dataset]
    return {row["repeat"]: row["folds"] for row in chosen}


def _change(rows, factor, dataset):
    """Return the differences of accuracy to the base, fold by fold."""
    own = _folds(rows, factor, dataset)
    base = _folds(rows, next(iter(FACTORS)), dataset)
    both = [k for k in own if k in base] if factor != next(iter(FACTORS)) else []
    pairs = [pair for k in both for pair in zip(own[k], base[k], strict=True)]
    return 100 * np.array([one["accuracy"] - two["accuracy"] for one, two in pairs])


def _error(change):
    return change.std(ddof=1) / np.sqrt(len(change))


def _difference(change):
    return f"{change.mean():+.1f} ± {_error(change):.1f}"


def _cell(rows, factor, dataset):
    own = [fold for part in _folds(rows, factor, dataset).values() for fold in part]
    if not own:
        return "-"
    change = _change(rows, factor, dataset)
    accuracy = 100 * np.mean([fold["accuracy"] for fold in own])
    optimistic = 100 * np.mean([fold["of_width"] for fold in own], axis=0).max()
    text = f"{accuracy:.1f}" + (f" ({_difference(change)})" if len(change) else "")
    auroc = np.mean([fold["auroc"] for fold in own])
    return f"{text} / {auroc:.3f} / {optimistic:.1f}"


def equal(path, sets, repeats):
    """Return the largest difference of each set, from the file where it is known."""
    known = {}
    if path.exists():
        lines = path.read_text(encoding="utf-8").splitlines()
        known = {row["set"]: row for row in map(json.loads, lines)}
    for name in sets:
        if name not in known:
            known[name] = {"set": name, "folds": repeats}
            known[name]["worst"] = equal_machines(name, repeats)
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(known[name]) + "\n")
    return list(known.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=RESULTS / "key-machines")
    parser.add_argument("--quick", action="store_true", help="one set, one repeat")
    parser.add_argument("--stored", action="store_true", help="run nothing")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    out = Path(asked.out)
    if asked.stored:
        text = (out / "runs.jsonl").read_text(encoding="utf-8")
        rows = [json.loads(line) for line in text.splitlines()]
    else:
        rows = run(out / "runs.jsonl", asked.quick)
    lines = page(rows)
    lines += ["## MI-ODM with theta = nu = 0 against KI-SVM", ""]
    sets = () if asked.stored else EQUAL[: 1 if asked.quick else None]
    for row in equal(out / "equal.jsonl", sets, 2):
        lines += [
            f"- {row['set']}, {row['folds']} folds: decision values of held-out bags",
            f"  differ by at most {row['worst']:.1e} of their standard deviation.",
        ]
    lines += ["", "Made by `python studies/scripts/key_machine_factors.py`."]
    (out / "README.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
