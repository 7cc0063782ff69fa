"""Networks for bags with real values."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bagwise._compat import StrOptions
from bagwise.base import BaseBagRegressor
from bagwise.base.estimator import check_bag_weight
from bagwise.neural._network import (
    CONSTRAINTS,
    REAL,
    Job,
    NetworkMixin,
    NetworkParameters,
    fit_together,
)


class NeuralBagRegressor(NetworkParameters, NetworkMixin, BaseBagRegressor):
    r"""Network with attention over the instances of a bag, for real targets.

    The network of `NeuralBagClassifier` with the squared loss on a standardized
    target: with weights :math:`a_j` that sum to one over a bag,

    .. math:: \hat y(B) = \sum_{j \in B} a_j f(h_j) + b \qquad \text{or} \qquad
              f\Bigl(\sum_{j \in B} a_j h_j\Bigr) + b,

    where `head` is "additive" or "pooled".

    Parameters
    ----------
    pooling : {"gated", "attention", "mean", "max", "dsmil", "dtfd", "transmil", \
            "set_transformer"}, default="gated"
        The weights :math:`a_j`, or a pooling with layers of its own; see
        `NeuralBagClassifier`.
    head : {"additive", "pooled"}, default="additive"
        See above; of the first four poolings.
    hidden : int or tuple of int, default=256
        Width of :math:`h`; several layers with a tuple.
    attention : int, default=128
        Width of the attention.
    dropout : float, default=0.5
        Share of the hidden units that is set to zero at random in training.
    encoder : str or callable, default=None
        The network that maps an instance to :math:`h`; see `NeuralBagClassifier`.
    instance_shape : tuple of int, default=None
        The shape of an instance when `X` is `Bags`, which hold flat rows.
    learning_rate, weight_decay : float, default=1e-3 and 1e-4
        Parameters of AdamW. After a warm-up, the learning rate follows a cosine to
        zero at `max_epochs`.
    bags_per_step : int, default=32
        Maximum number of bags per step; fewer, but at least 4, if an epoch would have
        less than 16 steps.
    max_instances : int, default=512
        Maximum number of instances of a bag per step, sampled anew in each step; None
        takes all.
    max_epochs, patience : int, default=80 and 10
        Maximum number of passes over the bags, and number of passes without a lower
        validation loss after which a model stops. Its best weights are kept.
    validation_fraction : float, default=0.0
        About this share of the bags is kept for the validation loss, another fold for
        each model; groups stay together. With zero all `max_epochs` are made.
    instance_dropout : float, default=0.0
        Share of the instances of each bag that is excluded at random in each step.
    mixup : float, default=0.0
        Parameter of the beta distribution from which bags are mixed in training; see
        `NeuralBagClassifier`. Zero mixes nothing.
    smoothness : float, default=0.0
        How far the scores of the attention are smoothed over neighboring instances,
        below 1; see `NeuralBagClassifier`.
    n_models : int, default=5
        Number of models that are trained together and averaged.
    random_state : int or RandomState, default=None
        Random seed of weights, folds, the order of bags, instances and dropped units.
    device : str, default="auto"
        "cpu", "cuda", or any device of torch; "auto" takes a GPU when there is one.
    precision : {"auto", "float32", "bfloat16", "float16", "float64"}, default="auto"
        Precision of the matrix products. `device` and `precision` may be changed after
        `fit`.
    verbose : int, default=0
        A positive value prints the memory that is needed, and every epoch.

    Attributes
    ----------
    weights_ : dict of ndarray
        The weights, with a leading axis for the model.
    attention_ : Ragged
        The weights :math:`a_j` of the training instances, averaged over the models.
    mean_, scale_ : ndarray of shape (n_features,)
        Mean and scale that standardize the instances.
    y_mean_, y_scale_ : float or ndarray of shape (n_outputs,)
        Mean and scale that standardize the targets.
    train_loss_, validation_loss_ : ndarray of shape (n_epochs, n_models)
        Losses after each epoch.
    best_epoch_ : ndarray of shape (n_models,)
        The epoch whose weights are kept.
    n_iter_ : int
        Number of epochs.

    Notes
    -----
    `instance_scores` are the values of bags with a single instance, :math:`f(h_j) + b`,
    in units of y; `attention_weights` returns their weights. With the additive head
    the weighted sum is the prediction of a model.

    A `y` of shape (n_bags, k) means k targets, each standardized, with one network.

    Cost and memory are those of `NeuralBagClassifier`. Differs from [1]_, which has
    no regression. A bag of weight two is not the same as a bag that is given twice,
    which takes part in more steps and changes the folds.

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

    _parameter_constraints: dict = {**CONSTRAINTS, "pooling": [StrOptions(REAL)]}

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.scale_sensitive = "no"
        tags.input_tags.order_invariant = False  # steps and folds depend on positions
        tags.target_tags.multi_output = True
        return tags

    def _job(self, y, weight):
        """Return what is to be learned: the targets, standardized."""
        share = weight / weight.sum()
        mean = share @ y
        spread = np.sqrt(share @ (y - mean) ** 2)
        scale = np.where(spread > 0, spread, 1.0)
        several = y.ndim == 2
        self.y_mean_ = mean if several else float(mean)
        self.y_scale_ = scale if several else float(scale)
        targets = ((y - mean) / scale).reshape(len(y), -1)
        return Job(
            self, targets, weight, targets, np.zeros(targets.shape[1]), "squared"
        )

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
        """Return averages over the models in units of y; one column is a vector."""
        scores = scores.mean(axis=1)
        scores = scores if np.ndim(self.y_mean_) else scores[:, 0]
        return self.y_mean_ + self.y_scale_ * scores

    def _predict_bags(self, X):
        return self._in_units(self._evaluate(X)["scores"])

    def _score_instances(self, X):
        return self._in_units(self._values(X))

    def predict_std(self, X):
        """Return the standard deviation of the predictions over the models.

        Parameters
        ----------
        X : Bags or sequence of arrays
            The bags.

        Returns
        -------
        ndarray of shape (n_bags,) or (n_bags, n_outputs)
            Standard deviation over the models, in units of y.
        """
        check_is_fitted(self)
        X = self._check_bags(X, reset=False)
        spread = self._evaluate(X)["scores"].std(axis=1)
        return self.y_scale_ * (spread if np.ndim(self.y_mean_) else spread[:, 0])
