"""
More than two classes
=====================

Every classifier accepts any number of classes, either natively or by one model per
class against the rest. In this example the position of a single instance determines one
of five classes.
"""

# %%
import matplotlib.pyplot as plt
from sklearn.metrics import ConfusionMatrixDisplay, accuracy_score

from bagwise.compose import WrapperMI
from bagwise.datasets import make_bags
from bagwise.svm import MISVM, BagSVC

X, y = make_bags(300, n_classes=5, n_features=2, shift=4.0, random_state=0)
train, test = slice(0, 200), slice(200, None)
models = {
    "MI-SVM": MISVM(C=10.0),
    "Set kernel": BagSVC(kernel="set", C=10.0),
    "WrapperMI": WrapperMI(),
}
for name, model in models.items():
    model.fit(X[train], y[train])
    print(f"{name:13s} {accuracy_score(y[test], model.predict(X[test])):.2f}")

# %%
# The confusion matrix.
fig, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for ax, name in zip(axes, ["MI-SVM", "WrapperMI"], strict=True):
    ConfusionMatrixDisplay.from_estimator(
        models[name], X[test], y[test], ax=ax, colorbar=False
    )
    ax.set_title(name)
plt.show()
