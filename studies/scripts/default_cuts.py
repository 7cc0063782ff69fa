"""Default thresholds: share predicted positive, AUROC, accuracy, best threshold.

Every exported classifier is fitted with its defaults on three folds of digit bags,
musk1, elephant and fox (z-scored), and once more with a threshold of zero if it has a
`threshold`. Means over held-out folds; a constant prediction is visible in the share of
bags that are predicted positive.

    python studies/scripts/default_cuts.py [--write] [--sizes] [METHOD ...]

Lines go to results/defaults/figures.csv; finished ones are not run again;
--sizes measures multi-instance logistic regression on bags of 10, 100 and 1,000
instances and on sparse text instead (studies/results/defaults/sizes.csv); --write makes
results/defaults/README.md of both. The folder named by BAGWISE_DATA holds the classic
sets.
"""

import argparse
import csv
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from bagwise.base import bag_folds
from bagwise.base.thresholds import best_threshold
from bagwise.compose import OnInstances
from bagwise.datasets import fetch, load_digit_bags, make_bags
from bagwise.linear_model import MILogisticRegression
from bagwise.testing import all_estimators, make_instance

RESULTS = Path(__file__).parents[1] / "results"
FOLDER = RESULTS / "defaults"
FIGURES = FOLDER / "figures.csv"
DRAWS = 3
COLUMNS = ("method", "cut", "data", "positive", "auroc", "accuracy", "best", "seconds")
SETS = ("digits", "musk1", "elephant", "fox")
SIZES = FOLDER / "sizes.csv"
# As published: the sharpness of the softmax is the same for bags of any size.
PUBLISHED = {"alpha": 3.5, "threshold": "zero"}
# Excluded, because boxes are not feasible in 64 or more dimensions.
NOT_HERE = ("GMIL",)

TEXT = """# Default thresholds

Every classifier with its defaults, and with a threshold of zero as in its paper, on
three folds of bags of digits, musk1, elephant and fox, z-scored. For each set: the
share of held-out bags predicted positive (half of them are), AUROC, accuracy, and the
accuracy of the best threshold of the same scores, which is unknown in practice. A
method that is not listed was not measured. `python studies/scripts/default_cuts.py
--write` makes this page of `figures.csv`.

{table}

{summary}

## Large bags and sparse text

`MILogisticRegression` with its defaults, whose softmax depends on the bag size
(`alpha="auto"`) and whose threshold comes from the training scores, and as published
(`alpha=3.5`, threshold of zero). Simulated bags (`make_bags`: 90 bags, half of them
positive, 3 features, one instance in fifty and at least one a witness; means over
{draws} simulated sets with three folds) and trec1 (unscaled, three folds). Share
predicted positive, AUROC, accuracy, best threshold. `python
studies/scripts/default_cuts.py --sizes` measures them.

{sizes}
"""


def methods():
    """Yield names and classes of the classifiers of bags."""
    for name, cls in all_estimators():
        one = make_instance(cls)
        rows = get_tags(one).input_tags.two_d_array
        if is_classifier(one) and not rows and name not in NOT_HERE:
            yield name, cls


def load(name):
    """Return bags and labels of a set."""
    if name == "digits":
        return load_digit_bags(120, return_X_y=True)
    return fetch(name, return_X_y=True)


def measure(cls, params, X, y, *, scale=True):
    """Means over three folds: positive, AUROC, accuracy, best threshold, CPU s."""
    rows = []
    for train, test in bag_folds(X, y, 3, random_state=0):
        bags = X
        if scale:
            bags = OnInstances(StandardScaler()).fit(X[train]).transform(X)
        model = cls(**params)
        if "random_state" in model.get_params(deep=False):
            model.set_params(random_state=0)
        began = time.process_time()
        model.fit(bags[train], y[train])
        seconds = time.process_time() - began
        scores, truth = model.decision_function(bags[test]), y[test] == 1
        best = np.mean((scores > best_threshold(scores, truth)) == truth)
        called = scores > 0
        rows.append(
            (
                called.mean(),
                roc_auc_score(truth, scores),
                np.mean(called == truth),
                best,
                seconds,
            )
        )
    return np.mean(rows, axis=0)


