"""
Waterfalls and mist: the projection constraint of PC-SVM
========================================================

A positive image is a bag of patches: some show a waterfall, others the mist at its
base, which only occurs near waterfalls. A negative image contains landscape only. MI-
SVM needs one patch of each positive bag on the positive side, and nothing prevents it
from using the mist: a cloud, which looks like mist, is then classified as a waterfall.
PC-SVM requires the patches of a positive bag to vary along the normal vector. This
rotates the decision boundary until it separates water from mist.

    python examples/plot_pcsvm.py [FOLDER]
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.lines import Line2D

from bagwise import Bags
from bagwise.svm import PCSVM

WATER, MIST, LAND, CLOUD = "#0b6e99", "#d98324", "#5b6770", "#7a3e9d"
CENTERS = {WATER: (1.2, 2.4), MIST: (2.6, -1.7), LAND: (-1.7, -0.9)}
X_RANGE, Y_RANGE = (-4.2, 5.0), (-4.0, 4.4)


def make_pictures(n_bags=10, seed=3):
    """Return bags of patches in the plane, labels, and the color of each patch."""
    rng = np.random.default_rng(seed)
    positive, negative = [WATER, WATER, MIST, MIST], [LAND, LAND, LAND]
    kinds = np.array(positive * n_bags + negative * n_bags)
    centers = np.array([CENTERS[kind] for kind in kinds])
    data = centers + rng.normal(scale=(0.5, 0.4), size=centers.shape)
    sizes = [len(positive)] * n_bags + [len(negative)] * n_bags
    return Bags(data, np.r_[0, np.cumsum(sizes)]), np.repeat([1, 0], n_bags), kinds


def make_clouds(n_bags=12, seed=8):
    """Return negative bags of one patch that looks like mist."""
    rng = np.random.default_rng(seed)
    return list(CENTERS[MIST] + rng.normal(scale=(0.5, 0.4), size=(n_bags, 1, 2)))


def draw_plane(axis, model, X, y, kinds, clouds):
    """Draw patches, decision regions, witnesses and the normal."""
    grid = np.linspace(*X_RANGE, 150), np.linspace(*Y_RANGE, 150)
    points = np.stack(np.meshgrid(*grid), axis=-1)
    values = points @ model.coef_ + model.intercept_
    axis.contourf(*grid, values, levels=[-99, 0, 99], colors=["#f4f1ea", "#d7ebf3"])
    axis.contour(*grid, values, levels=[-1, 1], colors="gray", linewidths=0.7)
    axis.contour(*grid, values, levels=[0], colors="black", linewidths=1.8)
    for bag in X[y == 1]:
        mean = bag.mean(axis=0)
        for patch in bag:
            axis.plot(*np.c_[mean, patch], c="black", lw=0.4, alpha=0.3)
    for color, marker in ((LAND, "s"), (MIST, "o"), (WATER, "o")):
        axis.scatter(*X.data[kinds == color].T, s=20, c=color, marker=marker, zorder=3)
    axis.scatter(*np.vstack(clouds).T, s=34, c=CLOUD, marker="x", lw=1.4, zorder=3)
    ring = {"facecolors": "none", "edgecolors": "black", "lw": 1.3}
    axis.scatter(*X.data[model.witnesses_].T, s=85, zorder=4, **ring)
    normal = model.coef_ / np.linalg.norm(model.coef_)
    foot = -model.intercept_ * model.coef_ / (model.coef_ @ model.coef_)
    arrow = {"arrowstyle": "-|>", "lw": 1.5, "shrinkA": 0, "shrinkB": 0}
    axis.annotate("", foot + 1.3 * normal, foot, arrowprops=arrow, zorder=5)
    axis.set(aspect="equal", xlim=X_RANGE, ylim=Y_RANGE, xticks=[], yticks=[])


def draw_variances(axis, models, y):
    """Draw the variance of each positive bag along the unit normal."""
    place = np.arange((y == 1).sum())
    for (name, model), shift in zip(models.items(), (-0.2, 0.2), strict=True):
        variance = model.projection_variance_[y == 1]
        color = WATER if shift > 0 else "#b9b4a7"
        axis.bar(place + shift, variance, 0.4, color=color, label=name)
    axis.set(title="variance along the unit normal", xlabel="positive bag")
    axis.set_xticks(place)
    axis.set_ylim(0, 1.25 * axis.get_ylim()[1])
    axis.legend(fontsize=9, loc="upper left", ncols=2, frameon=False)


def main(folder):
    """Fit both models and plot them."""
    X, y, kinds = make_pictures()
    clouds = make_clouds()
    models = {
        "MI-SVM": PCSVM(C=10.0, rho=0.0, kernel="linear").fit(X, y),
        "PC-SVM": PCSVM(C=10.0, rho=0.8, kernel="linear").fit(X, y),
    }
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.6), layout="constrained")
    for axis, (name, model) in zip(axes, models.items(), strict=False):
        draw_plane(axis, model, X, y, kinds, clouds)
        wrong = int(model.predict(clouds).sum())
        mist = model.predict_instances(X).values[kinds == MIST].mean()
        axis.set_title(f"{name}: {wrong} of {len(clouds)} clouds called waterfall")
        print(f"{name}: {wrong} clouds and {mist:.0%} of the mist called waterfall")
    draw_variances(axes[2], models, y)
    handles = [
        Line2D([], [], marker="o", ls="", c=WATER, label="waterfall"),
        Line2D([], [], marker="o", ls="", c=MIST, label="mist, in positive bags only"),
        Line2D([], [], marker="s", ls="", c=LAND, label="landscape, negative bags"),
        Line2D([], [], marker="x", ls="", c=CLOUD, label="cloud, not in training"),
        Line2D([], [], marker="o", ls="", mfc="none", c="black", ms=9, label="witness"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=5, fontsize=9)
    path = Path(folder) / "pcsvm.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    print(path)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "build/examples")
