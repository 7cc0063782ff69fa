"""
Your own CSV file
=================

The table has one row per instance, a column that names the bag, and a label. The
example goes from the file to a ranking, a model and an explanation. The table is
simulated, so that the example runs anywhere. Replace it by your own file.
"""

# %%
# The table
# ---------
# 60 shipments of fruit (bags) with some measured pieces each (instances). A shipment
# is refused if it contains a rotten piece: soft and dark. It is not recorded which one.
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import bagwise
from bagwise.inspection import explain
from bagwise.report import plot_ranking

rng = np.random.default_rng(0)
rows = []
for shipment in range(60):
    refused = shipment % 2 == 0
    for piece in range(rng.integers(6, 15)):
        rotten = refused and piece == 0
        rows.append(
            {
                "shipment": f"S{shipment:02d}",
                "farm": f"F{shipment // 4}",
                "verdict": "refused" if refused else "taken",
                "firmness": rng.normal(4.5 if rotten else 7.0, 1.0),
                "darkness": rng.normal(6.0 if rotten else 3.0, 1.0),
                "weight": rng.normal(150, 20),
            }
        )
folder = Path(tempfile.mkdtemp())
pd.DataFrame(rows).to_csv(folder / "fruit.csv", index=False)

# %%
# Bags
# ----
# Farms are groups: shipments of one farm are similar and stay in the same fold.
X, y = bagwise.read_bags(
    folder / "fruit.csv", bag="shipment", label="verdict", group="farm"
)
print(X)
print(pd.Series(y).value_counts().to_dict())

# %%
# Compare methods
# ---------------
# Three methods here. Without `methods`, all methods that suit the data are compared.
result = bagwise.compare(
    X,
    y,
    pos_label="refused",
    methods=["SimpleMI", "WrapperMI (logistic)", "MI-SVM (linear)", "MILR"],
    n_jobs=1,
    progress=False,
)
print(result.ranking_frame[["method", "mean", "low", "high"]].round(3))
plot_ranking(result)
plt.show()

# %%
# Explain
# -------
# The best method, fitted on all bags, and the key instance of each refused shipment.
model = result.fit_best().model
found = explain(model, X).to_frame()
keys = found[found["key"] & (found["bag_label"] == "refused")]
print(keys.head())

first = dict(zip(X.ids, X.offsets[:-1], strict=True))
where = [first[bag] + i for bag, i in keys[["bag", "instance"]].to_numpy()]
rows = X.data[where]
fig, ax = plt.subplots(layout="constrained")
ax.scatter(*X.data[:, :2].T, s=12, c="0.7", label="all pieces")
ax.scatter(*rows[:, :2].T, s=40, fc="none", ec="#c8553d", label="key pieces")
ax.set(xlabel=X.feature_names[0], ylabel=X.feature_names[1])
ax.legend()
plt.show()
