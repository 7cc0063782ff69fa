"""mi-SVM: a label for every instance of the positive bags."""

from numbers import Integral

import numpy as np

from bagwise._compat import Interval
from bagwise.solvers.hinge import HingeRows
from bagwise.svm._base import KERNEL_CONSTRAINTS, KernelBagSVM, Layout


class MiSVM(KernelBagSVM):
    r"""Maximize the margin of instances with unknown labels: mi-SVM.

    .. math::
        \min_{t} \min_{f, b} \; \tfrac12 \|f\|^2
            + C \sum_i w_i \sum_j \big(1 - t_{ij} (f(x_{ij}) + b)\big)_+

    ([1]_) where :math:`t_{ij} = -1` in negative bags and at least one
    :math:`t_{ij} = 1` in each positive bag; :math:`C` is `C`, :math:`w_i` the weight of
    a bag and :math:`f` a function of the space of `kernel`. The fit alternates between
    the labels, starting from all positive, and a support vector machine.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the loss.
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
    instance_labels_ : ndarray of shape (n_instances,)
        -1 or 1 for each training instance, stacked.
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
    Differs from [1]_: nothing in the problem; a repeated labeling ends the loop. For a
    given function, the labels are the exact minimizer: the sign of the score, and the
    highest score of a bag without a positive one. Exact kernels cost O(n_instances**2)
    memory; a linear kernel or a Nystroem basis of rank r costs O(n_instances * r)
    memory and O(n_instances * r**2) time per step.

    References
    ----------
    .. [1] Andrews, S., Tsochantaridis, I., Hofmann, T., "Support vector machines for
       multiple-instance learning", NIPS, 2002.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.svm import MiSVM
    >>> X = [[[0.0], [3.0]], [[3.2]], [[0.1], [-0.4]], [[0.3]]]
    >>> model = MiSVM(C=10, kernel="linear", threshold="zero")
    >>> model.fit([np.array(b) for b in X], [1, 1, 0, 0]).instance_labels_
    array([-1.,  1.,  1., -1., -1., -1.])
    """

    _parameter_constraints: dict = {
        **KERNEL_CONSTRAINTS,
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        C=1.0,
        *,
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
        cap = self.C * bag_weight[X.bag_index]
        margin = np.ones(X.n_instances)
        points = np.arange(X.n_instances)

        def solve(state):
            return space.solve(HingeRows(points, state[0], margin, cap), self.tol)

        def choose(solution):
            labels = np.full(X.n_instances, -1.0)
            own = solution.scores[layout.positive]
            labels[layout.positive] = np.where(own >= 0, 1.0, -1.0)
            labels[layout.witnesses(solution.scores)] = 1.0
            return (labels,)

        path = self._alternate(solve, choose, (t[X.bag_index],))
        self._record(path)
        self.instance_labels_ = path.state[0]
        self._store(X, space, path.solution)
