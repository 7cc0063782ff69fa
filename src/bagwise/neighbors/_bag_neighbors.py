"""Nearest bags vote with their values."""

from numbers import Integral

import numpy as np

from bagwise._compat import Interval, StrOptions
from bagwise.bags import Bags
from bagwise.base import BaseBagRegressor
from bagwise.kernels import emd_distances, hausdorff
from bagwise.kernels.distances import HAUSDORFF_MODES
from bagwise.kernels.instance import row_blocks
from bagwise.solvers.pace import paced


class BagKNeighborsRegressor(BaseBagRegressor):
    r"""Predict the mean value of the nearest bags.

    .. math::
        f(B) = \frac{\sum_{i \in N(B)} \omega_i v_i\, y_i}
                    {\sum_{i \in N(B)} \omega_i v_i}

    over the `n_neighbors` training bags :math:`N(B)` nearest to :math:`B`, where
    :math:`\omega_i` is the weight of a bag and :math:`v_i` is one or the inverse of its
    distance (`weights`).

    Parameters
    ----------
    n_neighbors : int, default=5
        Number of nearest bags; all bags if there are fewer.
    metric : {"mean", "min", "max", "emd"}, default="mean"
        The distance between bags: a Hausdorff distance (see
        `bagwise.kernels.hausdorff`) or the earth mover's distance.
    weights : {"uniform", "distance"}, default="uniform"
        Whether nearer bags have more weight.

    Attributes
    ----------
    bags_fit_ : Bags
        The training bags.

    See Also
    --------
    bagwise.neighbors.CitationKNN : For classes.

    Notes
    -----
    Bags at the same distance are used in the order of training. `instance_scores` is
    the prediction for a bag that contains only this instance. Shifting and scaling y
    shifts and scales predictions. `fit` has no cost; a prediction costs one distance to
    every training bag.

    A bag of weight two counts twice in the mean, but is one neighbor; two copies of a
    bag are two of the `n_neighbors`.

    Differs from [1]_: values are averaged instead of votes, and bags that would have
    the new one among their own neighbors (citers) are not used.

    References
    ----------
    .. [1] Wang, J. and Zucker, J.-D., "Solving the Multiple-Instance Problem: A Lazy
       Learning Approach", International Conference on Machine Learning, 2000.

    Examples
    --------
    >>> from bagwise.neighbors import BagKNeighborsRegressor
    >>> X = [[[0.0], [0.2]], [[1.0]], [[2.0], [1.8]], [[3.0]]]
    >>> model = BagKNeighborsRegressor(2).fit(X, [0.0, 1.0, 2.0, 3.0])
    >>> model.predict([[[2.4], [2.6]]])
    array([2.5])
    """

    _parameter_constraints: dict = {
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "metric": [StrOptions({*HAUSDORFF_MODES, "emd"})],
        "weights": [StrOptions({"uniform", "distance"})],
    }

    def __init__(self, n_neighbors=5, *, metric="mean", weights="uniform"):
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.weights = weights

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.duplicate_invariant = self.metric != "mean" or None
        tags.target_tags.multi_output = True
        tags.regressor_tags.poor_score = True
        return tags

    def _fit_bags(self, X, y, weight):
        self.bags_fit_ = X
        self.n_neighbors_, self.metric_ = self.n_neighbors, self.metric
        self.weights_ = self.weights
        self._values, self._weight = y, weight

    def _predict_bags(self, X):
        out = np.empty((X.n_bags, *self._values.shape[1:]))
        parts = list(row_blocks(X.n_bags, 8.0 * 4 * self.bags_fit_.n_bags))
        for part in paced(parts, type(self).__name__, "parts of the bags"):
            out[part] = self._average(self._distances(X[part]))
        return out

    def _distances(self, X):
        if self.metric_ == "emd":
            return emd_distances(X, self.bags_fit_)
        return hausdorff(X, self.bags_fit_, self.metric_)

    def _average(self, D):
        # Equal distances may differ in their last digits, which must not decide.
        with np.errstate(over="ignore"):
            rough = D.astype(np.float32)
        near = np.argsort(rough, axis=1, kind="stable")[:, : self.n_neighbors_]
        share = self._weight[near]
        if self.weights_ == "distance":
            distance = np.take_along_axis(D, near, axis=1)
            same = distance <= 0
            with np.errstate(divide="ignore"):
                pull = np.where(same.any(axis=1, keepdims=True), same, 1.0 / distance)
            share = share * pull
        share = share / share.sum(axis=1, keepdims=True)
        if self._values.ndim == 1:
            return (share * self._values[near]).sum(axis=1)
        return np.einsum("ij,ijk->ik", share, self._values[near])

    def _score_instances(self, X):
        return self._predict_bags(Bags(X.data, np.arange(X.n_instances + 1)))
