"""
Writing a bag kernel
====================

A bag kernel is a function of two sets of bags that returns a matrix. Any such function
works in `BagSVC`, `BagKernelRidge`, and in every scikit-learn model with a precomputed
kernel.
"""

# %%
# This kernel measures the similarity of the *shapes* of two bags, independent of their
# position: a Gaussian of the distance between covariances. The value for two bags must
# not depend on other bags.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import SpectralClustering
from sklearn.model_selection import cross_val_score

from bagwise import Bags
from bagwise.kernels import set_kernel
from bagwise.svm import BagSVC


def shape_kernel(X, Y, gamma=0.5):
    """Return the similarity of covariances, one row per bag of X."""

    def shapes(bags):
        return np.array([np.cov(bag.T, bias=True).ravel() for bag in bags])

    a, b = shapes(X), shapes(Y)
    return np.exp(-gamma * ((a[:, None] - b[None]) ** 2).sum(axis=2))


# %%
# The simulated bags differ only in the direction of their largest variance.
rng = np.random.default_rng(0)
y = np.arange(120) % 2
bags = []
for label in y:
    mix = [[1.0, 0.8], [0.8, 1.0]] if label else [[1.0, -0.8], [-0.8, 1.0]]
    rows = rng.multivariate_normal([0, 0], mix, size=rng.integers(15, 30))
    bags.append(rows + rng.normal(scale=3, size=2))
X = Bags.from_list(bags)

for name, kernel in (("set kernel", "set"), ("shape kernel", shape_kernel)):
    scores = cross_val_score(BagSVC(kernel=kernel, C=10), X, y, cv=5)
    print(f"{name:13s} accuracy {scores.mean():.2f}")

# %%
# Other methods can use the matrix as well, for example to cluster bags without labels.
order = np.argsort(y, kind="stable")
K = shape_kernel(X[order], X[order])
found = SpectralClustering(2, affinity="precomputed", random_state=0).fit_predict(K)
agree = np.mean(found == y[order])
print(f"clusters agree with labels: {max(agree, 1 - agree):.2f}")

fig, axes = plt.subplots(1, 2, figsize=(8.5, 4), layout="constrained")
axes[0].imshow(set_kernel(X[order]), cmap="viridis")
axes[0].set_title("set kernel, bags sorted by label")
axes[1].imshow(K, cmap="viridis")
axes[1].set_title("shape kernel")
plt.show()
