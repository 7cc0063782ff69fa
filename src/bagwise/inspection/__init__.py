"""Look inside fitted models: which instances decide."""

from bagwise.inspection._explain import Explanation, explain
from bagwise.inspection._faithfulness import Faithfulness, faithfulness
from bagwise.inspection._importance import IMPORTANCE_METHODS, instance_importance
from bagwise.inspection._instances import instance_scores, key_instances

__all__ = [
    "IMPORTANCE_METHODS",
    "Explanation",
    "Faithfulness",
    "explain",
    "faithfulness",
    "instance_importance",
    "instance_scores",
    "key_instances",
]
