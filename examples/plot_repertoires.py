"""
Immune repertoires: persons are bags of sequences
=================================================

A folder has one AIRR table of rearrangements per person, and a table contains the
labels. The instances are the different CDR3 sequences of a person, described by counts
of their k-mers, weighted by the number of copies. The repertoires are simulated: in
cases, some sequences contain a motif of four residues.
"""

# %%
# The files
# ---------
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import bagwise
from bagwise.datasets import make_repertoires
from bagwise.inspection import instance_scores

folder = Path(tempfile.mkdtemp())
labels, motif = make_repertoires(
    folder, 60, 200, rate=0.03, motif="WMHY", random_state=0
)
print(labels.read_text(encoding="utf-8").splitlines()[:3])
print((folder / "p000.tsv").read_text(encoding="utf-8").splitlines()[:2])

# %%
# Bags
# ----
X, y = bagwise.read_bags(
    folder,
    bag="person",
    label="status",
    pos_label="case",
    format="airr",
    labels=labels,
    kmer=3,
)
print(X)

# %%
# Compare
# -------
result = bagwise.compare(
    X,
    y,
    methods=["Mean + L1 SVM", "SimpleMI"],
    n_jobs=1,
    progress=False,
)
print(result.ranking_frame[["method", "mean", "low", "high"]].round(3))

# %%
# Sequences with the highest scores
# ---------------------------------
# The sequences are from persons whose data were not used to fit the model.
train, test = np.arange(60) < 40, np.arange(60) >= 40
model = result.fit_best().model.fit(X[train], y[train])
scores = instance_scores(model, X[test]).values
names = X[test].instance_ids
marked = np.array([motif in name for name in names])
for k in np.argsort(-scores)[:10]:
    print(f"{names[k]:<20} {scores[k]:6.2f} {'motif' if marked[k] else ''}")

fig, ax = plt.subplots(layout="constrained")
bins = np.linspace(scores.min(), scores.max(), 40)
for label, of in (("with the motif", marked), ("without", ~marked)):
    ax.hist(scores[of], bins, density=True, alpha=0.6, label=label)
ax.set(xlabel="score of the sequence", ylabel="density")
ax.legend()
plt.show()
