"""Explain fitted models: which instances and which features decide."""

from bagwise.inspection._assumptions import assumption_line
from bagwise.inspection._assumptions import (
    measured_assumptions as measured_assumptions,
)
from bagwise.inspection._explain import Explanation, explain
from bagwise.inspection.conformal import prediction_sets
from bagwise.inspection.contributions import feature_contributions, member_contributions
from bagwise.inspection.features import bag_permutation_importance
from bagwise.inspection.heatmap import plot_heatmap, to_geojson
from bagwise.inspection.importance import faithfulness, instance_importance
from bagwise.inspection.pictures import plot_bag_contributions, plot_feature_importance
from bagwise.inspection.scores import instance_scores, key_instances
from bagwise.inspection.shift import check_shift
from bagwise.inspection.types import write_scores

__all__ = [
    "Explanation",
    "assumption_line",
    "bag_permutation_importance",
    "check_shift",
    "explain",
    "faithfulness",
    "feature_contributions",
    "instance_importance",
    "instance_scores",
    "key_instances",
    "member_contributions",
    "plot_bag_contributions",
    "plot_feature_importance",
    "plot_heatmap",
    "prediction_sets",
    "to_geojson",
    "write_scores",
]
