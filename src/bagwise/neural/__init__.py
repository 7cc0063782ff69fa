"""Networks that learn from bags; they need the extra ``bagwise[torch]``.

Importing this package does not import torch: the first `fit` does.
"""

from bagwise.neural._classifier import AttentionBagClassifier
from bagwise.neural._encoders import register_encoder
from bagwise.neural._regressor import AttentionBagRegressor

__all__ = ["AttentionBagClassifier", "AttentionBagRegressor", "register_encoder"]
