"""The machine for bags with a known share of positive instances: sbMIL."""

from numbers import Real

import numpy as np

from bagwise._compat import Interval
from bagwise.solvers.hinge import HingeRows
from bagwise.svm._base import KERNEL_CONSTRAINTS
from bagwise.svm._sparse_mil import SparseMIL


class SBMIL(SparseMIL):
    r"""Label instances by sMIL, then train on them: sbMIL.

    The instances of positive bags are ranked by :class:`SMIL`. The highest
    :math:`\max(|I^+|, \eta\, n^+)` get the label 1, all others -1, and

    .. math::
        \min_{f, b} \; \tfrac12 \|f\|^2
            + C \sum_i w_i \sum_j \big(1 - t_{ij} (f(x_{ij}) + b)\big)_+

    ([1]_) is solved, where :math:`C` is `C`, :math:`\eta` is `eta`,
    :math:`w_i` the weight of a bag, :math:`t_{ij}` those labels and :math:`n^+` the
    number of instances in positive bags.

    Parameters
    ----------
    C : float, default=10.0
        Weight of the loss, in both problems.
    eta : float in [0, 1], default=0.3
        Expected share of positive instances in positive bags.
    scale_C : bool, default=False
        Whether the ranking problem divides each sum by its number of terms, as in
        [1]_. The final problem never does: with the same `C` in both, the ranking
        would be far smoother than the machine trained on it.
    kernel : {"rbf", "linear", "poly", "laplacian"}, default="rbf"
        Instance kernel.
    gamma : {"scale", "auto", "median"} or float, default="scale"
        Kernel width.
    degree, coef0 : float, default=3 and 1.0
        Of the polynomial kernel.
    n_components : int, default=None
        Size of a Nystroem basis; None takes the exact kernel.
    threshold : {"cv", "train", "zero"}, default="cv"
        Where scores are cut: where a sigmoid through training scores, or out-of-fold
        scores (five more fits), crosses one half, or at zero as in the paper, which is
        biased.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes.
    pos_label : label, default=None
        The positive class of two; ``classes_[1]`` by default.
    tol : float, default=1e-4
        Tolerance of the convex steps, on the optimality conditions.
    random_state : int, RandomState or None, default=None
        The Nystroem basis.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Bag labels.
    instance_labels_ : ndarray of shape (n_instances,)
        -1 or 1 for each training instance, stacked.
    intercept_ : float
        :math:`b`.
    coef_ : ndarray
        Weights of the features (linear kernel) or of the Nystroem basis.
    support_vectors_, dual_coef_ : ndarray
        The expansion of :math:`f` (exact kernels other than linear).
    objective_ : float
        Objective at the solution.
    duality_gap_ : float
        Of the convex problem.

    Notes
    -----
    Differs from [1]_: bags may be weighted; see `scale_C`. Scores
    closer than ``10 * tol`` are ranked by position. Exact kernels cost
    O(n_instances**2) memory; a linear kernel or a Nystroem basis of rank r costs
    O(n_instances * r) memory and O(n_instances * r**2) time a step.

    References
    ----------
    .. [1] Bunescu, R. C., Mooney, R. J., "Multiple instance learning for sparse
       positive bags", ICML, 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.svm import SBMIL
    >>> X = [[[0.0], [3.0]], [[3.2]], [[0.1], [-0.4]], [[0.3]]]
    >>> model = SBMIL(kernel="linear", eta=0.5)
    >>> model.fit([np.array(b) for b in X], [1, 1, 0, 0]).instance_labels_
    array([-1.,  1.,  1., -1., -1., -1.])
    """

    _parameter_constraints: dict = {
        **KERNEL_CONSTRAINTS,
        "scale_C": ["boolean"],
        "eta": [Interval(Real, 0, 1, closed="both")],
    }

    def __init__(
        self,
        C=10.0,
        *,
        eta=0.3,
        scale_C=False,
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=1.0,
        n_components=None,
        threshold="cv",
        class_weight=None,
        pos_label=None,
        tol=1e-4,
        random_state=None,
    ):
        self.C = C
        self.eta = eta
        self.scale_C = scale_C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_components = n_components
        self.threshold = threshold
        self.class_weight = class_weight
        self.pos_label = pos_label
        self.tol = tol
        self.random_state = random_state

    def _fit_binary(self, X, t, bag_weight):
        layout, space, means, first = self._balance(X, t, bag_weight)
        # Support vectors share their score: what the solver cannot tell apart is a tie.
        digits = max(0, int(-np.log10(10 * self.tol)))
        scores = self._start_scores(space, layout, first.scores)[layout.positive]
        scores = np.round(scores, digits)
        order = np.argsort(-scores, kind="stable")
        # As many as eta asks for, counted by weight, but at least one for each bag.
        weight = layout.positive_caps()[order]
        wanted = max(layout.positive_weight.sum(), self.eta * weight.sum())
        chosen = order[np.cumsum(weight) - 0.5 * weight < wanted]
        labels = np.full(X.n_instances, -1.0)
        labels[layout.positive[chosen]] = 1.0
        rows = HingeRows(
            np.arange(X.n_instances),
            labels,
            np.ones(X.n_instances),
            self.C * bag_weight[X.bag_index],
        )
        solution = space.solve(rows, self.tol)
        self.instance_labels_ = labels
        self._record_step(solution, first)
        self._store(X, space, solution, means)
