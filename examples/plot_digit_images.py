"""
Bags of images: which bags contain a nine?
==========================================

A bag of handwritten digits is positive if it contains a nine. The model is trained on
labels of bags only. Its instance scores then show which image it considers positive.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline

from bagwise.compose import OnInstances
from bagwise.datasets import load_digit_bags
from bagwise.inspection import instance_scores
from bagwise.metrics import instance_roc_auc
from bagwise.svm import MISVM

digits = load_digit_bags(200, positive=9, random_state=0)
X, y = digits.X, digits.y
train, test = np.arange(140), np.arange(140, 200)
model = make_pipeline(OnInstances(), MISVM(C=10.0)).fit(X[train], y[train])
area = roc_auc_score(y[test], model.decision_function(X[test]))
print(f"AUROC of bags {area:.3f}")

# %%
# No image was labeled in training.
scores = instance_scores(model, X[test])
area = instance_roc_auc(digits.instance_labels[test], scores)
print(f"AUROC of images {area:.3f}")

# %%
# Six held-out positive bags with their images, sorted by decreasing score.
fig, axes = plt.subplots(6, 8, figsize=(7, 5.6), layout="constrained")
shown = test[y[test] == 1][:6]
for row, i in zip(axes, shown, strict=True):
    values = instance_scores(model, X[[i]]).values
    order = np.argsort(values)[::-1]
    for ax in row:
        ax.axis("off")
    for ax, j in zip(row, order, strict=False):
        ax.imshow(X[i][j].reshape(8, 8), cmap="gray_r")
        ax.set_title(f"{values[j]:.1f}", fontsize=8)
fig.suptitle("Instance scores in held-out positive bags")
plt.show()
