"""Look inside fitted models: which instances and which features decide."""

from bagwise.inspection._assumptions import (
    MeasuredAssumption,
    assumption_line,
    measured_assumptions,
)
from bagwise.inspection._contributions import (
    FeatureContributions,
    feature_contributions,
    linear_slope,
)
from bagwise.inspection._explain import Explanation, explain
from bagwise.inspection._faithfulness import Faithfulness, faithfulness
from bagwise.inspection._feature_plots import (
    plot_bag_contributions,
    plot_feature_importance,
)
from bagwise.inspection._images import as_images
from bagwise.inspection._importance import IMPORTANCE_METHODS, instance_importance
from bagwise.inspection._instances import instance_scores, key_instances
from bagwise.inspection._members import MemberContributions, member_contributions
from bagwise.inspection._permutation import bag_permutation_importance
from bagwise.inspection.heatmap import plot_heatmap, to_geojson

__all__ = [
    "IMPORTANCE_METHODS",
    "Explanation",
    "Faithfulness",
    "FeatureContributions",
    "MeasuredAssumption",
    "MemberContributions",
    "as_images",
    "assumption_line",
    "bag_permutation_importance",
    "explain",
    "faithfulness",
    "feature_contributions",
    "instance_importance",
    "instance_scores",
    "key_instances",
    "linear_slope",
    "measured_assumptions",
    "member_contributions",
    "plot_bag_contributions",
    "plot_feature_importance",
    "plot_heatmap",
    "to_geojson",
]
