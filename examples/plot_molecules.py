"""
Molecules that must bind at several sites
=========================================

A molecule binds if its conformers fit *every* site of a receptor: no single instance
determines the label. The example compares methods that search for one witness with
methods that use the whole bag. The molecules are simulated with energies of a Lennard-
Jones potential, so that the truth is known.
"""

# %%
import matplotlib.pyplot as plt
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline

from bagwise.compose import OnInstances, SimpleMI
from bagwise.datasets import make_multi_site_binding
from bagwise.linear_model import MILogisticRegression
from bagwise.svm import MISVM, BagSVC, BoxKernelSVC

X, y = make_multi_site_binding(300, variant="B", random_state=0)
print(X, f"{y.mean():.0%} bind")

# %%
# Five methods. Three of them use the whole bag.
models = {
    "MI-SVM, one witness": MISVM(),
    "MILR, one witness": MILogisticRegression(pooling="max", random_state=0),
    "SimpleMI, the mean": SimpleMI(),
    "Set kernel": BagSVC(kernel="set", C=10),
    "Box kernel": BoxKernelSVC(random_state=0),
}
areas = {}
for name, model in models.items():
    fitted = make_pipeline(OnInstances(), model).fit(X[:200], y[:200])
    areas[name] = roc_auc_score(y[200:], fitted.decision_function(X[200:]))
    print(f"{name:22s} {areas[name]:.3f}")

# %%
fig, ax = plt.subplots(figsize=(6.5, 3), layout="constrained")
ax.barh(list(areas), list(areas.values()), color="#33658a")
ax.axvline(0.5, c="0.4", ls=":")
ax.set(xlim=(0.3, 1), xlabel="AUROC on new molecules")
ax.invert_yaxis()
plt.show()
