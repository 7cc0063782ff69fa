"""Networks that learn from bags; they need the extra ``bagwise[torch]``.

Importing this package does not import torch: the first `fit` does.
"""

from bagwise.neural._classifier import NeuralBagClassifier
from bagwise.neural._regressor import NeuralBagRegressor
from bagwise.neural._survival import NeuralBagSurvival
from bagwise.neural._torch import register_encoder

__all__ = [
    "NeuralBagClassifier",
    "NeuralBagRegressor",
    "NeuralBagSurvival",
    "register_encoder",
]
