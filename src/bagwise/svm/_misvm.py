"""MI-SVM: one witness represents each positive bag."""

from numbers import Integral

import numpy as np
from sklearn.utils import check_random_state

from bagwise._compat import Interval, StrOptions
from bagwise.bags.segments import segment_mean
from bagwise.kernels.instance import instance_kernel
from bagwise.solvers.hinge import BasisSpace, HingeRows
from bagwise.svm._base import KERNEL_CONSTRAINTS, KernelBagSVM, Layout


class MISVM(KernelBagSVM):
    r"""Maximize the margin of bags: MI-SVM.

    A positive bag has the margin of its best instance, the *witness*
    ([1]_; [2]_):

    .. math::
        \min_{f, b} \; \tfrac12 \|f\|^2
            + C \sum_{i \in I^+} w_i \big(1 - \max_j f(x_{ij}) - b\big)_+
            + C \sum_{i \in I^-} w_i\, \ell_i,

        \ell_i = \begin{cases}
            \big(1 + \max_j f(x_{ij}) + b\big)_+ & \text{bag slack} \\
            \sum_j \big(1 + f(x_{ij}) + b\big)_+ & \text{instance slack}
        \end{cases}

    where :math:`C` is `C`, :math:`w_i` the weight of a bag (`sample_weight` times
    `class_weight`), :math:`f` a function of the space of `kernel` and :math:`\ell_i`
    is chosen by `slack`. The fit alternates between the witnesses and the convex
    problem they define, which never raises the objective.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss.
    slack : {"bag", "instance"}, default="bag"
        Whether the loss of a negative bag is that of its highest instance, as in [1]_,
        or the sum over all instances.
    init : {"auto", "feature_mean", "input_mean", "random"}, default="auto"
        The first witnesses: those of an SVM in which the mean of a bag, in the space of
        the kernel or of the features, represents it, or random ones. "auto" tries
        two, those of the mean in the space of the kernel and the instances furthest
        along the direction between the two classes, and continues with the one whose
        first step has the lower objective.
    n_init : int, default=1
        Number of random starts; the lowest objective is kept. The other starts are
        deterministic and computed once.
    kernel : {"rbf", "linear", "poly", "laplacian"}, default="rbf"
        Instance kernel.
    gamma : {"scale", "auto", "median"} or float, default="scale"
        Kernel width.
    degree, coef0 : float, default=3 and 1.0
        Parameters of the polynomial kernel.
    n_components : int, default=None
        Size of a Nystroem basis. None takes the exact kernel, whose matrix is
        quadratic in the number of instances.
    threshold : {"train", "cv", "zero"}, default="train"
        Decision threshold: where a sigmoid fitted to training scores, or to out-of-fold
        scores (up to 5 more fits), equals one half, or zero as in the paper, which is
        biased.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes.
    pos_label : label, default=None
        The positive class of two; ``classes_[1]`` by default.
    max_iter : int, default=100
        Maximum number of convex steps per start.
    tol : float, default=1e-4
        Tolerance of the convex steps, on the optimality conditions.
    random_state : int, RandomState or None, default=None
        Random seed of the starts and of the Nystroem basis.

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
        Convex steps of the kept start.

    Notes
    -----
    Differs from [1]_: `init` and `slack` are parameters ([1]_ starts from the mean of
    the features). The problem is not convex, and its result depends on the start. Exact
    kernels cost O(n_instances**2) memory and at worst O(n_instances**3) time (measured
    exponents: 2.1 in the number of bags, 2.4 in their size); a linear kernel or a
    Nystroem basis of rank r costs O(n_instances * r) memory and O(n_instances * r**2)
    time per step. With a linear kernel and a slack for each bag, a memory map larger
    than memory is read in chunks: only the instances next to the margin are held.

    References
    ----------
    .. [1] Andrews, S., Tsochantaridis, I., Hofmann, T., "Support vector machines for
       multiple-instance learning", NIPS, 2002.
    .. [2] Cheung, P.-M., Kwok, J. T., "A regularization framework for
       multiple-instance learning", ICML, 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.svm import MISVM
    >>> X = [[[0.0], [3.0]], [[3.2]], [[0.1], [-0.4]], [[0.3]]]
    >>> model = MISVM(kernel="linear").fit([np.array(b) for b in X], [1, 1, 0, 0])
    >>> model.predict([np.array([[0.0], [2.9]]), np.array([[0.2]])])
    array([1, 0])
    >>> model.witnesses_
    array([1, 2])
    """

    _parameter_constraints: dict = {
        **KERNEL_CONSTRAINTS,
        "slack": [StrOptions({"bag", "instance"})],
        "init": [StrOptions({"auto", "feature_mean", "input_mean", "random"})],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        C=1.0,
        *,
        slack="bag",
        init="auto",
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
        self.slack = slack
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
        tags.input_tags.chunked = self.kernel == "linear" and self.slack == "bag"
        return tags

    def _fit_binary(self, X, t, bag_weight):
        layout = Layout.of(X, t, bag_weight)
        space = self._make_space(X, bag_weight)

        def solve(state):
            return self._solve(space, self._rows(layout, state[0]))

        def choose(solution):
            # If a step is constant, witnesses must not be chosen by rounding errors.
            return (
                layout.witnesses(self._start_scores(space, layout, solution.scores)),
            )

        starts = [(state, None) for state in self._starts(X, space, layout)]
        if self.init == "auto" and len(starts) > 1:
            # Solve one step from each start, and continue from the best.
            starts = [(state, solve(state)) for state, _ in starts]
            starts = [min(starts, key=lambda start: start[1].objective)]
        best = None
        for state, solution in starts:
            path = self._alternate(solve, choose, state, solution)
            if best is None or path.objectives[-1] < best.objectives[-1]:
                best = path
        self._record(best)
        self.witnesses_ = best.state[0]
        self._store(X, space, best.solution)

    def _solve(self, space, rows):
        return space.solve(rows, self.tol)

    def _rows(self, layout, represent):
        """Hinge rows with the points `represent` for the positive bags."""
        n_negative, n_positive = len(layout.negative), layout.n_positive_bags
        group = None
        if self.slack == "bag":
            first = len(layout.negative_weight)
            more = np.arange(first, first + n_positive)
            group = np.concatenate([layout.negative_group, more])
            cap = np.concatenate([layout.negative_weight, layout.positive_weight])
        else:
            cap = np.concatenate([layout.negative_caps(), layout.positive_weight])
        return HingeRows(
            np.concatenate([layout.negative, represent]),
            np.repeat([-1.0, 1.0], [n_negative, n_positive]),
            np.ones(n_negative + n_positive),
            self.C * cap,
            group,
        )

    def _starts(self, X, space, layout):
        """Yield the first witnesses of each start."""
        if self.init == "random":
            rng = check_random_state(self.random_state)
            sizes = np.diff(layout.positive_offsets)
            for _ in range(self.n_init):
                pick = layout.positive_offsets[:-1] + rng.randint(sizes)
                yield (layout.positive[pick],)
            return
        if self.init != "input_mean" or self.kernel == "linear":
            wide = space.with_combinations(layout.means(X.n_instances))
        else:
            wide = self._with_input_means(X, space, layout)
        added = X.n_instances + np.arange(layout.n_positive_bags)
        start = self._solve(wide, self._rows(layout, added))
        means = layout.witnesses(self._start_scores(wide, layout, start.scores))
        yield (means,)
        if self.init == "auto":
            # Without scores, use the direction between the classes.
            level = np.zeros(X.n_instances)
            across = layout.witnesses(self._start_scores(space, layout, level))
            if (across != means).any():
                yield (across,)

    def _input_means(self, X, layout):
        if X.is_sparse:
            return layout.means(X.n_instances) @ X.data
        return segment_mean(X.data[layout.positive], layout.positive_offsets)

    def _with_input_means(self, X, space, layout):
        means = self._input_means(X, layout)
        if isinstance(space, BasisSpace):
            return space.with_coordinates(self.basis_.transform(means))
        options = self.kernel_params_
        return space.with_kernel(
            instance_kernel(means, X.data, **options), instance_kernel(means, **options)
        )


class MICA(MISVM):
    r"""Represent positive bags by convex combinations of instances: MICA.

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
        Regularizer. [1]_ uses "l1" and solves linear programs.
    init : {"auto", "feature_mean", "input_mean", "random"}, default="feature_mean"
        The representation of the positive bags in the first step: the mean in the space
        of the kernel (equal weights, as in [1]_), the mean of the features, or a random
        instance; "auto" as in :class:`MISVM`.
    n_init : int, default=1
        Number of random starts; the lowest objective is kept.
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
        Row, in the stacked training instances, of the instance with the weight of each
        positive bag.
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
        tags.input_tags.chunked = False  # combinations may use all instances
        return tags

    def _make_space(self, X, bag_weight, *, shift=True):
        # The linear program weights columns: features or kernel functions.
        columns = self.norm == "l1" and self.kernel == "linear"
        space = super()._make_space(X, bag_weight, shift=shift and not columns)
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
