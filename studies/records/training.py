"""Networks of all folds trained at once, with their scores after every epoch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from bagwise.bags import Bags
from bagwise.neural.engine.layers import NO_NOISE, Noise
from bagwise.neural.engine.losses import Goal
from bagwise.neural.engine.network import (
    POOLINGS,
    Shape,
    bag_scores,
    initial_weights,
    pooled,
)
from bagwise.neural.engine.segments import Segments

EPOCHS, RATE, DECAY, DROPOUT, BAGS = 80, 1e-3, 1e-2, 0.5, 8
WIDTH, ATTENTION = 64, 32
CPU = torch.device("cpu")
# Mean and maximum of a bag as one instance, or a pooling of the library.
NETWORKS = {
    "mean+max network": ("mean", "pooled"),
    "ABMIL": ("gated", "pooled"),
    "DSMIL": ("dsmil", "pooled"),
}


def mean_and_max(X: Bags) -> Bags:
    """Return bags of one instance: the mean and the maximum of each feature."""
    rows = [np.concatenate([bag.mean(0), bag.max(0)]) for bag in X]
    return Bags(np.array(rows), np.arange(len(X) + 1))


def standardized(X: Bags, masks: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """Return scale and shift of each fold, from its training instances."""
    rows = X.data
    scales, shifts = [], []
    for mask in masks:
        seen = rows[np.repeat(mask, X.sizes)]
        spread = seen.std(0)
        spread = np.where(spread > 1e-12, spread, 1.0)
        scales.append(1.0 / spread)
        shifts.append(-seen.mean(0) / spread)
    return torch.as_tensor(np.array(scales)), torch.as_tensor(np.array(shifts))


def epoch_scores(name: str, X: Bags, y: Any, masks: Any, seed: int) -> np.ndarray:
    """Train one network per fold and return its scores after every epoch.

    Parameters
    ----------
    name : str
        One of `NETWORKS`.
    X : Bags
        All bags.
    y : bool array of shape (n_bags,)
        Their labels.
    masks : bool array of shape (n_folds, n_bags)
        Training bags of each fold.
    seed : int
        Of the weights, the order and the dropout.

    Returns
    -------
    array of shape (n_epochs, n_folds, n_bags)
    """
    pooling, head = NETWORKS[name]
    X = mean_and_max(X) if name.startswith("mean+max") else X
    shape = Shape(X.n_features, 1, (WIDTH,), ATTENTION, pooling, head)
    seeds = np.random.default_rng(seed).integers(2**31, size=len(masks))
    weights = {
        key: w.float().requires_grad_()
        for key, w in initial_weights(shape, seeds).items()
    }
    optimizer = torch.optim.AdamW(
        weights.values(), lr=RATE, weight_decay=DECAY, fused=True
    )
    x = torch.tensor(X.data, dtype=torch.float32)
    affine = [a.float() for a in standardized(X, masks)]
    target = torch.as_tensor(y).float()[:, None, None]
    seen = torch.as_tensor(masks.T).float()
    noise = Noise(
        np.full(len(masks), 1.0 - DROPOUT),
        torch.Generator().manual_seed(seed),
        CPU,
        torch.float32,
    )
    order = np.random.default_rng(seed)
    offsets, found = X.offsets, []
    for _ in range(EPOCHS):
        for bags in np.array_split(order.permutation(len(X)), -(-len(X) // BAGS)):
            rows = np.concatenate([np.arange(*offsets[b : b + 2]) for b in bags])
            segments = Segments.of(X.sizes[bags], CPU)
            given = (shape, weights, x[rows], segments, noise, affine)
            task = Goal("logistic", target[bags], seen[bags])
            if pooling in POOLINGS:
                made = pooled(*given)
                losses = POOLINGS[pooling].losses(shape, made, segments, task)
            else:
                losses = task.losses(bag_scores(*given))
            optimizer.zero_grad()
            ((losses * seen[bags]).sum() / len(bags)).backward()
            optimizer.step()
        with torch.no_grad():
            whole = Segments.of(X.sizes, CPU)
            scores = bag_scores(shape, weights, x, whole, NO_NOISE, affine)
        found.append(scores[:, :, 0].T.numpy())
    return np.array(found)
