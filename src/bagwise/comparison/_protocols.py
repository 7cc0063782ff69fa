"""How bags are split into training and test sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit

__all__ = [
    "half_splits",
    "leave_one_bag_out",
    "list_folds",
    "repeated_kfold",
    "split",
    "train_test",
    "two_way",
]

Protocol = dict[str, Any]
Indices = NDArray[np.int64]


def repeated_kfold(n_splits: int = 5, n_repeats: int = 1) -> Protocol:
    """Stratified k-fold cross-validation, shuffled anew in each repeat."""
    if n_splits < 2 or n_repeats < 1:
        raise ValueError(
            "repeated_kfold needs n_splits >= 2 and n_repeats >= 1, got"
            f" {n_splits} and {n_repeats}"
        )
    return {"kind": "kfold", "n_splits": int(n_splits), "n_repeats": int(n_repeats)}


def half_splits(n_repeats: int = 10) -> Protocol:
    """Random stratified halves: one for training, one for testing."""
    if n_repeats < 1:
        raise ValueError(f"half_splits needs n_repeats >= 1, got {n_repeats}")
    return {"kind": "half", "n_repeats": int(n_repeats)}


def leave_one_bag_out() -> Protocol:
    """Train on all bags but one, test on that one, for each bag."""
    return {"kind": "loo"}


def train_test(n_train: int) -> Protocol:
    """Train on the first `n_train` bags, test on the others (two files)."""
    if n_train < 2:
        raise ValueError(f"train_test needs at least 2 training bags, got {n_train}")
    return {"kind": "train_test", "n_train": int(n_train)}


def two_way(n_positive: int = 20, n_negative: int = 8) -> Protocol:
    """Folds of the two classes crossed, training on one fold of the negative bags.

    Positive bags are cut into `n_positive` folds, negative ones into `n_negative`. A
    run trains on the positive bags outside one fold and the negative bags of *one*
    fold, and is tested on all others. The fold of positive bags is the fold of the
    run, the fold of negative bags its repeat.

    Parameters
    ----------
    n_positive, n_negative : int
        Folds of the positive and of the negative bags (the smaller label).
    """
    if n_positive < 2 or n_negative < 2:
        raise ValueError(
            "two_way needs at least 2 folds of each class, got"
            f" {n_positive} and {n_negative}"
        )
    return {
        "kind": "two_way",
        "n_positive": int(n_positive),
        "n_negative": int(n_negative),
    }


def describe(protocol: Mapping[str, Any]) -> str:
    """Say in words how bags are split."""
    kind = protocol["kind"]
    if kind == "kfold":
        repeats = protocol["n_repeats"]
        times = "" if repeats == 1 else f"{repeats} x "
        return f"{times}{protocol['n_splits']}-fold cross-validation"
    if kind == "half":
        return f"{protocol['n_repeats']} random half splits"
    if kind == "loo":
        return "leave-one-bag-out"
    if kind == "two_way":
        return (
            f"{protocol['n_positive']} positive x {protocol['n_negative']} negative"
            " folds, training on one negative fold"
        )
    return f"one split: {protocol['n_train']} training bags, the others for testing"


def list_folds(protocol: Mapping[str, Any], n_bags: int) -> list[tuple[int, int]]:
    """Return the ``(repeat, fold)`` pairs of a protocol."""
    kind = protocol["kind"]
    if kind == "kfold":
        repeats, folds = protocol["n_repeats"], protocol["n_splits"]
    elif kind == "half":
        repeats, folds = protocol["n_repeats"], 1
    elif kind == "loo":
        repeats, folds = 1, n_bags
    elif kind == "two_way":
        repeats, folds = protocol["n_negative"], protocol["n_positive"]
    elif kind == "train_test":
        repeats, folds = 1, 1
    else:
        raise ValueError(
            f"unknown protocol {kind!r}; known: kfold, half, loo, train_test, two_way"
        )
    return [(repeat, fold) for repeat in range(repeats) for fold in range(folds)]


def split(
    protocol: Mapping[str, Any], y: NDArray[Any], repeat: int, fold: int, seed: int
) -> tuple[Indices, Indices]:
    """Return the training and test bags of one fold.

    The same protocol, labels and seed give the same split on every machine, and all
    methods see the same splits, so that their results can be compared in pairs.
    """
    n_bags = len(y)
    every = np.arange(n_bags, dtype=np.int64)
    kind = protocol["kind"]
    if kind == "loo":
        return np.delete(every, fold), every[fold : fold + 1]
    if kind == "train_test":
        n_train = protocol["n_train"]
        return every[:n_train], every[n_train:]
    if kind == "two_way":
        return _split_two_way(protocol, y, repeat, fold, seed)
    state = 10_007 * seed + repeat
    if kind == "kfold":
        splitter = StratifiedKFold(
            protocol["n_splits"], shuffle=True, random_state=state
        )
    elif kind == "half":
        splitter = StratifiedShuffleSplit(1, test_size=0.5, random_state=state)
    else:
        raise ValueError(
            f"unknown protocol {kind!r}; known: kfold, half, loo, train_test, two_way"
        )
    folds = list(splitter.split(np.zeros((n_bags, 1)), y))
    train, test = folds[fold]
    return train.astype(np.int64), np.sort(test).astype(np.int64)


def _split_two_way(
    protocol: Mapping[str, Any], y: NDArray[Any], repeat: int, fold: int, seed: int
) -> tuple[Indices, Indices]:
    positive = np.asarray(y == np.unique(y)[-1])
    rng = np.random.default_rng(seed)  # one shuffle for all runs of the protocol
    own = rng.permutation(np.flatnonzero(positive))
    other = rng.permutation(np.flatnonzero(~positive))
    held_out = np.array_split(own, protocol["n_positive"])[fold]
    seen = np.array_split(other, protocol["n_negative"])[repeat]
    train = np.concatenate([np.setdiff1d(own, held_out), seen])
    test = np.setdiff1d(np.arange(len(y)), train)
    return np.sort(train).astype(np.int64), test.astype(np.int64)


def check_size(protocol: Mapping[str, Any], y: NDArray[Any], inner: int) -> None:
    """Refuse data that are too small for a protocol, and say what would do.

    Parameters
    ----------
    protocol : dict
        The outer splits.
    y : ndarray of shape (n_bags,)
        Labels.
    inner : int
        Folds of the inner cross-validation, 0 without tuning.
    """
    classes, counts = np.unique(y, return_counts=True)
    if len(classes) < 2:
        only = f"all {len(y)} bags have label {classes[0]}" if len(y) else "no bags"
        raise ValueError(f"the data have one class only ({only}); two are needed")
    smallest = int(counts.min())
    rare = str(classes[int(counts.argmin())])
    kind = protocol["kind"]
    need = 2
    if kind == "kfold":
        need = protocol["n_splits"]
        if inner:  # a training fold must feed every inner fold
            need = max(need, int(np.ceil(inner * need / (need - 1))))
    elif kind == "half":
        need = max(2, 2 * inner)
    elif kind == "loo":
        need = max(2, inner + 1)
    elif kind == "two_way":
        # One negative fold, and all positive folds but one, must feed every inner fold.
        positive = counts[-1] - int(np.ceil(counts[-1] / protocol["n_positive"]))
        negative = (len(y) - counts[-1]) // protocol["n_negative"]
        smallest, need = int(min(positive, negative)), max(1, inner)
    else:
        n_train = protocol["n_train"]
        if n_train >= len(y):
            raise ValueError(
                f"train_test needs bags to test on: {n_train} training bags of {len(y)}"
            )
        _, head = np.unique(y[:n_train], return_counts=True)
        if len(head) < len(classes):
            raise ValueError("the training file lacks a class that the test file has")
        smallest, need = int(head.min()), max(1, inner)
    if smallest < need:
        tuned = f" with {inner}-fold tuning inside" if inner else ""
        raise ValueError(
            f"too few bags: class {rare} has {smallest} of {len(y)} bags, and"
            f" {describe(protocol)}{tuned} needs at least {need} of each class;"
            " add bags, use fewer folds or leave_one_bag_out(), or switch tuning off"
        )
