"""scikit-learn scorers whose truth is one label per instance."""

from sklearn.utils.metadata_routing import MetadataRequest

from bagwise.metrics._instances import (
    instance_average_precision,
    instance_roc_auc,
    key_instance_success,
)


class InstanceScorer:
    """Score a fitted estimator by its instance scores.

    Parameters
    ----------
    metric : callable
        ``metric(instance_labels, scores) -> float``, higher is better.

    Notes
    -----
    Called as ``scorer(estimator, X, y, instance_labels=labels)``, or as
    ``scorer(estimator, X, labels)``, with a `Ragged` aligned with `X`. It asks for
    `instance_labels`: with ``sklearn.set_config(enable_metadata_routing=True)``,
    ``cross_validate(..., params={"instance_labels": labels})`` and
    ``GridSearchCV(...).fit(X, y, instance_labels=labels)`` cut the labels like the
    bags and bring them here.
    """

    def __init__(self, metric):
        self.metric = metric

    def __call__(self, estimator, X, y=None, *, instance_labels=None):
        """Return the score of `estimator` on the bags `X`."""
        labels = y if instance_labels is None else instance_labels
        return self.metric(labels, estimator.instance_scores(X))

    def __repr__(self):
        """Name the metric."""
        return f"InstanceScorer({self.metric.__name__})"

    def get_metadata_routing(self):
        """Ask scikit-learn for the instance labels of the scored bags."""
        request = MetadataRequest(owner=self)
        request.score.add_request(param="instance_labels", alias=True)
        return request


key_instance_scorer = InstanceScorer(key_instance_success)
instance_roc_auc_scorer = InstanceScorer(instance_roc_auc)
instance_average_precision_scorer = InstanceScorer(instance_average_precision)

INSTANCE_SCORERS = {
    "key_instance_success": key_instance_scorer,
    "instance_roc_auc": instance_roc_auc_scorer,
    "instance_average_precision": instance_average_precision_scorer,
}
