"""MIBoosting: AdaBoost whose examples are bags."""

from numbers import Integral

import numpy as np
from scipy.optimize import brentq
from sklearn.tree import DecisionTreeClassifier

from bagwise._compat import HasMethods, Interval, StrOptions
from bagwise.bags.segments import repeat, segment_mean
from bagwise.compose.forests import in_tree_units, tree_units
from bagwise.ensemble._boosted import BOOSTING_CONSTRAINTS, BoostedBags

# With more instances than the first number, a tree is fitted to a sample.
_MANY, _SAMPLED = 30_000, 20_000


class MIBoosting(BoostedBags):
    r"""Boost weak learners of instances on the exponential loss of bags.

    A bag has the mean score of its instances, and rounds are added to lower ([1]_)

    .. math::
        \sum_i v_i \, e^{-t_i f(B_i)}, \qquad
        f(B) = \frac{1}{|B|} \sum_{x \in B} \sum_m c_m h_m(x)

    where :math:`t_i = \pm 1` is the label and :math:`v_i` the weight of a bag (they sum
    to one). Round m fits :math:`h_m \in \{-1, +1\}` to instances with the label of
    their bag and the weight :math:`W_i / |B_i|`. With :math:`e_i` the share of the
    instances of bag i that :math:`h_m` misclassifies, the convex problem
    :math:`c_m = \arg\min_c \sum_i W_i e^{(2 e_i - 1) c}` is solved exactly, and
    :math:`W_i` is multiplied by :math:`e^{(2 e_i - 1) c_m}` and normalized.

    Parameters
    ----------
    n_estimators : int, default=50
        Maximum number of rounds.
    estimator : classifier or "stump", default=None
        Weak learner, any scikit-learn classifier with `sample_weight`; by default a
        decision tree of depth 3 whose leaves hold at least 1% of the weight. "stump" is
        the stump with the smallest weighted error, at least ten times faster. A tree
        that is not pruned classifies every training instance as its bag and ends
        boosting in the first round.
    max_samples : int, None or "auto", default="auto"
        Maximum number of instances that a learner other than "stump" is fitted to: if
        there are more, each round samples this number by their weights. None takes all,
        "auto" all up to 30,000 and 20,000 beyond.
    n_iter_no_change : int, default=None
        Stop early: a share `validation_fraction` of the bags is held out, boosting ends
        when their loss has not decreased by `tol` for this number of rounds, and the
        rounds up to the lowest loss are kept. By default no bag is held out.
    validation_fraction : float, default=0.1
        Share of the bags to hold out, with both classes.
    tol : float, default=1e-4
        Minimum decrease of the mean loss of the held-out bags.
    class_weight : dict or "balanced", default=None
        Weights of the classes.
    pos_label : label, default=None
        The positive class of two; ``classes_[1]`` by default.
    random_state : int or RandomState, default=None
        Seeds `estimator` and the bags to hold out.

    Attributes
    ----------
    learners_ : list
        The weak learners :math:`h_m`.
    learner_weights_ : ndarray of shape (n_iter,)
        Their weights :math:`c_m`.
    n_iter_ : int
        Number of rounds kept.
    objective_ : float
        The loss at the end.
    objective_path_ : ndarray of shape (n_iter + 1,)
        The loss before the first round (which is 1) and after each; it decreases in
        every round.
    validation_path_ : ndarray
        Mean loss of the held-out bags, if there are any.
    column_shift_, column_scale_ : ndarray of shape (n_features,) or None
        The default trees see columns minus the first and divided by the second: units
        in which trees of single precision can split them. None for other learners.
    classes_ : ndarray of shape (n_classes,)
        The labels.

    Notes
    -----
    Boosting ends when a learner is no better than guessing (:math:`c_m \le 0`; it is
    not kept) or when in no bag more than half of the instances are misclassified,
    because the minimum over c is then at infinity. That learner is kept with the
    largest weight so far, at least 1.

    `instance_scores` are :math:`\sum_m c_m h_m(x)`; their mean is the decision value.
    Repeating all instances of a bag changes nothing. The cost of a round is that of the
    weak learner on `n_instances` rows; CSR data stay sparse.

    Differs from [1]_: boosting also ends when exactly half of the instances of a bag
    are misclassified and in no bag more (the paper requires less than half in all
    bags), because the minimum does not exist then either; trees of scikit-learn
    instead of C4.5.

    References
    ----------
    .. [1] Xu, X. and Frank, E., "Logistic regression and boosting for labeled bags of
       instances", PAKDD, 2004. :doi:`10.1007/978-3-540-24775-3_35`

    Examples
    --------
    >>> from bagwise.datasets import make_bags
    >>> from bagwise.ensemble import MIBoosting
    >>> X, y = make_bags(random_state=0)
    >>> MIBoosting(20, random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """

    _parameter_constraints: dict = {
        **BOOSTING_CONSTRAINTS,
        "estimator": [HasMethods(["fit", "predict"]), StrOptions({"stump"}), None],
        "max_samples": [
            Interval(Integral, 1, None, closed="left"),
            StrOptions({"auto"}),
            None,
        ],
    }

    def __init__(
        self,
        n_estimators=50,
        *,
        estimator=None,
        max_samples="auto",
        n_iter_no_change=None,
        validation_fraction=0.1,
        tol=1e-4,
        class_weight=None,
        pos_label=None,
        random_state=None,
    ):
        self.n_estimators = n_estimators
        self.estimator = estimator
        self.max_samples = max_samples
        self.n_iter_no_change = n_iter_no_change
        self.validation_fraction = validation_fraction
        self.tol = tol
        self.class_weight = class_weight
        self.pos_label = pos_label
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # A user-defined learner may count rows (min_samples_leaf).
        own = self.estimator is not None and not self._is_stump()
        tags.input_tags.duplicate_invariant = None if own else True
        tags.input_tags.respects_standard_assumption = False
        return tags

    def _is_stump(self):
        return isinstance(self.estimator, str) and self.estimator == "stump"

    def _weak_estimator(self):
        if self.estimator is None:
            return DecisionTreeClassifier(max_depth=3, min_weight_fraction_leaf=0.01)
        return None if self._is_stump() else self.estimator

    def _fit_binary(self, X, t, bag_weight):
        units = tree_units(X.data) if self.estimator is None else (None, None)
        self.column_shift_, self.column_scale_ = units
        super()._fit_binary(X, t, bag_weight)

    def _learner_rows(self, X):
        if self.column_scale_ is None:
            return X.data
        return in_tree_units(X.data, self.column_shift_, self.column_scale_)

    def _most_samples(self, n_instances):
        if self.max_samples != "auto":
            return self.max_samples
        return None if n_instances <= _MANY else _SAMPLED

    def _boost(self, X, t, bag_weight, learn):
        W = bag_weight / bag_weight.sum()
        loss, largest, last = 1.0, 1.0, False
        yield None, None, 0.0, loss
        while loss > 0 and not last:
            learner = learn(repeat(t * W / X.sizes, X.offsets))
            h = np.asarray(learner.predict(X.data), dtype=np.float64)
            # 2 e_i - 1, where e_i is the misclassified share of the bag.
            excess = -t * segment_mean(h, X.offsets)
            c = best_weight(W, excess)
            if c <= 0:
                return
            last = np.isinf(c)
            c = largest if last else c
            largest = max(largest, c)
            W = W * np.exp(excess * c)
            total = float(W.sum())
            loss *= total
            W /= total
            yield learner, h, c, loss

    def _loss(self, F, offsets, t, bag_weight):
        exponent = np.minimum(-t * segment_mean(F, offsets), 700.0)
        return float(bag_weight @ np.exp(exponent))

    def _pool(self, F, offsets):
        return segment_mean(F, offsets)


