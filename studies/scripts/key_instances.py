"""Which methods find the key instances? Success rates on data with instance labels.

Ten random half splits: a method is fitted on one half, and on the positive bags of the
other half its top instance is looked up. Every method is as its defaults are: nothing
is tuned (`bagwise reproduce miodm-table2` tunes). Sets: made-up bags with one key
instance each, and the newsgroups in the folder named by BAGWISE_DATA. Methods without
instance scores are left out and named. `--out FOLDER` writes a CSV file and a page.
"""

import argparse
import csv
import importlib
import os
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.model_selection import StratifiedShuffleSplit

from bagwise import Bags, Ragged
from bagwise.datasets import make_key_instance_bags
from bagwise.metrics import key_instance_success

# Label, module, class, parameters.
METHODS = [
    ("MI-ODM", "svm", "MIODM", {"random_state": 0}),
    ("MI-ODM bag", "svm", "MIODM", {"level": "bag", "random_state": 0}),
    ("Ins-KI-SVM", "svm", "KISVM", {"level": "instance", "random_state": 0}),
    ("Bag-KI-SVM", "svm", "KISVM", {"level": "bag", "random_state": 0}),
    ("MI-SVM", "svm", "MISVM", {}),
    ("mi-SVM", "svm", "MiSVM", {}),
    ("MI-Kernel", "svm", "BagSVC", {"kernel": "set"}),
    ("DD", "density", "DiverseDensity", {}),
    ("EM-DD", "density", "EMDD", {}),
    ("Citation-kNN", "neighbors", "CitationKNN", {}),
]


def newsgroups():
    """Yield the name, bags, labels and instance labels of each newsgroups set."""
    folder = os.environ.get("BAGWISE_DATA")
    for path in sorted(Path(folder).glob("newsgroups_*.npz")) if folder else ():
        with np.load(path) as stored:
            rows = np.zeros(stored["shape"])
            counts = np.diff(stored["indptr"])
            rows[np.repeat(np.arange(len(counts)), counts), stored["indices"]] = stored[
                "data"
            ]
            X = Bags.from_arrays(rows, stored["bag"])
            labels = Ragged(stored["inst_y"], X.offsets)
            yield path.stem.removeprefix("newsgroups_"), X, stored["y_zhou"], labels


def made_up():
    """Yield bags with exactly one key instance, easy and hard."""
    for name, noise in (("keys (noise 0.5)", 0.5), ("keys (noise 1.0)", 1.0)):
        X, y, z = make_key_instance_bags(
            100, noise=noise, random_state=0, return_instance_labels=True
        )
        yield name, X, y, z


def build(module, name, parameters):
    """Return an unfitted estimator, or None where it cannot score instances."""
    try:
        cls = getattr(importlib.import_module(f"bagwise.{module}"), name)
    except (ImportError, AttributeError):
        return None
    model = cls()
    known = {k: v for k, v in parameters.items() if k in model.get_params()}
    if "random_state" in model.get_params():
        known["random_state"] = 0
    model.set_params(**known)
    return model if hasattr(model, "instance_scores") else None


def success(model, X, y, labels, n_splits):
    """Return the success rates of a model on the test halves."""
    splits = StratifiedShuffleSplit(n_splits, test_size=0.5, random_state=0)
    rates = []
    for train, test in splits.split(np.zeros(len(y)), y):
        model.fit(X[train], y[train])
        positive = test[y[test] > 0]
        scores = model.instance_scores(X[positive])
        rates.append(key_instance_success(labels[positive], scores))
    return np.array(rates)


def chance(y, labels):
    """Return the expected success of a random instance."""
    rates = [np.mean(z > 0) for z, one in zip(labels, y, strict=True) if one > 0]
    return np.mean([rate for rate in rates if rate > 0])


def measure(sets, wanted, n_splits):
    """Yield set, method, chance, mean, standard deviation and seconds a split."""
    for name, X, y, labels in sets:
        luck = chance(y, labels)
        print(f"{name}: {X.n_instances} instances, chance {luck:.1%}")
        for label, module, cls, parameters in METHODS:
            if wanted and label not in wanted:
                continue
            model = build(module, cls, parameters)
            if model is None:
                print(f"  {label:13s} not available, or no instance scores")
                continue
            start = time.process_time()
            try:
                rates = success(model, X, y, labels, n_splits)
            except ValueError as error:
                print(f"  {label:13s} failed: {error}")
                continue
            seconds = (time.process_time() - start) / n_splits
            print(
                f"  {label:13s} {rates.mean():6.1%} +- {rates.std():5.1%} "
                f"({seconds:.2f} s a split)",
                flush=True,
            )
            yield name, label, luck, rates.mean(), rates.std(), seconds


def write(rows, out, n_splits):
    """Write the rows as a CSV file, and a page with a table of methods and sets."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / "success.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["set", "method", "chance", "mean", "std", "seconds", "splits"])
        for name, label, *figures in rows:
            table.writerow([name, label, *(f"{v:.4f}" for v in figures), n_splits])
    sets = list(dict.fromkeys(row[0] for row in rows))
    methods = list(dict.fromkeys(row[1] for row in rows))
    found = {(row[0], row[1]): row for row in rows}
    luck = {row[0]: row[2] for row in rows}
    lines = [
        "# Which methods find the key instances?",
        "",
        __doc__.split("\n\n", 1)[1],
        "",
    ]
    lines += ["| | " + " | ".join(sets) + " |", "|---" * (len(sets) + 1) + "|"]
    lines.append("| chance | " + " | ".join(f"{luck[s]:.1%}" for s in sets) + " |")
    for label in methods:
        cells = [
            f"{found[s, label][3]:.1%} ± {found[s, label][4]:.1%}"
            if (s, label) in found
            else "-"
            for s in sets
        ]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    lines += ["", f"Mean and standard deviation over {n_splits} random halves."]
    (out / "README.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main():
    """Print one line per set and method: mean, standard deviation, CPU time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="2 splits, 3 sets")
    parser.add_argument("--methods", nargs="*", help="labels; all by default")
    parser.add_argument("--sets", nargs="*", help="names; all by default")
    parser.add_argument("--out", type=Path, help="folder of the results")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    n_splits = 2 if arguments.quick else 10
    sets = [
        one
        for one in (*made_up(), *newsgroups())
        if not arguments.sets or one[0] in arguments.sets
    ]
    sets = sets[:3] if arguments.quick else sets
    rows = list(measure(sets, arguments.methods, n_splits))
    if arguments.out is not None:
        write(rows, arguments.out, n_splits)


if __name__ == "__main__":
    main()
