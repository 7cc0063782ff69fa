"""
Inside BagClassifier
====================

`BagClassifier` is a stack of members that use bags in different ways. Members are
weighted by their out-of-fold predictions. This example shows the members, their weights
and their contributions.
"""

# %%
import textwrap

import matplotlib.pyplot as plt
import numpy as np

from bagwise import BagClassifier
from bagwise.datasets import load_digit_bags
from bagwise.inspection import member_contributions

X, y = load_digit_bags(90, random_state=0, return_X_y=True)
train, test = np.arange(60), np.arange(60, 90)
model = BagClassifier(random_state=0).fit(X[train], y[train])
print(f"accuracy on new bags {model.score(X[test], y[test]):.2f}")

# %%
# The plan for data of this size, and the members that were excluded.
for name, value in model.plan_.items():
    if name == "costs":  # seconds of each member
        value = {member: round(seconds, 2) for member, seconds in value.items()}
    print(textwrap.fill(f"{name}: {value}", 84, subsequent_indent="    "))

# %%
# Out-of-fold AUROC and weight of each member. A good member may get a small weight if
# another member gives similar scores.
names = list(model.member_weights_)
weights = np.array([np.mean(model.member_weights_[name]) for name in names])
areas = np.array([np.mean(model.member_scores_[name]) for name in names])
order = np.argsort(weights)
fig, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True, layout="constrained")
axes[0].barh(np.array(names)[order], areas[order], color="#33658a")
axes[0].set(xlim=(0.4, 1), xlabel="AUROC out of fold")
axes[1].barh(np.array(names)[order], weights[order], color="#c8553d")
axes[1].set(xlabel="weight")
plt.show()

# %%
# The contribution of each member to the score of single bags. The contributions add up
# to the score.
parts = member_contributions(model, X[test])
fig, ax = plt.subplots(figsize=(9, 3.6), layout="constrained")
by_score = np.argsort(parts.scores)
high, low = np.zeros(len(test)), np.zeros(len(test))
for k, name in enumerate(parts.names):
    value = parts.values[by_score, k]
    ax.bar(range(len(test)), value, bottom=np.where(value > 0, high, low), label=name)
    high, low = high + np.maximum(value, 0), low + np.minimum(value, 0)
ax.plot(range(len(test)), parts.scores[by_score], "k.-", lw=1, label="score")
ax.set(xlabel="new bags by score", ylabel="contribution")
ax.legend(fontsize=7, ncols=3)
plt.show()

# %%
# Compare the members that respect the standard assumption with the others.
for name, value in model.assumption_check_.items():
    print(f"{name}: {value if isinstance(value, bool) else round(value, 2)}")
