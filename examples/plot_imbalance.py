"""
Few positive bags
=================

One bag in ten is positive. Default thresholds aim at accuracy, for which "negative" is
a good answer for nearly every bag. Class weights, or a threshold chosen for another
metric, find the positive bags. The figure shows the loss of precision.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import PrecisionRecallDisplay, balanced_accuracy_score
from sklearn.metrics import recall_score as recall
from sklearn.model_selection import TunedThresholdClassifierCV

from bagwise.datasets import make_bags
from bagwise.linear_model import MILogisticRegression

X, y = make_bags(900, bag_size=(8, 15), shift=3.0, random_state=0)
keep = np.r_[np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:50]]
keep = np.random.default_rng(0).permutation(keep)
X, y = X[keep], y[keep]
train, test = slice(0, 250), slice(250, None)
print(f"{y.mean():.0%} of the bags are positive")

# %%
plain = MILogisticRegression(random_state=0)
models = {
    "plain": plain,
    "balanced": MILogisticRegression(class_weight="balanced", random_state=0),
    "tuned threshold": TunedThresholdClassifierCV(
        plain, scoring="balanced_accuracy", cv=3
    ),
}
fig, ax = plt.subplots(figsize=(5.5, 4), layout="constrained")
for name, model in models.items():
    found = model.fit(X[train], y[train]).predict(X[test])
    print(
        f"{name:10s} finds {recall(y[test], found):.0%} of the positive bags, "
        f"balanced accuracy {balanced_accuracy_score(y[test], found):.2f}"
    )
    scores = model.predict_proba(X[test])[:, 1]
    if name != "tuned threshold":
        PrecisionRecallDisplay.from_predictions(y[test], scores, ax=ax, name=name)
    precision = np.mean(y[test][found == 1]) if found.any() else np.nan
    ax.plot(recall(y[test], found), precision, "o", ms=9, label=f"threshold of {name}")
ax.legend(fontsize=8)
plt.show()
