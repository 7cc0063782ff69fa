"""MILEAGE: multiple instance learning with global embedding."""

from dataclasses import replace
from numbers import Integral, Real

import numpy as np
import scipy.sparse as sp

from bagwise._compat import Interval
from bagwise.bags.segments import bag_matrix, segment_max, segment_mean
from bagwise.solvers.hinge import HingeRows
from bagwise.svm._base import KERNEL_CONSTRAINTS, KernelBagSVM, Layout

_LEVEL = 1e-10
# Convex steps are solved to this fraction of the tolerance: shares depend on scores,
# and the error of one step would grow in the next one.
_INNER = 1e-2


class MILEAGE(KernelBagSVM):
    r"""Multiple instance learning with global embedding: MILEAGE.

    A bag is represented twice, by its best instance and as a whole, and the fit finds
    for each training bag the weights of the two ([1]_, a reconstruction from its
    summary: the notes list which choices are ours):

    .. math::
        \min_{f, b, \lambda} \; & \tfrac12 \|f\|^2 + C \sum_i w_i \Big(
            \big(1 - y_i (\lambda_i \max_j f(x_{ij}) + (1 - \lambda_i) f(B_i) + b)
            \big)_+ + \tfrac{\mu}{2} (\lambda_i - \lambda_0)^2 \Big), \\
        & 0 \le \lambda_i \le 1

    where :math:`C` is `C`, :math:`\mu` is `rigidity`, :math:`\lambda_0` is
    `local_share`, :math:`w_i` the weight of a bag, :math:`y_i = \pm 1` its label and
    :math:`f(B_i)` the function at the global features of a bag, the mean of its
    instances in the space of `kernel`. The fit alternates between the shares
    :math:`\lambda_i`, which have a closed form, with the best instances of positive
    bags, and the convex problem that they define; no step raises the objective.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss.
    local_share : float, default=0.5
        :math:`\lambda_0`: share of the best instance in the score of a bag, from 0
        (the bag as a whole alone) to 1 (the best instance alone).
    rigidity : float, default=1.0
        :math:`\mu`: penalty for a share that differs from :math:`\lambda_0`. At 0 each
        bag uses the better of the two views, at infinity all bags have the share
        :math:`\lambda_0`.
    kernel : {"rbf", "linear", "poly", "laplacian"}, default="rbf"
        Instance kernel.
    gamma : {"scale", "auto", "median"} or float, default="scale"
        Kernel width.
    degree, coef0 : float, default=3 and 1.0
        Parameters of the polynomial kernel.
    n_components : int, default=None
        Size of a Nystroem basis; None takes the exact kernel.
    threshold : {"train", "cv", "zero"}, default="train"
        Decision threshold: where a sigmoid fitted to training scores, or to out-of-fold
        scores (up to 5 more fits), equals one half, or zero, which is biased.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes.
    pos_label : label, default=None
        The positive class of two; ``classes_[1]`` by default.
    max_iter : int, default=100
        Maximum number of convex steps.
    tol : float, default=1e-4
        Minimum relative decrease of the objective for a further step. The convex
        steps are solved to a hundredth of it, on the optimality conditions.
    random_state : int, RandomState or None, default=None
        Random seed of the Nystroem basis.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Bag labels.
    shares_ : ndarray of shape (n_bags,)
        :math:`\lambda_i` of the training bags: the weight of the single instance.
    witnesses_ : ndarray of shape (n_positive_bags,)
        Row, in the stacked training instances, of each positive bag's best instance.
    intercept_ : float
        :math:`b`.
    coef_ : ndarray
        Weights of the features (linear kernel) or of the Nystroem basis.
    support_vectors_, dual_coef_ : ndarray
        The expansion of :math:`f` (exact kernels other than linear).
    objective_, objective_path_ : float, ndarray
        Objective at the end and after each step; it does not increase.
    duality_gap_ : float
        Of the last convex step.
    n_iter_ : int
        Number of convex steps.

    Notes
    -----
    A reconstruction: only the summary of [1]_ was available (a large margin over global
    features and bags of instances, whose weights are tuned for each example while the
    classifier is trained; a concave-convex procedure with cutting planes), not the
    formulas. Chosen here: one function for both views (separate ones are the case of
    separate features); the mean of the instances for the global features, because there
    are no other features of bags; the squared penalty of the shares; for a new bag,
    whose label and share are not known, the share :math:`\lambda_0`. With
    :math:`\lambda_0 = \tfrac12` the last is not a choice: the label with the lower
    objective, over all shares, is the sign of the even mixture. Convex steps are
    solved by their duals instead of cutting planes.

    With `rigidity` at infinity, a share of 1 is `MISVM` and a share of 0 an SVM on
    the means of bags. Instances are scored by :math:`f(x) + b`. Exact kernels cost
    O(n_instances**2) memory and at worst O(n_instances**3) time; a linear kernel or a
    Nystroem basis of rank r costs O(n_instances * r) memory and
    O(n_instances * r**2) time per step.

    References
    ----------
    .. [1] Zhang, D., He, J., Si, L., Lawrence, R. D., "MILEAGE: multiple instance
       learning with global embedding", ICML, 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.svm import MILEAGE
    >>> X = [[[0.0], [3.0]], [[3.2]], [[0.1], [-0.4]], [[0.3]]]
    >>> model = MILEAGE(C=10).fit([np.array(b) for b in X], [1, 1, 0, 0])
    >>> model.predict([np.array([[0.1], [2.9]]), np.array([[0.2]])])
    array([1, 0])
    """

    _parameter_constraints: dict = {
        **KERNEL_CONSTRAINTS,
        "local_share": [Interval(Real, 0, 1, closed="both")],
        "rigidity": [Interval(Real, 0, np.inf, closed="both")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        C=1.0,
        *,
        local_share=0.5,
        rigidity=1.0,
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=1.0,
        n_components=None,
        threshold="train",
        class_weight=None,
        pos_label=None,
        max_iter=100,
        tol=1e-4,
        random_state=None,
    ):
        self.C = C
        self.local_share = local_share
        self.rigidity = rigidity
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_components = n_components
        self.threshold = threshold
        self.class_weight = class_weight
        self.pos_label = pos_label
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def _fit_binary(self, X, t, bag_weight):
        n, prior = X.n_instances, float(self.local_share)
        self.local_share_ = prior
        layout = Layout.of(X, t, bag_weight)
        space = self._make_space(X, bag_weight)
        means = bag_matrix(X.offsets, mean=True)
        wide = space.with_combinations(means)

        def solve(state):
            step = wide.solve(self._rows(X, t, layout, *state), _INNER * self.tol)
            price = self._price(state[1], bag_weight)
            return replace(step, objective=step.objective + price)

        def choose(solution):
            scores = solution.scores
            local = segment_max(scores[:n], X.offsets)
            shares = best_shares(local, scores[n:], t, prior, self.rigidity)
            # If a step is constant, witnesses must not be chosen by rounding errors.
            ranked = self._start_scores(space, layout, scores[:n])
            return layout.witnesses(ranked), shares

        # Start with positive bags as a whole: no instance has been selected yet.
        whole = n + np.flatnonzero(t > 0)
        start = solve((whole, np.full(len(X), prior)))
        # Once margins are met, shares change slowly; a hundred steps would not pay.
        path = self._alternate(solve, choose, choose(start), tol=self.tol)
        self._record(path)
        self.witnesses_, self.shares_ = path.state
        self._store(X, wide, path.solution, means)

    def _rows(self, X, t, layout, represent, shares):
        """Rows of negative bags, one per instance, then a row for each positive bag.

        `represent` are the points that represent the best instances of the latter.
        """
        n, positive = X.n_instances, np.flatnonzero(t > 0)
        bag = np.r_[X.bag_index[layout.negative], positive]
        point = np.r_[layout.negative, represent]
        row = np.arange(len(bag))
        places = np.r_[row, row], np.r_[point, n + bag]
        values = np.r_[shares[bag], 1.0 - shares[bag]]
        weights = sp.csr_array((values, places), shape=(len(bag), n + len(X)))
        first = len(layout.negative_weight)
        return HingeRows(
            weights,
            t[bag].astype(np.float64),
            np.ones(len(bag)),
            self.C * np.r_[layout.negative_weight, layout.positive_weight],
            np.r_[layout.negative_group, first + np.arange(len(positive))],
        )

    def _price(self, shares, bag_weight):
        """Return the penalty of shares that differ from the common one."""
        away = shares - self.local_share
        if not away.any():  # also if the rigidity is infinite
            return 0.0
        return float(0.5 * self.C * self.rigidity * (bag_weight @ away**2))

    def _score_bags(self, X):
        scores = self._score_instances(X)
        local = segment_max(scores, X.offsets)
        whole = segment_mean(scores, X.offsets)
        return self.local_share_ * local + (1.0 - self.local_share_) * whole


def best_shares(local, whole, t, prior, rigidity):
    """Shares of the local scores that cost each bag least.

    Minimizes ``(1 - t (s local + (1 - s) whole))_+ + rigidity / 2 (s - prior)**2`` over
    ``0 <= s <= 1``: a bag moves towards the better of its two views until its margin is
    one, until moving costs more than it brings, or until nothing is left to move.
    """
    slope = t * (local - whole)
    # For bags of a single point, both scores differ by rounding only: keep the share.
    slope = np.where(np.abs(slope) <= _LEVEL * (1.0 + np.abs(local)), 0.0, slope)
    missing = np.maximum(0.0, 1.0 - t * (prior * local + (1.0 - prior) * whole))
    size = np.where(slope == 0.0, 1.0, np.abs(slope))
    worth = size / rigidity if rigidity else np.full(len(size), np.inf)
    room = np.where(slope > 0.0, 1.0 - prior, prior)
    return prior + np.sign(slope) * np.minimum(np.minimum(worth, missing / size), room)
