"""MissSVM: positive bags as unlabeled data."""

from numbers import Integral, Real

import numpy as np

from bagwise._compat import Interval
from bagwise.solvers.hinge import HingeRows
from bagwise.svm._base import KERNEL_CONSTRAINTS, KernelBagSVM, Layout


class MissSVM(KernelBagSVM):
    r"""Treat the instances of positive bags as unlabeled: MissSVM.

    .. math::
        \min_{f, b} \; & \tfrac12 \|f\|^2
            + C \sum_{i \in I^-} w_i \sum_j (1 + f_{ij})_+ \\
            & + C_u \sum_{i \in I^+} w_i \sum_j
              \min\big((1 - f_{ij})_+, (1 + f_{ij})_+\big)
            + C_b \sum_{i \in I^+} w_i \big(1 - \max_j f_{ij}\big)_+

    ([1]_) with :math:`f_{ij} = f(x_{ij}) + b`, where :math:`C` is `C`, :math:`C_u` is
    `C_unlabeled`, :math:`C_b` is `C_bag` and :math:`w_i` the weight of a bag. The signs
    and the witnesses are kept from the step before, which makes every step convex.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the instances of negative bags.
    C_unlabeled : float, default=None
        Weight of the instances of positive bags; None takes `C`.
    C_bag : float, default=None
        Weight of the positive bags; None takes `C`.
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
    witnesses_ : ndarray of shape (n_positive_bags,)
        Row, in the stacked training instances, of each positive bag's witness.
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
    Differs from [1]_: bags may be weighted, and the first model is trained with the
    mean of each positive bag. Exact kernels cost
    O(n_instances**2) memory; a linear kernel or a Nystroem basis of rank r costs
    O(n_instances * r) memory and O(n_instances * r**2) time per step.

    References
    ----------
    .. [1] Zhou, Z.-H., Xu, J.-M., "On the relation between multi-instance learning and
       semi-supervised learning", ICML, 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.svm import MissSVM
    >>> X = [[[0.0], [3.0]], [[3.2]], [[0.1], [-0.4]], [[0.3]]]
    >>> model = MissSVM(kernel="linear").fit([np.array(b) for b in X], [1, 1, 0, 0])
    >>> model.predict([np.array([[0.0], [2.9]]), np.array([[0.2]])])
    array([1, 0])
    """

    _parameter_constraints: dict = {
        **KERNEL_CONSTRAINTS,
        "C_unlabeled": [Interval(Real, 0, None, closed="neither"), None],
        "C_bag": [Interval(Real, 0, None, closed="neither"), None],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        C=1.0,
        *,
        C_unlabeled=None,
        C_bag=None,
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
        self.C_unlabeled = C_unlabeled
        self.C_bag = C_bag
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
        layout = Layout.of(X, t, bag_weight)
        space = self._make_space(X, bag_weight)
        C_bag = self.C if self.C_bag is None else self.C_bag
        C_unlabeled = self.C if self.C_unlabeled is None else self.C_unlabeled
        n_negative, n_bags = len(layout.negative), layout.n_positive_bags
        negative_cap = self.C * layout.negative_caps()
        bag_cap = C_bag * layout.positive_weight
        cap = np.r_[negative_cap, bag_cap, C_unlabeled * layout.positive_caps()]
        negative_sign = -np.ones(n_negative)
        sign = np.r_[negative_sign, np.ones(n_bags)]

        def solve(state):
            signs, witnesses = state
            points = np.r_[layout.negative, witnesses, layout.positive]
            rows = HingeRows(points, np.r_[sign, signs], np.ones(len(cap)), cap)
            return space.solve(rows, self.tol)

        def choose(solution):
            own = solution.scores[layout.positive]
            signs = np.where(own >= 0, 1.0, -1.0)
            return signs, layout.witnesses(solution.scores)

        wide = space.with_combinations(layout.means(X.n_instances))
        start = wide.solve(
            HingeRows(
                np.r_[layout.negative, X.n_instances + np.arange(n_bags)],
                sign,
                np.ones(n_negative + n_bags),
                np.r_[negative_cap, bag_cap],
            ),
            self.tol,
        )
        start.scores = self._start_scores(wide, layout, start.scores)
        path = self._alternate(solve, choose, choose(start))
        self._record(path)
        self.witnesses_ = path.state[1]
        self._store(X, space, path.solution)