def known():
    """Return the lines that are there."""
    if not FIGURES.exists():
        return []
    with FIGURES.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def run(chosen):
    """Measure what is missing."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    done = {(r["method"], r["cut"], r["data"]) for r in known()}
    known_methods = dict(methods())
    for name in chosen or known_methods:
        cls = known_methods[name]
        default = getattr(cls(), "threshold", None)
        cuts = {"-": {}} if default is None else {default: {}}
        if default not in (None, "zero"):
            cuts["zero"] = {"threshold": "zero"}
        for cut, params in cuts.items():
            for data in SETS:
                if (name, cut, data) in done:
                    continue
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = measure(cls, params, *load(data))
                line = [name, cut, data, *(f"{v:.3f}" for v in found)]
                new = not FIGURES.exists()
                with FIGURES.open("a", encoding="utf-8", newline="") as file:
                    writer = csv.writer(file, lineterminator="\n")
                    writer.writerows([COLUMNS, line] if new else [line])
                print(*line, flush=True)


def drawn(size, draw):
    """Return bags of about this many instances, one in fifty of them a witness."""
    return make_bags(
        90,
        n_features=3,
        bag_size=(size // 2, size + size // 2),
        n_witnesses=max(1, size // 50),
        shift=6.0,
        random_state=draw,
    )


def run_sizes():
    """Measure logistic regression on bags of three sizes and on text."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    lines = [("data", "setting", "positive", "auroc", "accuracy", "best")]
    for setting, params in (("defaults", {}), ("published", PUBLISHED)):
        found = {
            f"{size} instances": [
                measure(MILogisticRegression, params, *drawn(size, draw), scale=False)
                for draw in range(DRAWS)
            ]
            for size in (10, 100, 1000)
        }
        text = fetch("trec1", return_X_y=True)
        found["trec1"] = [measure(MILogisticRegression, params, *text, scale=False)]
        for name, rows in found.items():
            figures = (f"{value:.3f}" for value in np.mean(rows, axis=0)[:4])
            lines.append((name, setting, *figures))
            print(*lines[-1], flush=True)
    with SIZES.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(lines)


def size_table():
    """Return the lines about sizes as a table."""
    with SIZES.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    names = list(dict.fromkeys(row["data"] for row in rows))
    found = {(r["setting"], r["data"]): r for r in rows}
    table = ["| setting | " + " | ".join(names) + " |", "|---|" + "---|" * len(names)]
    for setting in dict.fromkeys(row["setting"] for row in rows):
        cells = (cell(found[setting, name]) for name in names)
        table.append(f"| {setting} | " + " | ".join(cells) + " |")
    return "\n".join(table)


def cell(row):
    """Return the figures of a line."""
    return (
        f"{float(row['positive']):.2f}, {float(row['auroc']):.2f}, "
        f"{float(row['accuracy']):.2f} of {float(row['best']):.2f}"
    )


def write():
    """Make the page of the lines."""
    rows = sorted(known(), key=lambda r: (r["method"], r["cut"] == "zero"))
    table = [
        "| method | cut | " + " | ".join(SETS) + " |",
        "|---|---|" + "---|" * len(SETS),
    ]
    keys = dict.fromkeys((r["method"], r["cut"]) for r in rows)
    found = {(r["method"], r["cut"], r["data"]): r for r in rows}
    for method, cut in keys:
        cells = []
        for data in SETS:
            r = found.get((method, cut, data))
            cells.append("" if r is None else cell(r))
        table.append(f"| {method} | {cut} | " + " | ".join(cells) + " |")
    lines = []
    for title, mine in (("defaults", False), ("zero", True)):
        some = [
            r for r in rows if (r["cut"] == "zero") == mine and float(r["auroc"]) > 0.8
        ]
        if title == "defaults":
            both = {(r["method"], r["data"]) for r in rows if r["cut"] == "zero"}
            some = [r for r in some if (r["method"], r["data"]) in both]
        lost = np.array([float(r["best"]) - float(r["accuracy"]) for r in some])
        what = "With a threshold of zero" if mine else "With the default threshold"
        lines.append(
            f"{what}, methods with a `threshold` and an AUROC above .8: "
            f"{lost.mean():.3f} below the best threshold on average, more than .10 in "
            f"{np.sum(lost > 0.10)} of {len(lost)} cases."
        )
    page = TEXT.format(
        table="\n".join(table),
        summary="\n".join(lines),
        sizes=size_table(),
        draws=DRAWS,
    )
    (FOLDER / "README.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--sizes", action="store_true")
    parser.add_argument("methods", nargs="*")
    given = parser.parse_args()
    if given.sizes:
        run_sizes()
    elif not given.write:
        run(given.methods)
    if given.write:
        write()
