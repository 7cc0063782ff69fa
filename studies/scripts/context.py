"""A task whose labels depend on neighboring instances, with its optimum.

    python studies/scripts/context.py [--output FOLDER]

A bag has 20 instances of the kinds A, B and C, 4 + 4 + 12, on a grid: far from each
other, but for one pair. In one kind of bag the pair is an A and a B, in the other an A
and a C. The kinds of the instances of all bags are the same, so that no method without
coordinates can be better than chance. A tenth of the labels are exchanged, in training
and in test: the optimal classifier knows the kind of a bag (kinds are 14 standard
deviations apart) and has an expected AUROC of 0.9. Its AUROC on the test bags is in the
table, for 300 training and 1,000 test bags; other scores may exceed it by chance.
Writes `context.csv` and `README.md`.
"""

import argparse
import csv
import time
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline

from bagwise import Bags

RESULTS = Path(__file__).parents[1] / "results" / "context"
FLIPPED, NOISE, N_TRAIN, N_TEST = 0.1, 0.1, 300, 1000


def draw(n_bags, seed):
    """Return bags, labels, and the kinds of bags that the optimum knows."""
    rng = np.random.default_rng(seed)
    rows, places, truth = [], [], np.arange(n_bags) % 2
    kind = np.repeat([0, 1, 2], [4, 4, 12])
    for label in truth:
        cell = rng.permutation(64)[:20]
        place = 10.0 * np.column_stack([cell // 8, cell % 8])
        place[4 if label else 12] = place[0] + rng.uniform(-0.6, 0.6, 2)
        order = rng.permutation(20)
        rows.append((np.eye(3)[kind] + NOISE * rng.normal(size=(20, 3)))[order])
        places.append(place[order])
    y = np.where(rng.random(n_bags) < FLIPPED, 1 - truth, truth)
    offsets = 20 * np.arange(n_bags + 1)
    X = Bags(np.concatenate(rows), offsets, coords=np.concatenate(places))
    return X, y, truth


def methods():
    """Return methods by name."""
    from bagwise.embedding import MILES
    from bagwise.ensemble import BagClassifier
    from bagwise.neural import NeuralBagClassifier
    from bagwise.svm import MISVM, BagSVC

    net = {"hidden": 64, "attention": 32, "n_models": 3, "random_state": 0}
    return {
        "MI-SVM": MISVM(random_state=0),
        "MI-Kernel": BagSVC(kernel="set"),
        "MILES": MILES(random_state=0),
        "network, gated": NeuralBagClassifier(**net),
        "network, gated, smoothness 0.5": NeuralBagClassifier(smoothness=0.5, **net),
        "BagClassifier": BagClassifier(random_state=0),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    from bagwise.compose import OnNeighbors

    near = OnNeighbors(k=None, radius=1.0, aggregate="max")
    rows = []
    for seed in range(options.draws):
        X, y, _ = draw(N_TRAIN, 2 * seed)
        T, labels, kinds = draw(N_TEST, 2 * seed + 1)
        rows.append((seed, "optimum", "", roc_auc_score(labels, kinds), 0.0))
        for name, model in methods().items():
            for context in ("", "OnNeighbors"):
                begun = time.perf_counter()
                made = make_pipeline(near, model) if context else model
                scores = made.fit(X, y).decision_function(T)
                seconds = time.perf_counter() - begun
                rows.append(
                    (seed, name, context, roc_auc_score(labels, scores), seconds)
                )
                print(*rows[-1], flush=True)
    write(rows, options.output)


def write(rows, folder):
    """Write the figures and the page."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "context.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("draw", "method", "context", "auroc", "seconds"))
        for *key, area, seconds in rows:
            writer.writerow((*key, f"{area:.4f}", f"{seconds:.1f}"))
    lines = ["# Context", "", *__doc__.strip().splitlines()[2:], ""]
    draws = len({row[0] for row in rows})
    lines += [
        f"Mean over the simulated sets: {draws}.",
        "",
        "| method | features of instances | with `OnNeighbors` |",
        "|---|---|---|",
    ]
    for method in dict.fromkeys(row[1] for row in rows):
        cells = []
        for context in ("", "OnNeighbors"):
            found = [row[3] for row in rows if row[1:3] == (method, context)]
            cells.append(f"{np.mean(found):.3f}" if found else "")
        lines.append(f"| {method} | {cells[0]} | {cells[1]} |")
    (folder / "README.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