def _log_sum(exponents):
    """Logarithm of a sum of exponentials, without the checks of SciPy's."""
    top = exponents.max()
    if top == -np.inf:  # all weights have underflown
        return top
    return top + np.log(np.exp(exponents - top).sum())


def best_weight(W, excess):
    r"""Return the minimizer over c of :math:`\sum_i W_i e^{g_i c}`.

    The derivative is zero where its positive and negative terms are equally large. The
    difference of their logarithms rises with c, at a bounded rate, and has the same
    root; nothing in it overflows.

    Parameters
    ----------
    W : ndarray of shape (n_bags,)
        Weights.
    excess : ndarray of shape (n_bags,)
        :math:`g_i = 2 e_i - 1`, in [-1, 1].

    Returns
    -------
    float
        0 when the sum rises or is flat at 0; infinity when it falls forever.
    """
    wrong, right = excess > 1e-12, excess < -1e-12  # rounding of a mean of +-1
    if W @ excess >= 0 or not (W[right] > 0).any():
        return 0.0
    if not (W[wrong] > 0).any():
        return np.inf
    with np.errstate(divide="ignore"):  # a weight may have underflown
        up = np.log(W[wrong] * excess[wrong])
        down = np.log(-W[right] * excess[right])
    rising, falling = excess[wrong], excess[right]

    def balance(c):
        return _log_sum(up + rising * c) - _log_sum(down + falling * c)

    high = 1.0
    while balance(high) < 0:
        high *= 2.0
    return float(brentq(balance, 0.0, high, xtol=1e-14, rtol=1e-14))
