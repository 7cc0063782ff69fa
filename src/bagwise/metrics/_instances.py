"""Agreement between instance scores and instance labels: metrics and scorers."""

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.utils.metadata_routing import MetadataRequest

from bagwise.bags import Ragged
from bagwise.bags.segments import segment_argmax_share, segment_max, segment_sum


def key_instance_success(instance_labels, scores, *, bags=None):
    r"""Share of positive bags whose top-scoring instance is truly positive.

    .. math:: \frac{1}{|P|} \sum_{i \in P}
        \frac{|\{j \in T_i : z_{ij} > 0\}|}{|T_i|}, \qquad
        T_i = \arg\max_j s_{ij}

    where :math:`z` are the `instance_labels`, :math:`s` the `scores` and :math:`P` the
    positive bags. It is the success rate of [1]_: a relevant image counts as a success
    if the region with the highest score is a true region of interest.

    Parameters
    ----------
    instance_labels : Ragged
        True label of each instance; positive where above 0 (or True).
    scores : Ragged
        One score per instance; higher is more positive.
    bags : array-like of bool of shape (n_bags,), default=None
        Which bags are positive. By default those that hold a positive instance;
        positive bags without a positive instance are excluded.

    Returns
    -------
    float
        Between 0 and 1.

    Notes
    -----
    Differs from [1]_: if several instances share the top score (:math:`T_i`), the
    result is the expected success of choosing one of them at random, so the order of
    instances inside a bag does not matter. The cost is one pass over the instances.

    References
    ----------
    .. [1] Li, Y.-F., Kwok, J. T., Tsang, I. W. and Zhou, Z.-H., "A convex method for
       locating regions of interest with multi-instance learning", ECML PKDD, 2009.
       :doi:`10.1007/978-3-642-04174-7_2`

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
    relevant = segment_max(positive, offsets).astype(bool)
    if bags is not None:
        asked = np.asarray(bags, dtype=bool)
        if asked.shape != relevant.shape:
            raise ValueError(
                f"bags has shape {asked.shape}, but there are {len(relevant)} bags."
            )
        relevant &= asked
    if not relevant.any():
        raise ValueError(
            "no positive bag holds a positive instance, so there is nothing to find."
        )
    hits = segment_sum(segment_argmax_share(values, offsets) * positive, offsets)
    return float(hits[relevant].mean())


def instance_roc_auc(instance_labels, scores, *, average="pooled"):
    """Area under the ROC curve of instance scores.

    Parameters
    ----------
    instance_labels : Ragged
        True label of each instance; positive where above 0 (or True).
    scores : Ragged
        One score per instance; higher is more positive.
    average : {"pooled", "bags"}, default="pooled"
        Rank all instances together, or within each bag that holds positive and
        negative instances; the result is the mean over those bags.

    Returns
    -------
    float
        Between 0 and 1; 0.5 for random scores.
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
        Rank instances within each bag that holds positive and negative instances; the
        result is the mean over those bags. Or rank all instances together.

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
            raise ValueError(
                "all instance labels are equal: no ranking metric is defined."
            )
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
        raise ValueError(
            "no bag holds both positive and negative instances: use average='pooled'."
        )
    return float(np.mean(each))


def _aligned(instance_labels, scores):
    """Check that labels and scores have the same offsets; return both as arrays."""
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
            f"{instance_labels.n_instances} instances) do not have the same offsets as "
            f"the scores ({scores.n_bags} bags, {scores.n_instances} instances)."
        )
    if np.isnan(scores.values).any():
        raise ValueError("scores contain NaN.")
    return instance_labels.values > 0, scores.values


class InstanceScorer:
    """Score a fitted estimator by its instance scores.

    Parameters
    ----------
    metric : callable
        ``metric(instance_labels, scores) -> float``, higher is better.

    Notes
    -----
    Called as ``scorer(estimator, X, y, instance_labels=labels)``, or as
    ``scorer(estimator, X, labels)``, with a `Ragged` aligned with `X`. It requests
    `instance_labels`: with ``sklearn.set_config(enable_metadata_routing=True)``,
    ``cross_validate(..., params={"instance_labels": labels})`` and
    ``GridSearchCV(...).fit(X, y, instance_labels=labels)`` split the labels like the
    bags and pass them to the scorer.
    """

    def __init__(self, metric):
        self.metric = metric

    def __call__(self, estimator, X, y=None, *, instance_labels=None):
        """Return the score of `estimator` on the bags `X`."""
        labels = y if instance_labels is None else instance_labels
        return self.metric(labels, estimator.instance_scores(X))

    def __repr__(self):
        """Return the name of the metric."""
        return f"InstanceScorer({self.metric.__name__})"

    def get_metadata_routing(self):
        """Request the instance labels of the scored bags from scikit-learn."""
        request = MetadataRequest(owner=self)
        request.score.add_request(param="instance_labels", alias=True)
        return request


key_instance_scorer = InstanceScorer(key_instance_success)
instance_roc_auc_scorer = InstanceScorer(instance_roc_auc)
instance_average_precision_scorer = InstanceScorer(instance_average_precision)
