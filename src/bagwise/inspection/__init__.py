"""Look inside fitted models: which instances decide."""

from bagwise.inspection._explain import Explanation, explain
from bagwise.inspection._instances import instance_scores, key_instances

__all__ = ["Explanation", "explain", "instance_scores", "key_instances"]
