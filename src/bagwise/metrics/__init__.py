"""Metrics of instance scores and of predicted risks."""

from bagwise.metrics._instances import (
    instance_average_precision,
    instance_average_precision_scorer,
    instance_roc_auc,
    instance_roc_auc_scorer,
    key_instance_scorer,
    key_instance_success,
)
from bagwise.metrics._survival import concordance_index

__all__ = [
    "concordance_index",
    "instance_average_precision",
    "instance_average_precision_scorer",
    "instance_roc_auc",
    "instance_roc_auc_scorer",
    "key_instance_scorer",
    "key_instance_success",
]
