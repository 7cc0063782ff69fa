"""
Concepts beyond the standard assumption
=======================================

In the generalized model a bag is positive if at least r of k + k' conditions hold: a
point near each attraction point, and no point near each repulsion point. No single
instance determines the label, and methods that search for one instance fail. GMIL votes
with attracting and repelling boxes, and `BoxKernelSVC` counts boxes. Both learn the
concept. The score is balanced accuracy, because fewer than half of the bags are
positive. The concepts are the first ones whose points are well separated.

Run it with a folder for the figure: ``python plot_generalised_mil.py build/examples``.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Rectangle
from sklearn.metrics import balanced_accuracy_score

from bagwise.datasets import make_generalized_bags
from bagwise.density import EMDD, DiverseDensity
from bagwise.rectangles import GMIL, IAPR
from bagwise.svm import (
    KISVM,
    MICA,
    MIODM,
    MISVM,
    PCSVM,
    BoxKernelSVC,
    MiSVM,
)

RADIUS = 0.18
CONCEPT = {"n_attraction": 2, "n_repulsion": 2, "r": 3, "radius": RADIUS}
METHODS = {
    "GMIL": GMIL(random_state=0),
    "BoxKernelSVC": BoxKernelSVC(C=100.0, random_state=0),
    "MI-SVM": MISVM(kernel="rbf", C=10.0),
    "mi-SVM": MiSVM(kernel="rbf", C=10.0),
    "PC-SVM": PCSVM(C=10.0, rho=0.1),
    "MICA": MICA(C=10.0),
    "MI-ODM": MIODM(threshold="train", tol=0.02, max_iter=200, random_state=0),
    "KI-SVM": KISVM(threshold="train", max_iter=200, random_state=0),
    "DD": DiverseDensity(),
    "EM-DD": EMDD(),
    "IAPR": IAPR(),
}


def separate_seeds(n_sets, apart=0.25):
    """First seeds whose attraction and repulsion points lie apart."""
    seeds = []
    seed = 0
    while len(seeds) < n_sets:
        points = np.vstack(concept_points(seed))
        distance = np.abs(points[:, None] - points[None]).max(axis=2)
        if distance[~np.eye(len(points), dtype=bool)].min() >= apart:
            seeds.append(seed)
        seed += 1
    return seeds


def compare(seeds, n_train=300, n_test=400):
    """Balanced test accuracy of each method on several concepts."""
    found = {name: [] for name in METHODS}
    for seed in seeds:
        X, y = make_generalized_bags(n_train + n_test, random_state=seed, **CONCEPT)
        for name, model in METHODS.items():
            model.fit(X[:n_train], y[:n_train])
            predicted = model.predict(X[n_train:])
            found[name].append(balanced_accuracy_score(y[n_train:], predicted))
    return {name: np.array(values) for name, values in found.items()}


def concept_points(seed):
    """Attraction and repulsion points: the first numbers of the generator."""
    rng = np.random.RandomState(seed)
    k, k2 = CONCEPT["n_attraction"], CONCEPT["n_repulsion"]
    return rng.uniform(size=(k, 2)), rng.uniform(size=(k2, 2))


def draw_vote(ax, model, seed):
    """Show how a point moves the vote of a bag, and the concept behind the labels."""
    # summed gain of all boxes that contain a cell: the effect of one more point
    s = model.grid_.max_level_ + 1
    vote = np.zeros(s)
    for low, high, gain in zip(model.low_, model.high_, model.gain_, strict=True):
        vote[low[0] : high[0] + 1, low[1] : high[1] + 1] += gain
    limit = np.abs(vote).max()
    ax.imshow(
        vote.T,
        origin="lower",
        extent=(0, 1, 0, 1),
        cmap="RdBu",
        vmin=-limit,
        vmax=limit,
        alpha=0.85,
    )
    attraction, repulsion = concept_points(seed)
    style = {"s": 130, "edgecolors": "black", "zorder": 3}
    ax.scatter(*attraction.T, marker="P", color="tab:blue", label="attraction", **style)
    ax.scatter(*repulsion.T, marker="X", color="tab:red", label="repulsion", **style)
    for points, color in ((attraction, "tab:blue"), (repulsion, "tab:red")):
        for corner in points - RADIUS:
            near = Rectangle(
                corner, 2 * RADIUS, 2 * RADIUS, fill=False, ls="--", lw=1.5
            )
            near.set_edgecolor(color)
            ax.add_patch(near)
    for boxes, color in (
        (model.attracting_boxes_, "tab:blue"),
        (model.repelling_boxes_, "tab:red"),
    ):
        for bounds in np.clip(boxes[:3], 0.0, 1.0):
            (x0, x1), (y0, y1) = bounds
            box = Rectangle((x0, y0), x1 - x0, y1 - y0, fill=False, lw=1.0)
            box.set_edgecolor(color)
            ax.add_patch(box)
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel="feature 1")
    ax.set_ylabel("feature 2")
    ax.set_title(
        "GMIL: evidence of a point for (blue) or against\n"
        "(red) its bag; dashed: concept, lines: top boxes"
    )
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, -0.32), ncol=2, frameon=False)


def draw_accuracy(ax, found):
    names = list(found)[::-1]
    colors = [
        "tab:blue" if n in ("GMIL", "BoxKernelSVC") else "tab:gray" for n in names
    ]
    means = [found[n].mean() for n in names]
    ax.barh(names, means, color=colors)
    for k, (name, mean) in enumerate(zip(names, means, strict=True)):
        ax.plot(found[name], np.full(len(found[name]), k), "k.", ms=5)
        ax.text(0.41, k, f"{mean:.2f}", va="center", color="white", weight="bold")
    ax.set(xlim=(0.4, 1.0), xlabel="balanced test accuracy (points: single concepts)")
    ax.set_title("boxes (blue) against methods\nthat look for one instance (gray)")
    ax.spines[["top", "right"]].set_visible(False)


def main(folder):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    seeds = separate_seeds(2)
    found = compare(seeds)
    for name, values in found.items():
        print(f"{name:14s} {values.mean():.3f}   {np.round(values, 3)}")
    seed = seeds[0]
    X, y = make_generalized_bags(700, random_state=seed, **CONCEPT)
    model = METHODS["GMIL"].fit(X[:300], y[:300])
    figure, axes = plt.subplots(1, 2, figsize=(10.5, 5), layout="constrained")
    draw_vote(axes[0], model, seed)
    draw_accuracy(axes[1], found)
    path = folder / "generalised_mil.png"
    figure.savefig(path, dpi=110)
    print(f"figure: {path}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "build/examples")
