"""
Explaining a bag: instances, features and faithfulness
======================================================

This example computes importances of instances for several models, tests whether they
are faithful to the model, and computes importances of features. The truth is known: the
first feature of one instance makes a bag positive.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

from bagwise.datasets import make_bags
from bagwise.inspection import (
    bag_permutation_importance,
    faithfulness,
    feature_contributions,
    instance_importance,
    plot_bag_contributions,
    plot_feature_importance,
)
from bagwise.metrics import key_instance_success
from bagwise.svm import MISVM, BagSVC

X, y, truth = make_bags(
    160, shift=3.0, n_features=6, random_state=0, return_instance_labels=True
)
train, test = np.arange(100), np.arange(100, 160)
models = {"MI-SVM": MISVM(kernel="linear"), "EMD kernel": BagSVC(kernel="emd")}
for model in models.values():
    model.fit(X[train], y[train])

# %%
# Instances: four kinds of importance, and how often the top instance is the true one.
positive = test[y[test] == 1]
for name, model in models.items():
    for way in ("native", "single", "leave_out"):
        try:
            values = instance_importance(model, X[positive], way)
        except (AttributeError, TypeError, ValueError) as error:
            told = str(error).partition(":")[0]
            print(f"{name:11s} {way:10s} not possible: {told}")
            continue
        top = key_instance_success(truth[positive], values)
        told = faithfulness(model, X[positive], values)
        print(f"{name:11s} {way:10s} top is true {top:.0%}, {told.verdict}")

# %%
# Features: permutation importance over all instances, and contributions for one bag.
falls = bag_permutation_importance(models["MI-SVM"], X[test], y[test], random_state=0)
parts = feature_contributions(models["MI-SVM"], X[test])
fig, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
plot_feature_importance(falls, ax=axes[0])
plot_bag_contributions(parts, int(np.flatnonzero(y[test])[0]), ax=axes[1])
plt.show()
