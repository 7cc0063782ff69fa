"""
Writing a method in ten steps
=============================

A new classifier needs two functions: one learns from bags with labels -1 and +1, and
one scores instances. Multiclass problems, class weights, thresholds, key instances and
scikit-learn's rules are handled by the base class. In the example method, instances are
positive if they are near the mean of "the most unusual instance of each positive bag".
"""

# %%
# 1. Derive from a base class of `bagwise.base`.
# 2. Describe the parameters in the docstring.
# 3. Declare the valid values in `_parameter_constraints`.
# 4. `__init__` only stores its arguments.
# 5. `_fit_binary` gets validated bags, labels -1 and +1, and weights of bags.
# 6. `_score_instances` is high for the positive class. A bag gets the maximum.
# 7. Set the tags that differ from the defaults.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_score

from bagwise import Bags
from bagwise.bags.segments import segment_argmax
from bagwise.base import WeightedBagClassifier
from bagwise.compose import SimpleMI
from bagwise.datasets import make_bags
from bagwise.svm import MISVM
from bagwise.testing import mil_assumptions


class UnusualInstance(WeightedBagClassifier):
    """Positive is what is near the unusual instances of positive bags."""

    _parameter_constraints: dict = {"width": [float, int]}

    def __init__(
        self, width=1.0, *, threshold="train", class_weight=None, pos_label=None
    ):
        self.width = width
        self.threshold = threshold
        self.class_weight = class_weight
        self.pos_label = pos_label

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.asymmetric = True
        return tags

    def _fit_binary(self, X, t, bag_weight):
        negative = X[np.flatnonzero(t < 0)].data
        center, spread = negative.mean(axis=0), negative.std(axis=0) + 1e-9
        positive = X[np.flatnonzero(t > 0)]
        away = (((positive.data - center) / spread) ** 2).sum(axis=1)
        witnesses = positive.data[segment_argmax(away, positive.offsets)]
        weight = bag_weight[t > 0]
        self.target_ = np.average(witnesses, axis=0, weights=weight)
        self.scale_ = spread

    def _score_instances(self, X):
        away = (((X.data - self.target_) / self.scale_) ** 2).sum(axis=1)
        return np.exp(-away / (2 * self.width**2 * X.n_features))


# %%
# 8. Fit it. It can be tuned, compared and explained like any other method.
X, y = make_bags(120, n_features=2, random_state=0)
model = UnusualInstance().fit(X[:80], y[:80])
print(f"AUROC {roc_auc_score(y[80:], model.decision_function(X[80:])):.3f}")
print("key instances", model.key_instances(X[80:84]))

# %%
# 9. Test what it assumes about bags.
found = mil_assumptions(UnusualInstance(), n_repeats=1, n_bags=100)
print({name: found[name].verdict for name in ("presence", "frequency")}, found.label)

# %%
# 10. Compare it with others on the same folds, and plot it. `compare` accepts it as
#     ``("unusual", UnusualInstance())``.
for other in (SimpleMI(), MISVM(kernel="linear"), UnusualInstance()):
    scores = cross_val_score(other, X, y, cv=5)
    print(f"{type(other).__name__:16s} {scores.mean():.3f}")

line = np.linspace(-4, 7, 60)
grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
points = Bags(grid, np.arange(len(grid) + 1))
fig, ax = plt.subplots(figsize=(5, 4), layout="constrained")
ax.contourf(line, line, model.decision_function(points).reshape(60, 60), cmap="RdBu_r")
ax.scatter(*X.data.T, s=8, c=np.where(y[X.bag_index] == 1, "#c8553d", "#33658a"))
plt.show()
