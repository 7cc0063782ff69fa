"""
Why slides of a patient must stay together
==========================================

Each patient has several slides with a common appearance (stain, scanner). If slides are
split at random, the model is evaluated on patients it has seen in training and
recognizes them. The labels in this example are random, so that the true AUROC is 0.5.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

from bagwise import Bags
from bagwise.base import bag_folds
from bagwise.compose import SimpleMI
from bagwise.svm import BagSVC


def slides(seed, n_patients=30, n_slides=4):
    """Simulate slides with random labels; patients differ in their appearance."""
    rng = np.random.default_rng(seed)
    bags, y, patients = [], [], []
    for patient in range(n_patients):
        look = rng.normal(size=10)
        for _ in range(n_slides):
            bags.append(look + rng.normal(size=(rng.integers(5, 15), 10)))
            y.append(patient % 2)
            patients.append(patient)
    X = Bags.from_list(bags)
    return Bags(X.data, X.offsets, groups=patients), np.array(y)


def area(model, X, y, folds):
    """Return the mean AUROC over folds."""
    return np.mean(
        [
            roc_auc_score(
                y[test], model.fit(X[train], y[train]).decision_function(X[test])
            )
            for train, test in folds
        ]
    )


# %%
# `bag_folds` keeps groups together, like every split inside the library.
# `StratifiedKFold` ignores groups.
models = {
    "mean and logistic": SimpleMI(LogisticRegression(C=10)),
    "set kernel": BagSVC(kernel="set", C=10),
}
table = {name: ([], []) for name in models}
for seed in range(5):
    X, y = slides(seed)
    careless = list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))
    careful = bag_folds(X, y, 5, random_state=0)
    for name, model in models.items():
        table[name][0].append(area(model, X, y, careless))
        table[name][1].append(area(model, X, y, careful))
for name, (wrong, right) in table.items():
    print(
        f"{name:18s} slides split {np.mean(wrong):.2f}, patients {np.mean(right):.2f}"
    )

# %%
fig, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
for k, pair in enumerate(table.values()):
    for values, up, style, label in zip(
        pair, (0.1, -0.1), ("o", "s"), ("slides split", "patients kept"), strict=True
    ):
        color = "#c8553d" if style == "o" else "#33658a"
        label = label if k == 0 else None
        ax.plot(values, np.full(5, k) + up, style, c=color, label=label)
ax.axvline(0.5, c="0.4", ls=":")
ax.set(yticks=range(len(table)), yticklabels=list(table), ylim=(-0.5, 1.5))
ax.set(xlim=(0.2, 1.02), xlabel="AUROC (labels are random)")
ax.legend()
plt.show()
