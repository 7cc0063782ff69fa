"""
Inside BagClassifier
====================

`BagClassifier` is a stack: members that look at bags in different ways, weighed by how
well they predict bags they have not seen. This is what it looks like inside.
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
# What was planned for data of this size, and what was left out.
for name, value in model.plan_.items():
    if name == "costs":  # seconds of each member
        value = {member: round(seconds, 2) for member, seconds in value.items()}
    print(textwrap.fill(f"{name}: {value}", 84, subsequent_indent="    "))

# %%
# Out-of-fold areas of the members, and the weights they got. A good member may get a
# small weight because another one says the same.
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
# What each member adds to the score of single bags; the parts sum up to it.
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
# Do members that respect the standard assumption disagree with the others?
for name, value in model.assumption_check_.items():
    print(f"{name}: {value if isinstance(value, bool) else round(value, 2)}")
