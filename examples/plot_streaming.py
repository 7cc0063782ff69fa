"""
More rows than memory: bags on a memory map
===========================================

Rows in a file are memory-mapped instead of read. Methods that need only sums over bags
process them in chunks, and folds and selections of bags stay on disk. The file in this
example is small, but the code is the same for 100 GB.
"""

# %%
import tempfile
import tracemalloc
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.utils import get_tags

from bagwise import Bags
from bagwise.compose import SimpleMI
from bagwise.datasets import make_bags
from bagwise.least_squares import SAFE
from bagwise.linear_model import MILogisticRegression

drawn, y = make_bags(
    1500, n_features=32, bag_size=(40, 80), n_witnesses=10, random_state=0
)
path = Path(tempfile.mkdtemp()) / "rows.npy"
np.save(path, drawn.data.astype(np.float16))  # half precision, as features often are
X = Bags(np.load(path, mmap_mode="r"), drawn.offsets)
print(X, X.dtype, f"{path.stat().st_size / 1e6:.0f} MB on disk")

# %%
# A tag indicates which methods read data in chunks.
models = {
    "SAFE": SAFE(kernel="linear", aggregation="mean"),
    "SimpleMI": SimpleMI(),
    "MILR": MILogisticRegression(max_iter=30, n_init=1, random_state=0),
}
for name, model in models.items():
    print(f"{name:9s} in pieces: {get_tags(model).input_tags.chunked}")

# %%
# Fit on 1,200 bags that are never loaded into memory as a whole.
train, test = np.arange(1200), np.arange(1200, 1500)
peaks, right = {}, {}
for name, model in models.items():
    tracemalloc.start()
    model.fit(X[train], y[train])
    peaks[name] = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    right[name] = model.score(X[test], y[test])
    print(f"{name:9s} accuracy {right[name]:.2f}, at most {peaks[name]:.0f} MB")

# %%
fig, ax = plt.subplots(figsize=(6, 2.8), layout="constrained")
ax.barh(list(peaks), list(peaks.values()), color="#33658a")
ax.axvline(drawn.data.nbytes / 1e6, c="#c8553d", label="all rows in float64")
ax.set(xlabel="largest memory of the fit, MB")
ax.legend()
plt.show()
