"""
The latent variable of SAFE on real data sets
=============================================

The figure shows one split of a ten-fold cross-validation per data set. Parameters are
chosen on the training bags only. For texts, the kernel is linear on normalized rows, as
in the paper. Filled points are training bags, circles are held-out bags, and colors are
true labels. Data sets that are not in the folder named by BAGWISE_DATA are omitted.

Usage: python plot_safe_latent.py [FOLDER]
"""

import os
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import MinMaxScaler, Normalizer, StandardScaler

from bagwise.compose import OnInstances
from bagwise.datasets import fetch
from bagwise.least_squares import SAFECV

GREEN, RED = "#1b7837", "#b2182b"
SETS = {
    "musk1": (StandardScaler(), {}),
    "elephant": (MinMaxScaler(), {}),
    "tiger": (MinMaxScaler(), {}),
    "fox": (MinMaxScaler(), {}),
    "trec1": (Normalizer(), {"kernel": "linear"}),
    "trec2": (Normalizer(), {"kernel": "linear"}),
}


def fit_one(name, scaler, options):
    """Fit on nine tenths; return decision values and labels of both parts."""
    X, y = fetch(name, return_X_y=True, download_if_missing=False)
    folds = StratifiedKFold(10, shuffle=True, random_state=0)
    train, test = next(folds.split(X, y))
    scale = OnInstances(scaler).fit(X[train])
    model = SAFECV(variance_weights=(0.0, 0.5), **options)
    model.fit(scale.transform(X[train]), y[train])
    parts = [(scale.transform(X[rows]), y[rows]) for rows in (train, test)]
    return model, [(model.decision_function(part), labels) for part, labels in parts]


def draw(axis, name, model, parts):
    """Plot decision values; the vertical position has no meaning."""
    rng = np.random.default_rng(0)
    for (values, labels), filled in zip(parts, (True, False), strict=True):
        color = np.where(labels > 0, GREEN, RED)
        axis.scatter(
            values,
            rng.uniform(-1, 1, len(values)),
            s=14 if filled else 46,
            facecolors=color if filled else "none",
            edgecolors=color,
            alpha=0.5 if filled else 1.0,
            linewidths=0 if filled else 1.4,
        )
    axis.axvline(0.0, color="black", linestyle="--", linewidth=1)
    accuracy = [np.mean((v > 0) == (t > 0)) for v, t in parts]
    axis.set_yticks([])
    axis.set_xlabel("$E_k$")
    axis.set_title(
        f"{name}: training {accuracy[0]:.2f}, this fold {accuracy[1]:.2f}", fontsize=10
    )
    chosen = {k: f"{v:.3g}" for k, v in model.best_params_.items()}
    print(f"{name:<9} train {accuracy[0]:.3f} held-out fold {accuracy[1]:.3f} {chosen}")


def main():
    """Make the figure from the available data sets."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "build/examples")
    folder.mkdir(parents=True, exist_ok=True)
    home = Path(os.environ.get("BAGWISE_DATA", ""))
    names = [name for name in SETS if (home / f"{name}.npz").is_file()]
    if not names:
        print("No data set is in the folder named by BAGWISE_DATA: nothing to draw.")
        return
    rows = -(-len(names) // 2)
    figure, axes = plt.subplots(
        rows, 2, figsize=(11, 2.6 * rows), layout="constrained", squeeze=False
    )
    for axis in axes.flat[len(names) :]:
        axis.set_visible(False)
    for axis, name in zip(axes.flat, names, strict=False):
        draw(axis, name, *fit_one(name, *SETS[name]))
    figure.suptitle("Latent variable of SAFE (dots: training bags, rings: held-out)")
    figure.savefig(folder / "safe_latent.png", dpi=110)


if __name__ == "__main__":
    main()
