"""SVMs for bags with few positive instances: sMIL, stMIL and sbMIL."""

from numbers import Integral, Real

import numpy as np

from bagwise._compat import Interval
from bagwise.solvers.hinge import HingeRows
from bagwise.svm._base import KERNEL_CONSTRAINTS, KernelBagSVM, Layout


class SparseMIL(KernelBagSVM):
    """The sparse balancing problem that the three classifiers build on."""

    def _balanced_rows(self, X, layout):
        """Rows of sMIL on the instances followed by the means of positive bags."""
        n_negative, n_bags = len(layout.negative), layout.n_positive_bags
        sizes = np.diff(layout.positive_offsets)
        return HingeRows(
            np.r_[layout.negative, X.n_instances + np.arange(n_bags)],
            np.r_[-np.ones(n_negative), np.ones(n_bags)],
            np.r_[np.ones(n_negative), 2.0 / sizes - 1.0],  # one positive among n_i
            np.r_[
                self._scaled(layout.negative_caps()),
                self._scaled(layout.positive_weight),
            ],
        )

    def _scaled(self, weight):
        """Caps of the terms of one sum."""
        # Divide by the plain count: a weighted count would cancel class weights.
        return self.C * weight / (len(weight) if self.scale_C else 1.0)

    def _balance(self, X, t, bag_weight):
        """Solve sMIL; return the layout, the points, the means and the solution."""
        layout = Layout.of(X, t, bag_weight)
        means = layout.means(X.n_instances)
        space = self._make_space(X, bag_weight).with_combinations(means)
        solution = space.solve(self._balanced_rows(X, layout), self.tol)
        return layout, space, means, solution


class SMIL(SparseMIL):
    r"""Constrain the mean of each positive bag as one positive instance implies: sMIL.

    .. math::
        \min_{f, b} \; \tfrac12 \|f\|^2
            + \frac{C}{n^-} \sum_{i \in I^-} w_i \sum_j \big(1 + f(x_{ij}) + b\big)_+
            + \frac{C}{|I^+|} \sum_{i \in I^+} w_i
              \Big(\frac{2}{n_i} - 1 - f(\bar x_i) - b\Big)_+

    ([1]_) where :math:`C` is `C`, :math:`w_i` the weight of a bag,
    :math:`n^-` the number of instances in negative bags, :math:`n_i` the size of a bag
    and :math:`\bar x_i` its mean in the space of `kernel`. The problem is convex.

    Parameters
    ----------
    C : float, default=100.0
        Weight of the loss. It must be large to have an effect, because it is divided by
        the number of terms.
    scale_C : bool, default=True
        Whether each sum is divided by its number of terms, as in [1]_. False gives
        every term the weight `C`. Terms are counted without weights, so that class
        weights have an effect: a bag of weight two is counted once, two copies of it
        twice.
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
    tol : float, default=1e-5
        Tolerance of the convex steps, on the optimality conditions.
    random_state : int, RandomState or None, default=None
        Random seed of the Nystroem basis.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Bag labels.
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
    Differs from [1]_: bags may be weighted. Exact kernels cost
    O(n_instances**2) memory; a linear kernel or a Nystroem basis of rank r costs
    O(n_instances * r) memory and O(n_instances * r**2) time per step.

    The problem does not require that an instance of a positive bag has a score above
    zero: if all of them have :math:`2 / n_i - 1`, the loss is zero. If many instances
    are positive, zero is thus too high a threshold although the bags are ranked well,
    hence the default of `threshold`.

    References
    ----------
    .. [1] Bunescu, R. C., Mooney, R. J., "Multiple instance learning for sparse
       positive bags", ICML, 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.svm import SMIL
    >>> X = [[[0.0], [3.0]], [[3.2]], [[0.1], [-0.4]], [[0.3]]]
    >>> model = SMIL(kernel="linear").fit([np.array(b) for b in X], [1, 1, 0, 0])
    >>> model.predict([np.array([[0.0], [2.9]]), np.array([[0.2]])])
    array([1, 0])
    """

    _parameter_constraints: dict = {**KERNEL_CONSTRAINTS, "scale_C": ["boolean"]}

    def __init__(
        self,
        C=100.0,
        *,
        scale_C=True,
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=1.0,
        n_components=None,
        threshold="train",
        class_weight=None,
        pos_label=None,
        tol=1e-5,
        random_state=None,
    ):
        self.C = C
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
        _, space, means, solution = self._balance(X, t, bag_weight)
        self._record_step(solution)
        self._store(X, space, solution, means)


