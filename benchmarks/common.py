"""Data and settings that the benchmarks share."""

import os
import time
import warnings

import numpy as np

from bagwise import Bags
from bagwise.datasets import fetch


class Benchmark:
    """Settings of all benchmarks: processor seconds, the least of a few calls.

    The first values of `params` are the smallest case, which the tests run once.
    """

    timer = staticmethod(time.process_time)
    timeout = 900.0
    number = 1
    repeat = (1, 3, 20.0)
    warmup_time = 0.0

    def setup(self, *params):
        """Silence warnings: few iterations are often enough for a time."""
        warnings.simplefilter("ignore")


def seconds(function, repeats=3):
    """Return the least processor seconds of several calls."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def classic(name):
    """Return z-scored bags and labels of a classic set; without its file, skip.

    Parameters
    ----------
    name : str
        A set in the folder that ``BAGWISE_DATA`` names.
    """
    if not os.environ.get("BAGWISE_DATA"):
        raise NotImplementedError("BAGWISE_DATA names no folder of data")
    try:
        X, y = fetch(name, return_X_y=True, download_if_missing=False)
    except FileNotFoundError as error:
        raise NotImplementedError(str(error)) from error
    spread = X.data.std(axis=0)
    scaled = (X.data - X.data.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return X.with_data(scaled), np.asarray(y)


def gaussian(n_bags, size, n_features, *, shift=1.0, seed=0):
    """Return bags of normal instances; one of each positive bag is shifted."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_bags) % 2
    rows = rng.standard_normal((n_bags * size, n_features))
    rows[np.flatnonzero(y) * size, : max(1, n_features // 4)] += shift
    return Bags(rows, np.arange(0, n_bags * size + 1, size)), y


def slides(folder, n_slides, size, n_features):
    """Return slides on a memory map in half precision; a tenth of some is shifted."""
    path = os.path.join(folder, "slides.npy")
    shape = (n_slides * size, n_features)
    out = np.lib.format.open_memmap(path, mode="w+", dtype=np.float16, shape=shape)
    rng = np.random.default_rng(0)
    for k in range(n_slides):
        rows = rng.standard_normal((size, n_features), dtype=np.float32)
        rows[: size // 10 * (k % 2), :10] += 1.5
        out[k * size : (k + 1) * size] = rows
    out.flush()
    X = Bags(np.load(path, mmap_mode="r"), size * np.arange(n_slides + 1))
    return X, np.arange(n_slides) % 2
