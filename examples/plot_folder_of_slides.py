"""
A folder of slides
==================

From a folder of features to an evaluation: one h5 file per slide, a table with one row
per slide, and several slides per patient. The slides are simulated, so that the example
needs no data. Replace the first lines by your own folder. Folds keep the slides of a
patient together, because the groups are stored with the bags. Tumors are regions, so
that the mean of the neighbors of each patch, which ``OnNeighbors`` appends, helps. The
figure shows the patches of a held-out slide at their coordinates: the true labels and
the scores.

Run it with a folder for the figure:
``python plot_folder_of_slides.py build/examples``.
"""

import sys
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bagwise import read_bags
from bagwise.base import bag_folds
from bagwise.compose import OnInstances, OnNeighbors, SimpleMI
from bagwise.datasets import make_slides
from bagwise.inspection import plot_heatmap
from bagwise.linear_model import MILogisticRegression

METHODS = {
    "mean of the patches": SimpleMI(LogisticRegression()),
    "MILogisticRegression": MILogisticRegression(random_state=0),
    "with neighbors": make_pipeline(
        OnNeighbors(k=8, radius=400), MILogisticRegression(random_state=0)
    ),
}


def scaled(method):
    return make_pipeline(OnInstances(StandardScaler()), method)


def held_out_auroc(X, y):
    """Return the area under the curve of each method, patients held out whole."""
    folds = bag_folds(X, y, 5, random_state=0)
    found = {}
    for name, method in METHODS.items():
        scores = np.empty(len(y))
        for train, test in folds:
            model = scaled(method).fit(X[train], y[train])
            scores[test] = model.decision_function(X[test])
        found[name] = roc_auc_score(y, scores)
    return found


def main(folder):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as features:
        *_, tumor = make_slides(
            60, features, separation=1.5, random_state=0, return_instance_labels=True
        )
        X, y = read_bags(
            features,
            labels=Path(features) / "clini.csv",
            bag="slide_id",
            label="tumor",
            group="patient_id",
        )
    print(X)
    print(X.dtype, f"{len(set(X.groups))} patients")
    for name, area in held_out_auroc(X, y).items():
        print(f"{name:22s} AUROC {area:.3f}")
    train, test = bag_folds(X, y, 5, random_state=0)[0]
    model = scaled(METHODS["with neighbors"]).fit(X[train], y[train])
    i = int(test[np.flatnonzero(y[test])[0]])
    slide = model[0].transform(X[[i]])
    near, method = model[-1]
    scores = method.instance_scores(near.transform(slide)).values
    figure, axes = plt.subplots(1, 2, figsize=(9, 4.5), layout="constrained")
    plot_heatmap(tumor[i], X[[i]].coords, ax=axes[0], title=f"tumor, {X.ids[i]}")
    plot_heatmap(scores, X[[i]].coords, ax=axes[1], title="scores, slide held out")
    print(f"AUROC of its patches    {roc_auc_score(tumor[i], scores):.3f}")
    path = folder / "folder_of_slides.png"
    figure.savefig(path, dpi=110)
    print(f"figure: {path}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "build/examples")
