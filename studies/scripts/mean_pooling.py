"""Where the mean of a bag is not enough: one witness among more and more instances.

    python studies/scripts/mean_pooling.py [--repeats 5] [--output FOLDER]

A bag has 5 to 200 instances with 10 standard normal features. In a positive bag one
instance is shifted by 4 standard deviations in a random direction. Models are fitted to
200 bags and evaluated on 1,000 others. Baselines are scikit-learn's logistic regression
on the mean of each bag, or on four summaries, with regularization tuned by
cross-validation. MI-SVM has default parameters and a linear kernel. Writes
`scores.csv`, `README.md` and `mean-pooling.png`.
"""

import argparse
import csv
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bagwise import Bags
from bagwise.compose import SimpleMI
from bagwise.datasets import make_bags
from bagwise.svm import MISVM

RESULTS = Path(__file__).parents[1] / "results" / "mean-pooling"
SIZES = (5, 10, 20, 50, 100, 200)
N_TRAIN, N_TEST, N_FEATURES, SHIFT = 200, 1000, 10, 4.0


def simulate(size, seed):
    """Return training and test bags with labels, and the witnesses of the test bags."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.normal(size=(N_FEATURES, N_FEATURES)))[0]
    X, y, z = make_bags(
        N_TRAIN + N_TEST,
        n_features=N_FEATURES,
        bag_size=size,
        shift=SHIFT,
        random_state=seed,
        return_instance_labels=True,
    )
    X = Bags(X.data @ turn, X.offsets)
    return X[:N_TRAIN], y[:N_TRAIN], X[N_TRAIN:], y[N_TRAIN:], z[N_TRAIN:]


def models():
    """Return the models by name."""
    tuned = GridSearchCV(
        LogisticRegression(max_iter=1000),
        {"C": np.logspace(-3, 2, 6)},
        scoring="roc_auc",
    )
    rows = make_pipeline(StandardScaler(), tuned)
    return {
        "mean + logistic regression": SimpleMI(rows),
        "mean, SD, min and max + logistic regression": SimpleMI(
            rows, pooling=summaries
        ),
        "MI-SVM (bagwise)": MISVM(kernel="linear", random_state=0),
    }


def summaries(X):
    """Return mean, standard deviation, minimum and maximum of each feature."""
    return np.array([np.r_[b.mean(0), b.std(0), b.min(0), b.max(0)] for b in X])


def found(model, X, y, z):
    """Return the share of positive bags whose top instance is the witness."""
    if isinstance(model, SimpleMI):
        return float("nan")
    top = model.key_instances(X)
    hit = [z[i][k] == 1 for i, k in enumerate(np.asarray(top)) if y[i] == 1]
    return float(np.mean(hit))


def plot(rows, path):
    """Plot the means of both figures over the repeats, with their ranges."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    colors = dict(zip(models(), ("#8a8a8a", "#33658a", "#c8553d"), strict=True))
    for axis, column, chance in ((axes[0], 3, 0.5), (axes[1], 4, None)):
        for name, color in colors.items():
            parts = [
                [row[column] for row in rows if row[1] == name and row[0] == size]
                for size in SIZES
            ]
            if np.isnan(parts[0]).any():
                continue
            mean = np.mean(parts, axis=1)
            axis.plot(SIZES, mean, "o-", color=color, label=name, markersize=4)
            low, high = np.min(parts, axis=1), np.max(parts, axis=1)
            axis.fill_between(SIZES, low, high, color=color, alpha=0.2)
        if chance is not None:
            axis.axhline(chance, color="black", linewidth=0.8, linestyle=":")
        axis.set_xscale("log", base=10)
        axis.set_xticks(SIZES, [str(size) for size in SIZES])
        axis.minorticks_off()
        axis.grid(alpha=0.25)
        axis.set_xlabel("Instances per bag, one of which decides")
        axis.set_ylim(0, 1.03) if column == 4 else axis.set_ylim(0.3, 1.02)
    axes[0].set_ylabel("AUROC of bags")
    axes[1].set_ylabel("Witness found (share of bags)")
    axes[0].legend(loc="lower left", fontsize=8, frameon=False)
    figure.savefig(path, dpi=150)


def page(rows):
    """Return the text of the page."""
    heads = [f"{size}" for size in SIZES]
    lines = [
        "# Where the mean of a bag is not enough",
        "",
        "`python studies/scripts/mean_pooling.py`",
        "",
        "One instance of a positive bag is shifted by 4 standard deviations in a random"
        " direction; all others are standard normal in 10 dimensions. Models are"
        f" fitted to {N_TRAIN} bags and evaluated on {N_TEST:,} others. Means over"
        f" {len({row[2] for row in rows})} simulations; the bands of the figure are"
        " their ranges. Baselines are scikit-learn's logistic regression on the mean of"
        " each bag, or on mean, standard deviation, minimum and maximum, with tuned"
        " regularization. MI-SVM has default parameters and a linear kernel. Its"
        " objective is not convex: it can end in a poor local minimum.",
        "",
        "![AUROC of bags and share of witnesses found, over the number of instances per"
        " bag](mean-pooling.png)",
    ]
    for title, column in (("AUROC of bags", 3), ("Witness found", 4)):
        lines += ["", f"## {title}, by the instances per bag", ""]
        lines += [f"| Method | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
        for name in models():
            cells = [
                np.mean([r[column] for r in rows if r[1] == name and r[0] == size])
                for size in SIZES
            ]
            shown = ["–" if np.isnan(cell) else f"{cell:.2f}" for cell in cells]
            lines.append(f"| {name} | {' | '.join(shown)} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    rows = []
    for size in SIZES:
        for seed in range(options.repeats):
            X, y, X_test, y_test, z = simulate(size, seed)
            for name, model in models().items():
                scores = model.fit(X, y).decision_function(X_test)
                auroc = roc_auc_score(y_test, scores)
                rows.append((size, name, seed, auroc, found(model, X_test, y_test, z)))
                print(*rows[-1], flush=True)
    options.output.mkdir(parents=True, exist_ok=True)
    with open(options.output / "scores.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("instances", "method", "seed", "auroc", "witness_found"))
        writer.writerows((*r[:3], f"{r[3]:.4f}", f"{r[4]:.4f}") for r in rows)
    (options.output / "README.md").write_text(page(rows), encoding="utf-8")
    plot(rows, options.output / "mean-pooling.png")


if __name__ == "__main__":
    main()
