"""MILDE: responses of instance classifiers that are adapted to clusters."""

from numbers import Integral, Real

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import Ridge
from sklearn.svm import LinearSVC

from bagwise._compat import Interval, StrOptions
from bagwise.bags.segments import repeat, segment_argmax_share, segment_max
from bagwise.base import WeightedBagClassifier, bag_folds
from bagwise.base.folds import most_folds
from bagwise.embedding.codebooks import k_means
from bagwise.kernels.instance import squared_distances


class MILDE(WeightedBagClassifier):
    r"""Classify bags by the responses of cluster-adapted instance classifiers.

    The training instances are clustered. In cluster :math:`k` a linear classifier
    :math:`f_k(x) = w_k'x + b_k` learns from the labels of the bags :math:`t_i`,

    .. math::
        \min_{w_k, b_k} \; \sum_{x_{ij} \in k} \frac{v_i}{n_i}
        \big(f_k(x_{ij}) - t_i\big)^2 + \alpha\, s_k V_k \|w_k\|^2,

    and a bag is described by the responses :math:`r_k(B) = \max_{x \in B \cap k}
    f_k(x)`, which are zero for clusters that it does not reach ([1]_). A linear SVM
    learns from the responses. Here :math:`\alpha` is `alpha`, :math:`v_i` is the weight
    of a bag and :math:`n_i` its size, :math:`s_k` is the variance of the instances of
    the cluster and :math:`V_k` the sum of their weights :math:`v_i / n_i`.

    Parameters
    ----------
    n_clusters : int, default=10
        Number of clusters; no more than there are distinct instances.
    alpha : float, default=0.1
        Strength of the penalty of the instance classifiers.
    C : float, default=1.0
        Weight of the loss of the linear SVM.
    class_weight : dict or "balanced", default=None
        Weights of the classes.
    pos_label : label, default=None
        The positive class of two; ``classes_[1]`` by default.
    random_state : int or RandomState, default=None
        Random seed of k-means and of the linear SVM.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        The centers.
    instance_coef_ : ndarray of shape (n_clusters, n_features)
        The directions :math:`w_k` of the instance classifiers.
    instance_intercept_ : ndarray of shape (n_clusters,)
        Their intercepts :math:`b_k`.
    coef_, intercept_ : ndarray of shape (n_clusters,), float
        The linear SVM.

    Notes
    -----
    `instance_scores` are contributions: each instance gets the term of its cluster if
    its response is the largest of its bag, and the scores of a bag sum to its decision
    value minus `intercept_`. Costs O(n_instances * n_clusters * n_features) per k-means
    step and O(n_instances * n_features**2) for the classifiers (less if sparse).

    Differs from [1]_, of which only the summary was available ("responses of
    cluster-adapted instance classifiers"): k-means, ridge classifiers, the maximum and
    the linear SVM are our choices. The SVM is trained with responses of classifiers
    that have not seen the bag (5 folds), because responses to training instances are
    biased.

    Clusters are found without weights from random instances: a bag of weight two is not
    the same as a bag that is given twice.

    References
    ----------
    .. [1] Amores, J., "MILDE: multiple instance learning by discriminative embedding",
       Knowledge and Information Systems, 2015. :doi:`10.1007/s10115-013-0711-1`

    Examples
    --------
    >>> from bagwise.datasets import make_bags
    >>> from bagwise.embedding import MILDE
    >>> X, y = make_bags(random_state=0)
    >>> MILDE(3, random_state=0).fit(X, y).score(X, y) > 0.8
    True
    """

    _parameter_constraints: dict = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "C": [Interval(Real, 0, None, closed="neither")],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_clusters=10,
        *,
        alpha=0.1,
        C=1.0,
        class_weight=None,
        pos_label=None,
        random_state=None,
    ):
        self.n_clusters = n_clusters
        self.alpha = alpha
        self.C = C
        self.class_weight = class_weight
        self.pos_label = pos_label
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.order_invariant = False  # clusters begin at random rows
        tags.input_tags.asymmetric = True  # the response of a bag is a maximum
        tags.input_tags.respects_standard_assumption = False
        return tags

    def _fit_binary(self, X, t, bag_weight):
        found = k_means(X.data, self.n_clusters, self.random_state)
        self.cluster_centers_ = found.cluster_centers_
        svm = LinearSVC(
            C=self.C,
            intercept_scaling=10.0,
            dual=False,
            random_state=self.random_state,
        ).fit(self._unseen(X, t, bag_weight), t > 0, sample_weight=bag_weight)
        self.coef_, self.intercept_ = svm.coef_[0], float(svm.intercept_[0])
        self._fit_instances(X, t, bag_weight)

    def _unseen(self, X, t, bag_weight):
        """Return responses of classifiers that were fitted without the bag."""
        n_splits = most_folds(X, t)
        if n_splits < 2:  # too few bags for cross-validation
            self._fit_instances(X, t, bag_weight)
            return self._bag_responses(X)
        out = np.empty((len(X), len(self.cluster_centers_)))
        for train, test in bag_folds(X, t, n_splits):
            self._fit_instances(X[train], t[train], bag_weight[train])
            out[test] = self._bag_responses(X[test])
        return out

    def _fit_instances(self, X, t, bag_weight):
        """Fit a ridge classifier to the instances of each cluster."""
        clusters = self._nearest(X)
        weight, label = repeat(bag_weight / X.sizes, X.offsets), repeat(t, X.offsets)
        self.instance_coef_ = np.zeros(self.cluster_centers_.shape)
        self.instance_intercept_ = np.zeros(len(self.cluster_centers_))
        for k in np.unique(clusters):
            rows = np.flatnonzero(clusters == k)
            data = X.data[rows]
            spread = float(_column_variances(data).sum())
            if spread == 0:  # equal instances: only the mean label can be learned
                mean = np.average(label[rows], weights=weight[rows])
                self.instance_intercept_[k] = mean
                continue
            penalty = self.alpha * spread * weight[rows].sum()
            ridge = Ridge(penalty).fit(data, label[rows], sample_weight=weight[rows])
            self.instance_coef_[k] = ridge.coef_
            self.instance_intercept_[k] = ridge.intercept_

    def _nearest(self, X):
        return squared_distances(X.data, self.cluster_centers_).argmin(axis=1)

    def _responses(self, X):
        """Return the response of each instance in its cluster, -inf in the others."""
        out = np.asarray(X.data @ self.instance_coef_.T + self.instance_intercept_)
        other = self._nearest(X)[:, None] != np.arange(len(self.cluster_centers_))
        return np.where(other, -np.inf, out)

    def _bag_responses(self, X):
        found = segment_max(self._responses(X), X.offsets)
        return np.where(np.isfinite(found), found, 0.0)

    def _score_bags(self, X):
        return self._bag_responses(X) @ self.coef_ + self.intercept_

    def _score_instances(self, X):
        responses = self._responses(X)
        share = segment_argmax_share(responses, X.offsets)
        return (share * np.where(np.isfinite(responses), responses, 0.0)) @ self.coef_


def _column_variances(data):
    if sp.issparse(data):
        return np.asarray(data.power(2).mean(axis=0) - np.square(data.mean(axis=0)))
    return data.var(axis=0)
