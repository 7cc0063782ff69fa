"""Networks for bags with times until an event."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bagwise._compat import StrOptions, _fit_context
from bagwise.bags import Ragged
from bagwise.bags.validation import in_bag_order
from bagwise.base import BaseBagEstimator
from bagwise.base.estimator import check_bag_weight
from bagwise.base.survival import check_survival, concordance
from bagwise.neural._network import (
    CONSTRAINTS,
    REAL,
    Job,
    NetworkMixin,
    NetworkParameters,
    fit_together,
)


class NeuralBagSurvival(NetworkParameters, NetworkMixin, BaseBagEstimator):
    r"""Network that predicts the risk of an event from a bag.

    The network of `NeuralBagRegressor`, whose output s(B) is the logarithm of a hazard,
    with the negative logarithm of Cox's partial likelihood ([1]_) as its loss,

    .. math:: \sum_{i: \text{event}} w_i \Bigl( \log \sum_{j: t_j \ge t_i} w_j
              e^{s(B_j)} - s(B_i) \Bigr),

    where t are the times of the bags of a step, w their weights, and equal times are
    treated as by Breslow.

    Parameters
    ----------
    pooling, head, hidden, attention, dropout, encoder, instance_shape
        The network, as in `NeuralBagRegressor`.
    learning_rate, weight_decay, bags_per_step, max_instances, max_epochs, patience
        The training, as in `NeuralBagRegressor`. A step has `bags_per_step` bags if
        there are as many: the bags at risk at a time are those of the step.
    validation_fraction, instance_dropout, mixup, smoothness, n_models
        As in `NeuralBagRegressor`. `mixup` must be zero: times cannot be mixed.
    random_state, device, precision, verbose
        As in `NeuralBagRegressor`.

    Attributes
    ----------
    weights_ : dict of ndarray
        The weights, with a leading axis for the model.
    attention_ : Ragged
        The weights of the training instances in their bags.
    mean_, scale_ : ndarray of shape (n_features,)
        Mean and scale of the instances.
    train_loss_, validation_loss_ : ndarray of shape (n_epochs, n_models)
        Losses after each epoch.
    best_epoch_ : ndarray of shape (n_models,)
        The epoch whose weights are kept.
    n_iter_ : int
        Number of epochs.

    See Also
    --------
    bagwise.compose.EmbeddedSurvival : A model of scikit-survival on one vector per bag.

    Notes
    -----
    `y` is a structured array or a data frame with the fields `event` and `time`. Needs
    the extra ``bagwise[torch]``. Cost and memory are those of `NeuralBagClassifier`.
    Differs from [1]_: the score is a network, and the likelihood that of the bags of a
    step.

    References
    ----------
    .. [1] Cox, D. R., "Regression models and life-tables", Journal of the Royal
       Statistical Society B, 1972.

    Examples
    --------
    >>> from bagwise.datasets import make_survival_bags
    >>> from bagwise.neural import NeuralBagSurvival
    >>> X, y = make_survival_bags(80, random_state=0)
    >>> model = NeuralBagSurvival("mean", hidden=16, random_state=0)
    >>> model.fit(X[:60], y[:60]).score(X[60:], y[60:]) > 0.6
    True
    """

    _parameter_constraints: dict = {**CONSTRAINTS, "pooling": [StrOptions(REAL)]}

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.estimator_type = "survival"
        tags.target_tags.required = True
        tags.input_tags.scale_sensitive = "no"
        tags.input_tags.order_invariant = False  # steps and folds depend on positions
        return tags

    def _check_target(self, y):
        return check_survival(y)

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None):
        """Fit on bags.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The training bags.
        y : structured array or data frame, of length n_bags
            The fields `event` (true where it was observed) and `time`.
        sample_weight : array-like of shape (n_bags,), default=None
            Weight of each bag in the likelihood; 1 by default. Zero excludes a bag.

        Returns
        -------
        self
        """
        X, y = self._check_bags(X, y, reset=True, min_bags=2)
        weight = check_bag_weight(sample_weight, len(X))
        fit_together([self._job(y, weight)], X)
        self._set_attention(X)
        return self

    def _job(self, y, weight):
        """Return what is to be learned: the ranks of the times, and the events."""
        if self.mixup > 0:
            raise ValueError(
                "mixup is not available for survival times: set it to zero."
            )
        if not y["event"][weight > 0].any():
            raise ValueError("no bag with a positive weight has an event.")
        event = y["event"].astype(np.float64)
        rank = np.unique(y["time"], return_inverse=True)[1].astype(np.float64)
        targets = np.column_stack([rank, event])
        return Job(self, targets, weight, event, np.zeros(1), "cox")

    def _masked_job(self, X, y, mask, sample_weight):
        """Return all bags, and what is to be learned from those of the mask."""
        X, y = self._check_bags(X, y, reset=True)
        weight = np.where(mask, check_bag_weight(sample_weight, len(y)), 0.0)
        return X, self._job(y, weight)

    def predict(self, X):
        """Return the risk of each bag, averaged over the models.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        ndarray of shape (n_bags,)
            The logarithm of the hazard, up to a constant.
        """
        check_is_fitted(self)
        X = self._check_bags(X, reset=False)
        return self._evaluate(X)["scores"][:, :, 0].mean(axis=1)

    def instance_scores(self, X):
        """Return the risk of a bag that contains only this instance.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        Ragged
            One risk per instance.
        """
        check_is_fitted(self)
        X = self._check_bags(X, reset=False)
        return Ragged(self._values(X)[:, :, 0].mean(axis=1), X.offsets)

    def score(self, X, y):
        """Return the concordance index.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.
        y : structured array or data frame, of length n_bags
            The fields `event` and `time`.

        Returns
        -------
        float
            1 for the right order of events, 0.5 for chance.
        """
        y, risk = check_survival(in_bag_order(y, X)), self.predict(X)
        if len(y) != len(risk):
            raise ValueError(f"y has {len(y)} entries for {len(risk)} bags.")
        return concordance(y["event"], y["time"], risk)
