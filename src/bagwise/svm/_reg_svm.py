"""reg-SVM: a bag's own score, tied to the scores of its instances."""

from numbers import Integral, Real

import numpy as np
import scipy.sparse as sp

from bagwise._compat import Interval, StrOptions
from bagwise.bags.segments import (
    bag_matrix,
    repeat,
    segment_argmax,
    segment_max,
    segment_sum,
)
from bagwise.kernels.instance import instance_kernel, row_blocks
from bagwise.solvers.hinge import HingeRows
from bagwise.svm._base import KERNEL_CONSTRAINTS, KernelBagSVM


class RegSVM(KernelBagSVM):
    r"""Regularize the difference between bag and instance scores: reg-SVM.

    A bag is a point :math:`\phi(B_i)` of the space of the instances, so that one
    function scores both:

    .. math::
        \min_{f, b} \; \tfrac12 \|f\|^2
            + C \sum_i w_i \big(1 - y_i (f(B_i) + b)\big)_+
            + C \lambda \sum_i w_i \big|f(B_i) - \max_j f(x_{ij})\big|

    ([1]_) where :math:`C` is `C`, :math:`\lambda` is `consistency`,
    :math:`w_i` the weight of a bag and :math:`y_i = \pm 1` its label. The concave half
    of the last term is replaced by its tangent at the step before, which makes every
    step convex: maximizers that are equal within the accuracy of a step share its
    weight, one over their number each. The rows of a bag share its slack.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss.
    consistency : float, default=0.1
        :math:`\lambda`: weight of the disagreement, relative to the loss. Near 0 it is
        an SVM with a set kernel; at 1 the scores of bags depend on single instances
        more than on labels, which lowers the accuracy on images considerably.
    normalization : {"feature_space", "average"}, default="feature_space"
        Whether :math:`\phi(B)` is the sum of the instances divided by its norm, or
        their mean.
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
        scores (up to 5 more fits), equals one half, or zero as in the paper, which is
        biased.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes.
    pos_label : label, default=None
        The positive class of two; ``classes_[1]`` by default.
    max_iter : int, default=100
        Maximum number of convex steps.
    tol : float, default=1e-4
        Tolerance of the convex steps, on the optimality conditions.
    random_state : int, RandomState or None, default=None
        Random seed of the Nystroem basis.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Bag labels.
    witnesses_ : ndarray of shape (n_bags,)
        Row, in the stacked training instances, of each bag's highest score (the first
        one of several that are equal).
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
    A reconstruction: summaries of [1]_ were available, not its formulas. The summaries
    agree with this method: a loss (absolute, squared or insensitive) between the output
    of a bag and the largest of its instances, instead of their equality; instances are
    bags of one, so that one set kernel covers both; a concave-convex procedure. Our
    choices: the absolute loss, its weight, and the divisor of the sum of a bag.
    Differs from [1]_: `C` is the weight of one bag, not divided by the number of bags.
    The score of a bag is :math:`f(B) + b`, that of an instance :math:`f(x) + b`. A step
    has n_instances + 2 n_bags rows. Exact kernels cost
    O(n_instances**2) memory; a linear kernel or a Nystroem basis of rank r costs
    O(n_instances * r) memory and O(n_instances * r**2) time per step.

    References
    ----------
    .. [1] Cheung, P.-M., Kwok, J. T., "A regularization framework for
       multiple-instance learning", ICML, 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.svm import RegSVM
    >>> X = [[[0.0], [3.0]], [[3.2]], [[0.1], [-0.4]], [[0.3]]]
    >>> model = RegSVM(C=10).fit([np.array(b) for b in X], [1, 1, 0, 0])
    >>> model.predict([np.array([[0.1], [2.9]]), np.array([[0.2]])])
    array([1, 0])
    """

    _parameter_constraints: dict = {
        **KERNEL_CONSTRAINTS,
        "consistency": [Interval(Real, 0, None, closed="neither")],
        "normalization": [StrOptions({"feature_space", "average"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        C=1.0,
        *,
        consistency=0.1,
        normalization="feature_space",
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
        self.consistency = consistency
        self.normalization = normalization
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

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.respects_standard_assumption = False
        return tags

    def _fit_binary(self, X, t, bag_weight):
        n = X.n_instances
        self.normalization_ = self.normalization
        # The norm of a bag depends on the origin.
        space = self._make_space(X, bag_weight, shift=False)
        bags = sp.diags_array(1.0 / self._bag_norms(X)) @ bag_matrix(X.offsets)
        wide = space.with_combinations(sp.csr_array(bags))

        def solve(state):
            return wide.solve(self._rows(X, t, bag_weight, state[0]), self.tol)

        def choose(solution):
            # Instances that limit the score of a bag have equal scores at the optimum.
            # |f - f*|^2 is at most twice the gap: scores that are closer are equal.
            scores = solution.scores[:n]
            accuracy = max(10.0 * self.tol, np.sqrt(2.0 * max(solution.gap, 0.0)))
            top = repeat(segment_max(scores, X.offsets), X.offsets)
            near = (scores >= top - accuracy).astype(np.float64)
            return (near / repeat(segment_sum(near, X.offsets), X.offsets),)

        # The first step omits the concave half: it is a relaxation of the problem.
        start = wide.solve(self._rows(X, t, bag_weight, None), self.tol)
        path = self._alternate(solve, choose, choose(start))
        self._record(path)
        self.witnesses_ = segment_argmax(path.state[0] > 0, X.offsets)
        self._store(X, wide, path.solution, bags)

    def _rows(self, X, t, bag_weight, shares):
        """Rows of the bags, then for each bag its rows of disagreement.

        `shares` are the weights of the instances in the maximum of their bag, or None.
        """
        n, n_bags = X.n_instances, len(X)
        ones = sp.csr_array(sp.eye_array(n_bags))
        member = bag_matrix(X.offsets)
        # f(B_i) - f(x_ij) >= -d_i for all j, and the maximum - f(B_i) >= -d_i.
        differences = sp.hstack([-sp.eye_array(n), member.T]).tocsr()
        group = X.bag_index
        if shares is not None:
            highest = sp.csr_array(member @ sp.diags_array(shares))
            highest.eliminate_zeros()
            more = sp.hstack([highest, -ones]).tocsr()
            group = np.r_[group, np.arange(n_bags)]
            order = np.argsort(group, kind="stable")
            differences = sp.vstack([differences, more]).tocsr()[order]
            group = group[order]
        bag_rows = sp.hstack([sp.csr_array((n_bags, n)), ones]).tocsr()
        cap = self.C * bag_weight
        return HingeRows(
            sp.csr_array(sp.vstack([bag_rows, differences])),
            np.r_[t, np.ones(len(group))],
            np.r_[np.ones(n_bags), np.zeros(len(group))],
            np.r_[cap, self.consistency * cap],
            np.r_[np.arange(n_bags), n_bags + group],
            np.r_[t, np.zeros(len(group))],
        )

    def _bag_norms(self, X):
        """Divisor of the sum of a bag's instances."""
        if self.normalization_ == "average":
            return X.sizes.astype(np.float64)
        if hasattr(self, "basis_") or self.kernel_params_["kernel"] == "linear":
            parts = [self._squared_sums(part) for part in X.iter_chunks(8192)]
            squared = np.concatenate(parts)
        else:
            squared = np.array([self._kernel_total(bag) for bag in X])
        # A bag whose instances cancel is at the origin for any divisor.
        scale = np.sqrt(np.maximum(squared, 0.0))
        return np.where(scale > 1e-10 * X.sizes, scale, X.sizes)

    def _squared_sums(self, X):
        """Squared norm of the sum of the (mapped) instances of each bag."""
        rows = self.basis_.transform(X.data) if hasattr(self, "basis_") else X.data
        total = bag_matrix(X.offsets) @ rows
        return np.asarray((total * total).sum(axis=1)).ravel()

    def _kernel_total(self, bag):
        options = self.kernel_params_
        return sum(
            instance_kernel(bag[rows], bag, **options).sum()
            for rows in row_blocks(bag.shape[0], 16.0 * bag.shape[0])
        )

    def _score_bags(self, X):
        values = self._score_instances(X) - self.intercept_
        return segment_sum(values, X.offsets) / self._bag_norms(X) + self.intercept_
