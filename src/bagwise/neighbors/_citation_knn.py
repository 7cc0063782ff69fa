"""Citation-kNN: nearest bags, and the bags that count a bag among their nearest."""

from numbers import Integral

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bagwise._compat import Interval, StrOptions, _fit_context
from bagwise._sizes import check_memory
from bagwise.base import MulticlassBagClassifier
from bagwise.kernels import hausdorff
from bagwise.kernels.distances import HAUSDORFF_MODES, nearest_in_bags
from bagwise.kernels.instance import row_blocks
from bagwise.kernels.reuse import reused
from bagwise.solvers.pace import paced

# Distances are equal up to this relative difference. When training bags are predicted,
# there is usually a bag at exactly the citation radius.
_SAME = 1e-7


class CitationKNN(MulticlassBagClassifier):
    r"""Citation-kNN: vote of the nearest bags and of the bags that cite a bag.

    The prediction for a bag :math:`B` uses its *references*, the :math:`R` training
    bags nearest to it, and its *citers*, the training bags :math:`T` that would have it
    among their own :math:`C` nearest:

    .. math::
        f(B) = \frac{P - N}{P + N}, \qquad
        T \text{ cites } B \iff D(T, B) \le D_C(T)

    where :math:`R` is `n_references`, :math:`C` is `n_citers`, :math:`D` is the
    Hausdorff distance named by `metric`, :math:`D_C(T)` is the distance of :math:`T` to
    its :math:`C`-th nearest other training bag, and :math:`P`, :math:`N` count the
    positive and negative votes. A bag that is reference and citer votes twice; a tie is
    negative.

    Parameters
    ----------
    n_references : int, default=2
        Number of nearest bags that vote.
    n_citers : int, default=4
        Rank up to which a training bag cites. 0 gives plain nearest neighbors.
    metric : {"min", "max", "mean"}, default="min"
        The distance between bags, see `bagwise.kernels.hausdorff`.
    pos_label : label, default=None
        The positive class of two; ``classes_[1]`` by default.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    bags_fit_ : Bags
        The training bags.
    distances_ : ndarray of shape (n_bags, n_bags)
        Distances between the training bags.
    citation_radius_ : ndarray of shape (n_bags,)
        :math:`D_C` of each training bag; infinite when it has fewer than C others.

    See Also
    --------
    bagwise.kernels.hausdorff : The distances.

    Notes
    -----
    Differs from [1]_: "mean" is not in it, nor are more than two classes, for which
    `decision_function` gives the share of the votes of each class. Between training
    bags at the same distance the earlier one is the nearer reference; a bag at exactly
    the citation radius is cited.

    `instance_scores` follows the idea of [2]_ (its formula could not be compared):
    every instance is scored as a bag of its own by the smallest distance. With few
    votes ties are frequent. They are broken by how much nearer the next positive bag
    is than the next negative one, which never changes a majority.

    `predict` on the training bags finds each bag as its own nearest reference, as
    nearest neighbors do in scikit-learn. `loo_decision_function` leaves it out, and
    equals fitting without each bag in turn.

    Cost: one Hausdorff distance matrix, ``O(n_instances ** 2 * n_features)`` at `fit`
    and ``O(n_new * n_instances * n_features)`` at prediction; ``n_bags ** 2`` memory.

    References
    ----------
    .. [1] Wang, J. and Zucker, J.-D., "Solving the Multiple-Instance Problem: A Lazy
       Learning Approach", International Conference on Machine Learning, 2000.
    .. [2] Zhou, Z.-H., Xue, X.-B. and Jiang, Y., "Locating Regions of Interest in CBIR
       with Multi-instance Learning Techniques", Australian Joint Conference on
       Artificial Intelligence, 2005. :doi:`10.1007/11589990_12`

    Examples
    --------
    >>> from bagwise.neighbors import CitationKNN
    >>> X = [[[0.0], [0.2]], [[0.1]], [[2.0], [0.9]], [[2.2]]]
    >>> model = CitationKNN(n_references=1, n_citers=1).fit(X, [0, 0, 1, 1])
    >>> model.predict([[[1.0], [2.1]], [[-0.1]]])
    array([1, 0])
    """

    _parameter_constraints: dict = {
        "n_references": [Interval(Integral, 1, None, closed="left")],
        "n_citers": [Interval(Integral, 0, None, closed="left")],
        "metric": [StrOptions(set(HAUSDORFF_MODES))],
    }

    def __init__(self, n_references=2, n_citers=4, *, metric="min", pos_label=None):
        self.n_references = n_references
        self.n_citers = n_citers
        self.metric = metric
        self.pos_label = pos_label

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        # The mean weights two bags by their sizes, so it depends on repeated instances.
        tags.input_tags.duplicate_invariant = self.metric != "mean" or None
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y):
        """Store the bags and the distances between them.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The training bags.
        y : array-like of shape (n_bags,)
            One label per bag.

        Returns
        -------
        self
        """
        X, codes, weight = self._training(X, y)
        self._fit_codes(X, codes, weight)
        return self

    def _fit_codes(self, X, codes, weight):
        check_memory(
            8.0 * 2 * X.n_bags**2,
            f"The distances between {X.n_bags} bags",
            "Fit on a subset of the bags.",
        )
        self.bags_fit_ = X
        self.metric_, self.n_references_ = self.metric, self.n_references
        self.n_citers_ = self.n_citers
        self._one_hot = codes[:, None] == np.arange(len(self.classes_))
        self.distances_ = reused(hausdorff, X, mode=self.metric)
        self.citation_radius_ = _radius(self.distances_, self.n_citers)
        if self.metric == "min":
            self._instance_radius = self.citation_radius_
        else:
            nearest = reused(hausdorff, X, mode="min")
            self._instance_radius = _radius(nearest, self.n_citers)

    def _decide(self, X):
        """Return the balance of the votes: of two classes between -1 and 1."""
        out = np.empty((X.n_bags, len(self.classes_)))
        parts = list(row_blocks(X.n_bags, 8.0 * 4 * self.bags_fit_.n_bags))
        for part in paced(parts, type(self).__name__, "parts of the bags"):
            D = reused(hausdorff, X[part], self.bags_fit_, self.metric_)
            out[part] = self._votes(D, self.citation_radius_)
        return self._balance(out)

    def loo_decision_function(self):
        """Return the decision for each training bag with that bag left out.

        Exactly what fitting on all other bags and predicting this one gives, from the
        one matrix of distances.

        Returns
        -------
        ndarray of shape (n_bags,) or (n_bags, n_classes)
            As from `decision_function`.
        """
        check_is_fitted(self)
        D = self.distances_.copy()
        np.fill_diagonal(D, np.inf)
        # Excluding one bag from the other bags of T moves D_C(T) neither below nor
        # above the distance of that bag: the radius of all bags gives the same votes.
        return self._outside(self._balance(self._votes(D, self.citation_radius_)))

    def loo_predict(self):
        """Return the label of each training bag with that bag left out.

        Returns
        -------
        ndarray of shape (n_bags,)
            The labels.
        """
        scores = self.loo_decision_function()
        if scores.ndim == 1:
            return self.classes_[(scores > 0).astype(np.intp)]
        return self.classes_[scores.argmax(axis=1)]

    def _score_instances(self, X):
        values = np.empty((X.n_instances, len(self.classes_)))
        for part, squared in nearest_in_bags(X.data, self.bags_fit_):
            D = np.sqrt(squared)
            votes = self._votes(D, self._instance_radius)
            share = votes / np.maximum(1, votes.sum(axis=1, keepdims=True))
            values[part] = share + self._tie_break(D)
        return values[:, 1] - values[:, 0] if len(self.classes_) == 2 else values

    def _votes(self, D, radius):
        """Count the votes for each class: references, then citers."""
        # Equal distances may differ in their last digits, which must not decide a vote.
        with np.errstate(over="ignore"):
            rough = D.astype(np.float32)
        references = np.argsort(rough, axis=1, kind="stable")[:, : self.n_references_]
        reachable = np.isfinite(np.take_along_axis(D, references, axis=1))
        votes = (self._one_hot[references] & reachable[:, :, None]).sum(axis=1)
        if self.n_citers_ == 0:
            return votes
        cites = (D <= radius * (1.0 + _SAME)) & np.isfinite(D)
        return votes + cites.astype(np.float64) @ self._one_hot.astype(np.float64)

    def _balance(self, votes):
        share = votes / np.maximum(1, votes.sum(axis=1, keepdims=True))
        return share[:, 1] - share[:, 0] if len(self.classes_) == 2 else share

    def _tie_break(self, D):
        """How much nearer the next bag of a class is, less than any vote counts.

        Shares of at most V votes differ by 1 / V^2 at least; this stays below a
        quarter of that.
        """
        n_classes = len(self.classes_)
        near = np.column_stack(
            [D[:, self._one_hot[:, k]].min(axis=1) for k in range(n_classes)]
        )
        others = np.column_stack(
            [np.delete(near, k, axis=1).min(axis=1) for k in range(n_classes)]
        )
        gap = others - near
        most = self.n_references_ + D.shape[1]
        return gap / (1.0 + np.abs(gap)) / (8.0 * most**2)


def _radius(D, n_citers):
    """Return the distance of each bag to its n-th nearest other bag."""
    n_bags = D.shape[0]
    if n_citers == 0:
        return np.full(n_bags, -np.inf)
    if n_citers > n_bags - 1:
        return np.full(n_bags, np.inf)
    others = D.copy()
    np.fill_diagonal(others, np.inf)
    return np.partition(others, n_citers - 1, axis=1)[:, n_citers - 1]
