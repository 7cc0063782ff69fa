"""
Fitting from parts, as on a cluster
===================================

`bagwise.distributed` fits from parts that contain whole bags: files on several
computers, or functions that return bags. Each task returns a small result, the results
are summed, and the model equals that of a local fit up to rounding. Without a running
client it uses threads of this process, as in this example. With
``dask.distributed.Client("scheduler:8786")`` the same code runs on a cluster.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from bagwise.datasets import make_bags
from bagwise.distributed import fit, predict, score
from bagwise.least_squares import SAFE

X, y = make_bags(600, n_features=10, random_state=0)
edges = np.arange(0, 601, 75)
parts = [(X[a:b], y[a:b]) for a, b in zip(edges[:-1], edges[1:], strict=True)]
print(len(parts), "parts of", len(parts[0][0]), "bags")

# %%
# Fit on the parts, and on all bags at once.
model = SAFE(n_components=60, random_state=0)
apart = fit(model, parts[:6])
together = SAFE(n_components=60, random_state=0).fit(X[:450], y[:450])
a, b = apart.decision_function(X[450:]), together.decision_function(X[450:])
print(f"largest difference of scores {np.abs(a - b).max():.1e}")
print(f"accuracy on two held-out parts {score(apart, parts[6:]):.3f}")

# %%
fig, ax = plt.subplots(figsize=(4.4, 4), layout="constrained")
ax.plot(b, a, ".", c="#33658a")
ax.axline((0, 0), slope=1, c="0.5", lw=1)
ax.set(xlabel="score, fitted in one piece", ylabel="score, fitted from parts")
plt.show()

# %%
# Predictions are in the order of the parts.
print(np.asarray(predict(apart, parts[6:]))[:10])
