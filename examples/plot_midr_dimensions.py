"""
AUROC against the number of dimensions on five data sets
========================================================

MIDR and PCA with 1, 2 and 5 dimensions and with 10% to 60% of the features, LDA (one
dimension) and no reduction are each followed by multi-instance logistic regression.
Features are standardized on the training folds. All data sets use the same parameters
without tuning. The data sets are loaded by `bagwise.datasets.fetch`.

    python examples/plot_midr_dimensions.py [FOLDER] [--quick]
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import RepeatedStratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bagwise.compose import OnInstances
from bagwise.datasets import fetch
from bagwise.decomposition import MIDR
from bagwise.linear_model import MILogisticRegression

SETS = ("musk1", "musk2", "elephant", "fox", "tiger")
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)


def area(X, y, cv, *steps):
    """Return mean and standard error of the AUROC of a pipeline over the folds."""
    model = make_pipeline(
        OnInstances(StandardScaler()), *steps, MILogisticRegression(random_state=0)
    )
    scores = cross_val_score(model, X, y, cv=cv, scoring="roc_auc")
    return scores.mean(), scores.std() / np.sqrt(len(scores))


def main(folder, quick=False):
    cv = RepeatedStratifiedKFold(
        n_splits=5, n_repeats=1 if quick else 2, random_state=0
    )
    names = SETS[:1] if quick else SETS
    figure, axes = plt.subplots(
        1, len(names), figsize=(3.6 * len(names), 3.6), layout="constrained"
    )
    for axis, name in zip(np.atleast_1d(axes), names, strict=True):
        data = fetch(name)
        X, y = data.X, data.y
        dims = [1, 2, 5, *(round(s * X.n_features) for s in SHARES)]
        curves = {
            "MIDR": [area(X, y, cv, MIDR(d, random_state=0)) for d in dims],
            "PCA": [area(X, y, cv, OnInstances(PCA(d))) for d in dims],
        }
        lda = LinearDiscriminantAnalysis(n_components=1, solver="eigen", shrinkage=1e-3)
        flat = {
            "LDA (1 dimension)": area(X, y, cv, OnInstances(lda, label_instances=True)),
            "no reduction": area(X, y, cv),
        }
        for (label, points), style in zip(curves.items(), ["o-", "s--"], strict=True):
            mean, error = np.array(points).T
            axis.errorbar(dims, mean, error, fmt=style, ms=4, label=label, capsize=2)
        for (label, (mean, _)), style in zip(flat.items(), [":", "-."], strict=True):
            axis.axhline(mean, ls=style, c="0.35", lw=1.2, label=label)
        axis.set(
            title=name, xlabel="dimensions", xscale="log", xticks=[1, 2, 5, 20, 100]
        )
        axis.xaxis.set_major_formatter("{x:.0f}")
        axis.minorticks_off()
        for label, points in curves.items():
            pairs = zip(dims, points, strict=True)
            row = ", ".join(f"{d}: {m:.3f}" for d, (m, _) in pairs)
            print(f"{name} {label} {row}", flush=True)
        print(f"{name} " + ", ".join(f"{k}: {m:.3f}" for k, (m, _) in flat.items()))
    first = np.atleast_1d(axes)[0]
    first.set_ylabel("AUROC of bags")
    first.legend(fontsize=8, loc="lower right")
    path = Path(folder) / "midr_dimensions.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    print(path)


if __name__ == "__main__":
    folders = [a for a in sys.argv[1:] if not a.startswith("-")]
    main(folders[0] if folders else "build/examples", "--quick" in sys.argv)
