"""
Finding key instances with MI-ODM
=================================

MI-ODM is fitted to two-dimensional bags with one key instance each. Left: the scores
over the plane, with the selected instance of each positive bag. Right: the value of the
relaxation in each round, and the value of the best single choice of key instances above
it.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

from bagwise import Bags
from bagwise.datasets import make_key_instance_bags
from bagwise.metrics import key_instance_success
from bagwise.svm import MIODM


def main(folder="build/examples"):
    """Fit, print the certificate and save the picture."""
    X, y, z = make_key_instance_bags(
        60,
        n_features=2,
        n_background=4,
        bag_size=(4, 7),
        noise=0.35,
        separation=3.0,
        random_state=1,
        return_instance_labels=True,
    )
    model = MIODM(
        100.0, 10.0, gamma=0.5, threshold="train", tol=1e-4, random_state=0
    ).fit(X, y)
    success = key_instance_success(z, model.instance_scores(X))
    print(f"keys found in {success:.0%} of the positive bags")
    print(
        f"relaxation {model.objective_:.3f} (gap {model.duality_gap_:.1e}), best "
        f"single choice {model.integer_objective_:.3f}, {model.n_iter_} rounds"
    )
    figure, (plane, rounds) = plt.subplots(
        1, 2, figsize=(11, 4.6), width_ratios=(1.4, 1), layout="constrained"
    )
    draw_plane(plane, model, X, y, z)
    draw_rounds(rounds, model)
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    figure.savefig(path / "key_instances.png", dpi=110)
    plt.close(figure)


def draw_plane(axis, model, X, y, z):
    """Scores over the plane, instances, and the chosen ones."""
    low, high = X.data.min(axis=0) - 0.5, X.data.max(axis=0) + 0.5
    a, b = np.meshgrid(
        np.linspace(low[0], high[0], 120), np.linspace(low[1], high[1], 120)
    )
    grid = np.column_stack([a.ravel(), b.ravel()])
    scores = model.instance_scores(Bags(grid, np.array([0, len(grid)]))).values
    limit = np.abs(scores).max()
    filled = axis.contourf(
        a,
        b,
        scores.reshape(a.shape),
        levels=np.linspace(-limit, limit, 17),
        cmap="RdBu_r",
        alpha=0.5,
    )
    axis.contour(a, b, scores.reshape(a.shape), levels=[0.0], colors="k", linewidths=1)
    positive = np.repeat(y == 1, X.sizes)
    axis.scatter(*X.data[~positive].T, s=9, c="tab:blue", label="in negative bags")
    axis.scatter(*X.data[positive].T, s=9, c="tab:red", label="in positive bags")
    keys = X.offsets[:-1] + model.key_instances(X)
    keys = keys[y == 1]
    right = z.values[keys] > 0
    axis.scatter(
        *X.data[keys[right]].T,
        s=60,
        facecolors="none",
        edgecolors="k",
        label="chosen key, right",
    )
    axis.scatter(
        *X.data[keys[~right]].T, s=60, c="k", marker="x", label="chosen, wrong"
    )
    axis.figure.colorbar(filled, ax=axis, label="instance score")
    axis.set(title="Scores and chosen key instances", xlabel="feature 1")
    axis.set_ylabel("feature 2")
    axis.legend(fontsize=8, loc="best")


def draw_rounds(axis, model):
    """Value of the relaxation after each round, and the single choice above it."""
    path = model.objective_path_
    axis.plot(np.arange(1, len(path) + 1), path, "o-", ms=3, label="relaxation")
    axis.axhline(
        model.integer_objective_,
        color="tab:orange",
        ls="--",
        label="best single choice",
    )
    axis.set(title="Value round by round", xlabel="round", ylabel="objective")
    axis.legend(fontsize=8)


if __name__ == "__main__":
    main(*sys.argv[1:2])
