"""
Single cells: donors are bags of cells
======================================

An AnnData object has one row per cell, and its table ``obs`` names the donor and the
disease. The example goes from such an object to a model, the types of cells that have
high scores, and scores in ``obs``. The cells are simulated: in ill donors, a tenth of
the T cells express two genes more.

Needs anndata: ``pip install "bagwise[anndata]"``.
"""

# %%
# The cells
# ---------
import anndata
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import bagwise
from bagwise.inspection import write_scores

rng = np.random.default_rng(0)
n_donors, n_cells, n_genes = 40, 60, 30
donor = np.repeat(np.arange(n_donors), n_cells)
ill = donor % 2 == 1
cell_type = rng.choice(["B", "NK", "T"], len(donor))
counts = rng.poisson(1.0, (len(donor), n_genes)).astype(np.float32)
active = ill & (cell_type == "T") & (rng.random(len(donor)) < 0.3)
counts[np.ix_(active, [3, 4])] += rng.poisson(5.0, (active.sum(), 2))
cells = anndata.AnnData(
    np.log1p(counts),
    obs=pd.DataFrame(
        {
            "donor": [f"D{d:02d}" for d in donor],
            "disease": np.where(ill, "ill", "well"),
            "cell_type": cell_type,
        },
        index=[f"cell{k}" for k in range(len(donor))],
    ),
    var=pd.DataFrame(index=[f"gene{k}" for k in range(n_genes)]),
)

# %%
# Bags
# ----
# A file is read by ``bagwise.read_bags("cells.h5ad", ...)`` with the same names.
roles = {"bag": "donor", "instance_type": "cell_type"}
X, y = bagwise.from_frame(cells, label="disease", pos_label="ill", **roles)
print(X)

# %%
# Compare
# -------
result = bagwise.compare(
    X,
    y,
    methods=["Mean + logistic", "WrapperMI (logistic)", "MILR", "miFV"],
    n_jobs=1,
    progress=False,
)
print(result.ranking_frame[["method", "mean", "low", "high"]].round(3))

# %%
# Scores of cells
# ---------------
# Three columns are written into ``obs``: the score, the rank within the donor, and the
# prediction for the donor.
model = result.fit_best().model
write_scores(model, cells, bag="donor")
found = cells.obs.assign(active=active)
by_type = found.groupby(["disease", "cell_type"])["bagwise_score"]
print(by_type.quantile([0.5, 0.95]).unstack().round(2))
top = found[found["bagwise_rank"] <= 3]
print(top.groupby("disease")["active"].mean().round(2))

fig, ax = plt.subplots(layout="constrained")
for name, part in found[found["disease"] == "ill"].groupby("cell_type"):
    ax.hist(part["bagwise_score"], bins=30, histtype="step", label=f"{name} cells")
ax.set(xlabel="score of the cell", ylabel="cells of ill donors")
ax.legend()
plt.show()
