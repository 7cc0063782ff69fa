"""A network with attention over the instances of a bag, for real values."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bagwise.base import BaseBagRegressor
from bagwise.base.estimator import check_bag_weight
from bagwise.neural._network import CONSTRAINTS, Job, NetworkMixin, fit_together


class NeuralBagRegressor(NetworkMixin, BaseBagRegressor):
    r"""Network that learns which instances of a bag to look at, for real targets.

    The network of `NeuralBagClassifier` with the squared loss on a standardized
    target: with weights :math:`a_j` that sum to one over a bag,

    .. math:: \hat y(B) = \sum_{j \in B} a_j f(h_j) + b \qquad \text{or} \qquad
              f\Bigl(\sum_{j \in B} a_j h_j\Bigr) + b,

    where `head` is "additive" or "pooled".

    Parameters
    ----------
    pooling : {"gated", "attention", "mean", "max"}, default="gated"
        The weights :math:`a_j`.
    head : {"additive", "pooled"}, default="additive"
        See above.
    hidden : int or tuple of int, default=256
        Width of :math:`h`; several layers with a tuple.
    attention : int, default=128
        Width of the attention.
    dropout : float, default=0.25
        Share of the hidden units that is left out at random in training.
    encoder : str or callable, default=None
        What makes :math:`h` from an instance; see `NeuralBagClassifier`.
    instance_shape : tuple of int, default=None
        The shape of an instance when `X` is `Bags`, which hold flat rows.
    learning_rate, weight_decay : float, default=2e-4 and 1e-4
        Of AdamW, with a warm-up and a cosine to zero at `max_epochs`.
    bags_per_step : int, default=32
        Most bags in a step; fewer, but at least 4, where an epoch would have less
        than 16 steps.
    max_instances : int, default=512
        Most instances of a bag in a step, drawn anew each time; None takes all.
    max_epochs, patience : int, default=100 and 10
        Most passes over the bags, and those without a lower validation loss after
        which a model stops. Its best weights are kept.
    validation_fraction : float, default=0.15
        About this share of the bags is kept for the validation loss, another fold for
        each model; groups stay together.
    n_models : int, default=5
        Number of models that are trained together and averaged.
    random_state : int or RandomState, default=None
        Draws weights, folds, the order of bags, instances and dropped units.
    device : str, default="auto"
        "cpu", "cuda", or any name torch knows; "auto" takes a GPU when there is one.
    precision : {"auto", "float32", "bfloat16", "float16", "float64"}, default="auto"
        Of the products. `device` and `precision` may be changed after `fit`.
    verbose : int, default=0
        Prints the memory that is needed, and every epoch.

    Attributes
    ----------
    weights_ : dict of ndarray
        The weights, with a leading axis for the model.
    attention_ : Ragged
        The weights :math:`a_j` of the training instances, averaged over the models.
    mean_, scale_ : ndarray of shape (n_features,)
        What instances are standardized with.
    y_mean_, y_scale_ : float
        What the target is standardized with.
    train_loss_, validation_loss_ : ndarray of shape (n_epochs, n_models)
        Losses after each epoch.
    best_epoch_ : ndarray of shape (n_models,)
        The epoch whose weights are kept.
    n_iter_ : int
        Epochs made.

    Notes
    -----
    `instance_scores` are the values that single instances would have as bags of their
    own, :math:`f(h_j) + b`, in units of y; `attention_weights` says how they are
    weighed. With the additive head the weighted sum is the prediction of a model.

    Cost and memory are those of `NeuralBagClassifier`. Differs from [1]_, which has
    no regression.

    References
    ----------
    .. [1] Ilse, M., Tomczak, J. M. and Welling, M., "Attention-based Deep Multiple
       Instance Learning", International Conference on Machine Learning, 2018.

    Examples
    --------
    >>> from bagwise.datasets import make_bags
    >>> from bagwise.neural import NeuralBagRegressor
    >>> X, y = make_bags(random_state=0)
    >>> model = NeuralBagRegressor(
    ...     hidden=16, learning_rate=0.02, max_epochs=20, random_state=0
    ... )
    >>> model.fit(X, y.astype(float)).predict(X).shape
    (30,)
    """

    _parameter_constraints: dict = CONSTRAINTS

    def __init__(
        self,
        pooling="gated",
        *,
        head="additive",
        hidden=256,
        attention=128,
        dropout=0.25,
        encoder=None,
        instance_shape=None,
        learning_rate=2e-4,
        weight_decay=1e-4,
        bags_per_step=32,
        max_instances=512,
        max_epochs=100,
        patience=10,
        validation_fraction=0.15,
        n_models=5,
        random_state=None,
        device="auto",
        precision="auto",
        verbose=0,
    ):
        self.pooling = pooling
        self.head = head
        self.hidden = hidden
        self.attention = attention
        self.dropout = dropout
        self.encoder = encoder
        self.instance_shape = instance_shape
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.bags_per_step = bags_per_step
        self.max_instances = max_instances
        self.max_epochs = max_epochs
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.n_models = n_models
        self.random_state = random_state
        self.device = device
        self.precision = precision
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.scale_sensitive = "no"
        tags.input_tags.order_invariant = False  # steps and folds go by position
        return tags

    def _job(self, y, weight):
        """Return what is to be learned: the target, standardized."""
        share = weight / weight.sum()
        self.y_mean_ = float(share @ y)
        spread = float(np.sqrt(share @ (y - self.y_mean_) ** 2))
        self.y_scale_ = spread if spread > 0 else 1.0
        targets = ((y - self.y_mean_) / self.y_scale_)[:, None]
        return Job(self, targets, weight, targets, np.zeros(1), "squared")

    def _fit_bags(self, X, y, weight):
        fit_together([self._job(y, weight)], X)
        self._set_attention(X)

    def _masked_job(self, X, y, mask, sample_weight):
        """Return all bags, and what is to be learned from those of the mask."""
        X, y = self._check_bags(X, y, reset=True)
        weight = np.where(mask, check_bag_weight(sample_weight, len(y), X), 0.0)
        if not weight.any():
            raise ValueError("no bag of a mask has a positive weight.")
        return X, self._job(y, weight)

    def _in_units(self, scores):
        return self.y_mean_ + self.y_scale_ * scores

    def _predict_bags(self, X):
        return self._in_units(self._evaluate(X)["scores"][:, :, 0].mean(axis=1))

    def _score_instances(self, X):
        return self._in_units(self._evaluate(X)["values"][:, :, 0].mean(axis=1))

    def predict_std(self, X):
        """Return how far the predictions of the models are apart.

        Parameters
        ----------
        X : Bags or sequence of arrays
            The bags.

        Returns
        -------
        ndarray of shape (n_bags,)
            Standard deviation over the models, in units of y.
        """
        check_is_fitted(self)
        X = self._check_bags(X, reset=False)
        return self.y_scale_ * self._evaluate(X)["scores"][:, :, 0].std(axis=1)
