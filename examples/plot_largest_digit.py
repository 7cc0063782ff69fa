"""
The largest digit of a bag
==========================

The label of a bag of handwritten digits is the largest digit in it. Single images have
no labels. A bag regressor learns to read digits from these labels alone: its instance
scores, in units of the target, increase with the digit. A model of the mean image
cannot do so.

Run it with a folder for the figure: ``python plot_largest_digit.py build/examples``.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from bagwise.compose import OnInstances, SimpleMIRegressor
from bagwise.datasets import load_digit_bags
from bagwise.inspection import instance_scores
from bagwise.linear_model import MILinearRegression

N_TRAIN = 300
METHODS = {
    "mean + ridge": SimpleMIRegressor(RidgeCV(np.logspace(-4, 2, 13))),
    "max of linear values": GridSearchCV(
        MILinearRegression("max", random_state=0), {"C": [100.0, 1e3, 1e4]}, cv=3
    ),
}


def on_pixels(method):
    """Similarities to 200 pictures first: digits are not linear in pixels."""
    features = Nystroem(gamma=0.1, n_components=200, random_state=0)
    return make_pipeline(OnInstances(features), method)


def draw_digits(axes, data, values):
    """Draw the pictures of a few test bags, the highest values first."""
    shown = np.linspace(N_TRAIN, 399, len(axes)).astype(int)
    for row, i in zip(axes, shown, strict=True):
        first, last = data.X.offsets[i], data.X.offsets[i + 1]
        order = first + np.argsort(-values[first:last])
        for ax in row:
            ax.axis("off")
        for ax, k in zip(row, order, strict=False):
            ax.imshow(data.images[k], cmap="gray_r")
            ax.set_title(f"{values[k]:.1f}", fontsize=8)
        row[0].axis("on")
        row[0].set(xticks=[], yticks=[])
        row[0].set_ylabel(f"largest: {data.y[i]:.0f}", fontsize=8)


def main():
    """Make the figure and print the table."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "build/examples")
    folder.mkdir(parents=True, exist_ok=True)
    data = load_digit_bags(400, bag_size=(2, 6), target="max", random_state=0)
    train, test = slice(0, N_TRAIN), slice(N_TRAIN, 400)
    figure = plt.figure(figsize=(11, 7), layout="constrained")
    top, bottom = figure.subfigures(2, 1, height_ratios=[1.1, 1])
    axes = top.subplots(1, 3)
    rng = np.random.default_rng(0)
    for ax, (name, method) in zip(axes, METHODS.items(), strict=False):
        model = on_pixels(method).fit(data.X[train], data.y[train])
        found, truth = model.predict(data.X[test]), data.y[test]
        score = model.score(data.X[test], truth)
        print(f"{name:<22} R2 {score:.3f}")
        ax.plot([0, 9], [0, 9], color="0.6", linewidth=1)
        ax.scatter(truth + rng.uniform(-0.2, 0.2, len(truth)), found, s=12, alpha=0.7)
        ax.set_title(f"{name}: R2 {score:.2f}", fontsize=9)
        ax.set_xlabel("largest digit")
        ax.set_ylabel("predicted")
    values = instance_scores(model, data.X).values
    held_out = data.X.bag_index >= N_TRAIN
    digits = np.concatenate(list(data.digits))
    boxes = [values[held_out & (digits == d)] for d in range(10)]
    axes[2].boxplot(boxes, tick_labels=range(10), sym="")
    axes[2].set_title("instance scores of single images in test bags", fontsize=9)
    axes[2].set_xlabel("true digit (not used for training)")
    draw_digits(bottom.subplots(3, 6), data, values)
    figure.savefig(folder / "largest_digit.png", dpi=110)


if __name__ == "__main__":
    main()
