"""MICA: convex combinations represent the positive bags."""

from numbers import Integral

import numpy as np

from bagwise._compat import Interval, StrOptions
from bagwise.kernels.instance import instance_kernel
from bagwise.solvers.hinge import BasisSpace
from bagwise.svm._base import KERNEL_CONSTRAINTS
from bagwise.svm._misvm import MISVM


class MICA(MISVM):
    r"""Let a convex combination of its instances stand for a positive bag: MICA.

    .. math::
        \min_{f, b, \lambda} \; \Omega(f)
            + C \sum_{i \in I^+} w_i \Big(1 - \sum_j \lambda_{ij} f(x_{ij}) - b\Big)_+
            + C \sum_{i \in I^-} w_i \sum_j \big(1 + f(x_{ij}) + b\big)_+

    ([1]_) with :math:`\lambda_i` in the simplex, where :math:`C` is `C` and
    :math:`w_i` the weight of a bag. :math:`\Omega(f) = \tfrac12 \|f\|^2` for
    ``norm="l2"``, and for ``norm="l1"`` the sum of the absolute coefficients: of the
    features (linear kernel), of the kernel functions of the training instances, or of
    the Nystroem basis.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss.
    norm : {"l2", "l1"}, default="l2"
        Regulariser; [1]_ has "l1", by linear programs.
    init : {"auto", "feature_mean", "input_mean", "random"}, default="feature_mean"
        What represents the positive bags in the first step: the mean in the space of
        the kernel (equal weights, as in [1]_), the mean of the features, or a random
        instance; "auto" as in :class:`MISVM`.
    n_init : int, default=1
        Number of random starts; the lowest objective is kept.
    kernel : {"rbf", "linear", "poly", "laplacian"}, default="rbf"
        Instance kernel.
    gamma : {"scale", "auto", "median"} or float, default="scale"
        Kernel width.
    degree, coef0 : float, default=3 and 1.0
        Of the polynomial kernel.
    n_components : int, default=None
        Size of a Nystroem basis; None takes the exact kernel.
    threshold : {"train", "cv", "zero"}, default="train"
        Where scores are cut: where a sigmoid through training scores, or out-of-fold
        scores (five more fits), crosses one half, or at zero as in the paper, which is
        biased.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes.
    pos_label : label, default=None
        The positive class of two; ``classes_[1]`` by default.
    max_iter : int, default=100
        Cap on the convex steps.
    tol : float, default=1e-4
        Tolerance of the convex steps, on the optimality conditions.
    random_state : int, RandomState or None, default=None
        The Nystroem basis.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Bag labels.
    witnesses_ : ndarray of shape (n_positive_bags,)
        Row, in the stacked training instances, of the instance that carries the weight
        of each positive bag.
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

    See Also
    --------
    MISVM : The same problem with ``norm="l2"`` and ``slack="instance"``.

    Notes
    -----
    Differs from [1]_: for a given :math:`f` the best :math:`\lambda_i` is a vertex of
    the simplex, the instance with the highest score. The alternation therefore moves
    between vertices, and with ``norm="l2"`` it is MI-SVM with instance slack. A linear
    program on an exact kernel has O(n_instances**2) coefficients; use `n_components` or
    the linear kernel above a few thousand instances.

    References
    ----------
    .. [1] Mangasarian, O. L., Wild, E. W., "Multiple instance classification via
       successive linear programming", Journal of Optimization Theory and Applications,
       2008.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.svm import MICA
    >>> X = [[[0.0], [3.0]], [[3.2]], [[0.1], [-0.4]], [[0.3]]]
    >>> model = MICA(norm="l1", kernel="linear")
    >>> model.fit([np.array(b) for b in X], [1, 1, 0, 0]).witnesses_
    array([1, 2])
    """

    slack = "instance"  # [1] gives each instance of a negative bag its own slack

    _parameter_constraints: dict = {
        **KERNEL_CONSTRAINTS,
        "norm": [StrOptions({"l1", "l2"})],
        "init": [StrOptions({"auto", "feature_mean", "input_mean", "random"})],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        C=1.0,
        *,
        norm="l2",
        init="feature_mean",
        n_init=1,
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
        self.norm = norm
        self.init = init
        self.n_init = n_init
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
        tags.input_tags.chunked = False  # combinations may be of all instances
        return tags

    def _make_space(self, X, *, shift=True):
        # The linear program weighs columns: features, or kernel functions.
        columns = self.norm == "l1" and self.kernel == "linear"
        space = super()._make_space(X, shift=shift and not columns)
        if self.norm == "l2" or isinstance(space, BasisSpace):
            return space
        return BasisSpace(X.data if columns else space.K)

    def _solve(self, space, rows):
        return (
            space.solve_l1(rows) if self.norm == "l1" else super()._solve(space, rows)
        )

    def _expands(self, space):
        """Whether the coefficients belong to the training instances."""
        is_basis = isinstance(space, BasisSpace)
        return is_basis and self.kernel != "linear" and not hasattr(self, "basis_")

    def _with_input_means(self, X, space, layout):
        if not self._expands(space):
            return super()._with_input_means(X, space, layout)
        means = self._input_means(X, layout)
        return space.with_coordinates(
            instance_kernel(means, X.data, **self.kernel_params_)
        )

    def _store(self, X, space, solution, combinations=None):
        if not self._expands(space):
            super()._store(X, space, solution, combinations)
            return
        self.intercept_ = float(solution.b)
        self.support_ = np.flatnonzero(solution.coef)
        self.support_vectors_ = X.data[self.support_]
        self.dual_coef_ = solution.coef[self.support_]
