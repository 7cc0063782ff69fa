"""Agreement between instance scores and instance labels."""

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score

from bagwise.bags import Ragged
from bagwise.bags.segments import segment_argmax, segment_max


def key_instance_success(instance_labels, scores):
    """Share of positive bags whose top-scoring instance is truly positive.

    Parameters
    ----------
    instance_labels : Ragged
        True label of each instance; positive where above 0 (or True).
    scores : Ragged
        One score per instance; higher is more positive.

    Returns
    -------
    float
        Between 0 and 1. Of several instances with the top score the first counts.

    Notes
    -----
    A bag counts when it holds a positive instance, whatever label it was given. This
    is the success rate of Li et al. (2009), who count relevant images.

    Examples
    --------
    >>> from bagwise import Ragged
    >>> from bagwise.metrics import key_instance_success
    >>> truth = Ragged([0, 1, 1, 0, 0], [0, 2, 4, 5])
    >>> key_instance_success(truth, Ragged([0.1, 0.9, 0.2, 0.7, 0.3], truth.offsets))
    0.5
    """
    positive, values = _aligned(instance_labels, scores)
    offsets = scores.offsets
    relevant = segment_max(positive, offsets)
    if not relevant.any():
        raise ValueError("no bag holds a positive instance: the rate is undefined.")
    return float(positive[segment_argmax(values, offsets)][relevant].mean())


def instance_roc_auc(instance_labels, scores, *, average="pooled"):
    """Area under the ROC curve of instance scores.

    Parameters
    ----------
    instance_labels : Ragged
        True label of each instance; positive where above 0 (or True).
    scores : Ragged
        One score per instance; higher is more positive.
    average : {"pooled", "bags"}, default="pooled"
        Rank all instances together, or inside each bag that holds both kinds, and
        take the mean over those bags.

    Returns
    -------
    float
        Between 0 and 1; 0.5 for scores that know nothing.
    """
    return _ranking(roc_auc_score, instance_labels, scores, average)


def instance_average_precision(instance_labels, scores, *, average="bags"):
    """Average precision of instance scores.

    Parameters
    ----------
    instance_labels : Ragged
        True label of each instance; positive where above 0 (or True).
    scores : Ragged
        One score per instance; higher is more positive.
    average : {"bags", "pooled"}, default="bags"
        Rank instances inside each bag that holds both kinds and take the mean over
        those bags, or rank all instances together.

    Returns
    -------
    float
        Between 0 and 1.
    """
    return _ranking(average_precision_score, instance_labels, scores, average)


def _ranking(score, instance_labels, scores, average):
    positive, values = _aligned(instance_labels, scores)
    if average == "pooled":
        if positive.all() or not positive.any():
            raise ValueError("instance labels of one kind only: nothing to rank.")
        return float(score(positive, values))
    if average != "bags":
        raise ValueError(f"average must be 'pooled' or 'bags', got {average!r}.")
    offsets = scores.offsets
    parts = zip(offsets[:-1], offsets[1:], strict=True)
    each = [
        score(positive[a:b], values[a:b])
        for a, b in parts
        if 0 < positive[a:b].sum() < b - a
    ]
    if not each:
        raise ValueError("no bag holds instances of both kinds: nothing to rank.")
    return float(np.mean(each))


def _aligned(instance_labels, scores):
    """Check that labels and scores are cut alike; booleans and values."""
    for name, item in (("instance_labels", instance_labels), ("scores", scores)):
        if not isinstance(item, Ragged):
            raise TypeError(
                f"{name} must be a Ragged with one value per instance, got "
                f"{type(item).__name__}. Use Ragged(values, X.offsets)."
            )
        if item.values.ndim != 1:
            raise ValueError(
                f"{name} must hold one value per instance, got {item.values.shape[1]}: "
                "take the column of one class."
            )
    if not np.array_equal(instance_labels.offsets, scores.offsets):
        raise ValueError(
            f"instance_labels ({instance_labels.n_bags} bags, "
            f"{instance_labels.n_instances} instances) are not cut like the scores "
            f"({scores.n_bags} bags, {scores.n_instances} instances)."
        )
    if np.isnan(scores.values).any():
        raise ValueError("scores contain NaN.")
    return instance_labels.values > 0, scores.values
