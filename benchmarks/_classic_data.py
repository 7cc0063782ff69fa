"""Bags for the benchmarks of the classic methods."""

import os

import numpy as np

from bagwise import Bags

# Shape of the data sets: bags, instances of a bag on average, features.
SHAPES = {"musk1": (92, 5, 166), "elephant": (200, 7, 230), "musk2": (102, 65, 166)}


def load(name):
    """Return standardised bags and labels, artificial ones where a set is absent."""
    try:
        from bagwise.datasets import fetch

        if not os.environ.get("BAGWISE_DATA"):
            raise OSError("BAGWISE_DATA is not set")
        X, y = fetch(name, return_X_y=True)
    except (OSError, ValueError) as error:
        print(f"{name}: artificial bags of the same shape ({error})")
        X, y = artificial(*SHAPES[name])
    spread = X.data.std(axis=0)
    scaled = (X.data - X.data.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return X.with_data(scaled), np.asarray(y)


def artificial(n_bags, size, width, seed=0):
    """Return bags of normal instances, one of them shifted in every positive bag."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_bags) % 2
    data = rng.normal(size=(n_bags * size, width))
    data[np.flatnonzero(y) * size, : width // 4] += 1.0
    return Bags(data, np.arange(0, n_bags * size + 1, size)), y
