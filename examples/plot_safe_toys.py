"""
Two toy data sets: SAFE against clustering followed by classification
=====================================================================

On the first data set the clusters of instances correspond to the classes of bags, and
both methods work. On the second each cluster contains instances of both classes:
clustering finds the clusters, and the result contains no information about the classes.
SAFE uses the labels while it learns its instance scores.

Usage: python plot_safe_toys.py [FOLDER]
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline

from bagwise.datasets import make_safe_toy
from bagwise.embedding import SoftKSCEmbedding
from bagwise.least_squares import LSSVC, SAFE

GREEN, RED = "#1b7837", "#b2182b"


def fit_both(variant):
    """Fit both methods on 100 bags; return them, the data and their scores."""
    X, y, z = make_safe_toy(variant, 100, random_state=0, return_instance_labels=True)
    new, y_new, z_new = make_safe_toy(
        variant, 2000, random_state=1, return_instance_labels=True
    )
    safe = SAFE(gamma=2.0, variance_weight=0.5).fit(X, y)
    stages = make_pipeline(SoftKSCEmbedding(2, gamma=2.0), LSSVC(10.0)).fit(X, y)
    found = {
        "SAFE": (safe.score(new, y_new), safe.predict_instances(new).values),
        "SKSC + LS-SVM": (
            stages.score(new, y_new),
            stages[0].clustering_.predict(new.data),
        ),
    }
    table = {
        name: (accuracy, adjusted_rand_score(z_new.values, clusters))
        for name, (accuracy, clusters) in found.items()
    }
    return X, y, safe, stages, table


def draw(axes, variant):
    """Draw one data set: clusters and latent variables of both methods."""
    X, y, safe, stages, table = fit_both(variant)
    clusters = {
        "SAFE": safe.predict_instances(X).values,
        "SKSC + LS-SVM": stages[0].clustering_.labels_,
    }
    latent = {
        "SAFE": safe.decision_function(X),
        "SKSC + LS-SVM": stages.decision_function(X),
    }
    for row, name in enumerate(clusters):
        left, right = axes[row]
        color = np.where(clusters[name] > 0, GREEN, RED)
        left.scatter(*X.data.T, c=color, s=9, alpha=0.8, linewidths=0)
        accuracy, rand = table[name]
        left.set_title(f"{name}, toy {variant}: instances\nARI {rand:.3f}", fontsize=9)
        left.set_xlabel("$x_1$")
        left.set_ylabel("$x_2$")
        height = np.random.default_rng(0).uniform(-1, 1, len(y))
        right.scatter(
            latent[name], height, c=np.where(y > 0, GREEN, RED), s=14, alpha=0.8
        )
        right.axvline(0.0, color="black", linestyle="--", linewidth=1)
        right.set_yticks([])
        right.set_title(f"bags by decision value\naccuracy {accuracy:.3f}", fontsize=9)
        right.set_xlabel("decision value")
    return table


def main():
    """Make the figure and print the table."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "build/examples")
    folder.mkdir(parents=True, exist_ok=True)
    figure, axes = plt.subplots(2, 4, figsize=(13, 6.4), layout="constrained")
    for variant in (1, 2):
        table = draw(axes[:, 2 * variant - 2 : 2 * variant], variant)
        for name, (accuracy, rand) in table.items():
            print(f"toy {variant}  {name:<14} accuracy {accuracy:.3f}  ARI {rand:.4f}")
    figure.suptitle("Green: positive bags, or instances given to the first group")
    figure.savefig(folder / "safe_toys.png", dpi=110)


if __name__ == "__main__":
    main()