class STMIL(SparseMIL):
    r"""Sparse balancing with a margin for unlabeled instances: stMIL.

    The objective of :class:`SMIL` and, for the instances of positive bags,

    .. math::
        \frac{C}{n^+} \sum_{i \in I^+} w_i \sum_j \big(1 - |f(x_{ij}) + b|\big)_+

    ([1]_) where :math:`C` is `C`, :math:`w_i` the weight of a bag and
    :math:`n^+` the number of instances in positive bags. The sign of each score is kept
    from the step before, starting from :class:`SMIL`, which makes every step convex.

    Parameters
    ----------
    C : float, default=100.0
        Weight of the loss. It must be large to have an effect, because it is divided by
        the number of terms.
    scale_C : bool, default=True
        Whether each sum is divided by its number of terms, as in [1]_. False gives
        every term the weight `C`. Terms are counted without weights, so that class
        weights have an effect: a bag of weight two is counted once, two copies of it
        twice.
    kernel : {"rbf", "linear", "poly", "laplacian"}, default="rbf"
        Instance kernel.
    gamma : {"scale", "auto", "median"} or float, default="scale"
        Kernel width.
    degree, coef0 : float, default=3 and 1.0
        Parameters of the polynomial kernel.
    n_components : int, default=None
        Size of a Nystroem basis; None takes the exact kernel.
    threshold : {"cv", "train", "zero"}, default="cv"
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
    Differs from [1]_: bags may be weighted. Exact kernels cost
    O(n_instances**2) memory; a linear kernel or a Nystroem basis of rank r costs
    O(n_instances * r) memory and O(n_instances * r**2) time per step.

    As in :class:`SMIL` (see its notes), zero can be too high a threshold.

    References
    ----------
    .. [1] Bunescu, R. C., Mooney, R. J., "Multiple instance learning for sparse
       positive bags", ICML, 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.svm import STMIL
    >>> X = [[[0.0], [3.0]], [[3.2]], [[0.1], [-0.4]], [[0.3]]]
    >>> model = STMIL(kernel="linear").fit([np.array(b) for b in X], [1, 1, 0, 0])
    >>> model.predict([np.array([[0.0], [2.9]]), np.array([[0.2]])])
    array([1, 0])
    """

    _parameter_constraints: dict = {
        **KERNEL_CONSTRAINTS,
        "scale_C": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        C=100.0,
        *,
        scale_C=True,
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=1.0,
        n_components=None,
        threshold="cv",
        class_weight=None,
        pos_label=None,
        max_iter=100,
        tol=1e-4,
        random_state=None,
    ):
        self.C = C
        self.scale_C = scale_C
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
        layout, space, means, start = self._balance(X, t, bag_weight)
        base = self._balanced_rows(X, layout)
        n_unlabeled = len(layout.positive)
        cap = np.r_[base.cap, self._scaled(layout.positive_caps())]
        points = np.r_[base.points, layout.positive]
        margin = np.r_[base.margin, np.ones(n_unlabeled)]

        def solve(state):
            sign = np.r_[base.sign, state[0]]
            return space.solve(HingeRows(points, sign, margin, cap), self.tol)

        def choose(solution):
            own = solution.scores[layout.positive]
            return (np.where(own >= 0, 1.0, -1.0),)

        path = self._alternate(solve, choose, choose(start))
        self._record(path)
        self._store(X, space, path.solution, means)


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
        would be far smoother than the SVM that is trained on it.
    kernel : {"rbf", "linear", "poly", "laplacian"}, default="rbf"
        Instance kernel.
    gamma : {"scale", "auto", "median"} or float, default="scale"
        Kernel width.
    degree, coef0 : float, default=3 and 1.0
        Parameters of the polynomial kernel.
    n_components : int, default=None
        Size of a Nystroem basis; None takes the exact kernel.
    threshold : {"cv", "train", "zero"}, default="cv"
        Decision threshold: where a sigmoid fitted to training scores, or to out-of-fold
        scores (up to 5 more fits), equals one half, or zero as in the paper, which is
        biased.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes.
    pos_label : label, default=None
        The positive class of two; ``classes_[1]`` by default.
    tol : float, default=1e-4
        Tolerance of the convex steps, on the optimality conditions.
    random_state : int, RandomState or None, default=None
        Random seed of the Nystroem basis.

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
    O(n_instances**2) memory and about O(n_instances**2.4) time; a linear kernel or a
    Nystroem basis of rank r costs O(n_instances * r) memory and O(n_instances * r**2)
    time per step.

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
        # Support vectors have equal scores up to the tolerance: round them to ties.
        digits = max(0, int(-np.log10(10 * self.tol)))
        scores = self._start_scores(space, layout, first.scores)[layout.positive]
        scores = np.round(scores, digits)
        order = np.argsort(-scores, kind="stable")
        # Select the fraction `eta` of the instances, by weight, and at least one per
        # bag.
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
