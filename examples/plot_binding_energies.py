"""
Binding energies: the strongest conformer decides
=================================================

A molecule is a bag of conformers, and its binding energy is that of the conformer that
binds best: each value depends on one instance. The artificial molecules (Lennard-Jones
energies, 30 and 166 features, of which 16 and 80 are relevant) come with a training
half and a test half. The mean of the conformers hides the relevant one. A maximum of
linear scores fits this task better. `BagRegressor`, without tuning, combines both and
other members by their out-of-fold predictions.

Run it with a folder for the figure:
``python plot_binding_energies.py build/examples``.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bagwise import BagRegressor
from bagwise.compose import OnInstances, SimpleMIRegressor
from bagwise.datasets import fetch
from bagwise.linear_model import MILinearRegression

DATA = {"LJ-16": "lj-16.30.2", "LJ-80": "lj-80.166.1"}
METHODS = {
    "mean + ridge": SimpleMIRegressor(RidgeCV(np.logspace(-2, 3, 11))),
    "max of linear values": MILinearRegression("max", C=10.0, random_state=0),
    "BagRegressor": BagRegressor(random_state=0),
}


def predicted(data, method):
    """Fit on the training half; return predictions of the test half and R2."""
    model = make_pipeline(OnInstances(StandardScaler()), method)
    model.fit(data.X, data.y)
    return model, model.predict(data.X_test), model.score(data.X_test, data.y_test)


def draw_values(ax, truth, found, title):
    """Draw predictions against the truth, with the identity line."""
    ends = [min(truth.min(), found.min()), max(truth.max(), found.max())]
    ax.plot(ends, ends, color="0.6", linewidth=1)
    ax.scatter(truth, found, s=14, alpha=0.8, linewidths=0)
    ax.set_title(title, fontsize=9)
    ax.set_xlabel("true binding energy")
    ax.set_ylabel("predicted")


def draw_weights(ax, model, title):
    """Plot the weights of the members of the stack."""
    weights = model[-1].member_weights_
    names = sorted(weights, key=weights.get)
    ax.barh(names, [weights[name] for name in names], color="0.55")
    ax.set_title(title, fontsize=9)
    ax.tick_params(labelsize=7)


def main():
    """Make the figure and print the table."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "build/examples")
    folder.mkdir(parents=True, exist_ok=True)
    figure, axes = plt.subplots(2, 4, figsize=(14, 6.6), layout="constrained")
    for row, (name, key) in zip(axes, DATA.items(), strict=True):
        data = fetch(key)
        for ax, (method, estimator) in zip(row, METHODS.items(), strict=False):
            model, found, score = predicted(data, estimator)
            draw_values(ax, data.y_test, found, f"{name}, {method}: R2 {score:.2f}")
            print(f"{name}  {method:<22} R2 {score:.3f}")
        draw_weights(row[-1], model, "weights of the members")
    figure.savefig(folder / "binding_energies.png", dpi=110)


if __name__ == "__main__":
    main()
