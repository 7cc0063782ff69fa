"""Networks that learn from bags; they need the extra ``bagwise[torch]``.

Importing this package does not import torch: the first `fit` does.
"""

from bagwise.neural._classifier import NeuralBagClassifier
from bagwise.neural._encoders import register_encoder
from bagwise.neural._regressor import NeuralBagRegressor

__all__ = ["NeuralBagClassifier", "NeuralBagRegressor", "register_encoder"]
