"""
Reducing two dimensions to one with LDA, PCA and MIDR
=====================================================

The data are two kinds of bags in the plane. One instance of each positive bag is
positive. It has a large vertical coordinate, while the other instances of positive bags
are slightly lower than those of negative bags and further to the right. LDA with the
bag label on every instance follows the majority and misses the positive instance. PCA
follows the variance, which is horizontal. MIDR searches for a direction in which the
largest instances separate the bags.

    python examples/plot_midr_toy.py [FOLDER]
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import roc_auc_score

from bagwise import Bags
from bagwise.compose import OnInstances
from bagwise.decomposition import MIDR
from bagwise.linear_model import MILogisticRegression

KEY, OTHER, NEGATIVE = "#c1121f", "#e09f8f", "#1d4e89"


def make_bags(n_bags=40, seed=0):
    """Return bags of eight instances, their labels and which instances are positive."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_bags) % 2
    X = rng.normal(size=(n_bags, 8, 2)) * [3.0, 0.45]
    X[y == 1, :, 1] -= 0.5
    X[y == 1, :, 0] += 1.0
    X[y == 1, 0, 1] += 3.5
    key = np.zeros((n_bags, 8), dtype=bool)
    key[y == 1, 0] = True
    return Bags.from_list(list(X)), y, key.ravel()


def main(folder):
    X, y, key = make_bags()
    methods = {
        "LDA, instances labeled as their bag": OnInstances(
            LinearDiscriminantAnalysis(n_components=1), label_instances=True
        ),
        "PCA": OnInstances(PCA(1)),
        "MIDR": MIDR(1, C=1000, random_state=0),
    }
    kind = np.where(key, 2, y[X.bag_index])
    colors = np.array([NEGATIVE, OTHER, KEY])[kind]
    figure, axes = plt.subplots(2, 2, figsize=(10, 7.6), layout="constrained")
    plane = axes[0, 0]
    for k, label in [
        (0, "instances of negative bags"),
        (1, "negative instances of positive bags"),
        (2, "positive instances"),
    ]:
        plane.scatter(*X.data[kind == k].T, s=16, c=colors[kind == k], label=label)
    plane.set(title="bags in the plane", aspect="equal", ylim=(-4.0, 8.4))
    center = X.data.mean(axis=0)
    for (name, method), style in zip(methods.items(), [":", "--", "-"], strict=True):
        Z = method.fit(X, y).transform(X)
        direction, *_ = np.linalg.lstsq(X.data - center, Z.data[:, 0], rcond=None)
        direction /= np.linalg.norm(direction)
        angle = np.degrees(np.arccos(min(1.0, abs(direction[0]))))
        ends = center + np.outer([-3.2, 3.2], direction)
        plane.plot(*ends.T, style, c="black", lw=1.6, label=name.split(",")[0])
        model = MILogisticRegression(1000, random_state=0).fit(Z, y)
        area = roc_auc_score(y, model.decision_function(Z))
        axis = axes.ravel()[list(methods).index(name) + 1]
        axis.scatter(Z.data[:, 0], X.bag_index, s=16, c=colors)
        axis.set(
            title=f"{name}\n{angle:.0f}° from horizontal, AUROC of bags {area:.2f}",
            xlabel="projected instance",
            ylabel="bag",
        )
        print(f"{name}: {angle:.1f} degrees, AUROC {area:.3f}")
    plane.legend(fontsize=7.5, loc="upper left", ncols=2)
    path = Path(folder) / "midr_toy.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    print(path)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "build/examples")
