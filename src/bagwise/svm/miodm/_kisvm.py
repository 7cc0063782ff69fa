"""Key-instance support vector machine."""

from numbers import Real

from bagwise._compat import Interval
from bagwise.svm.miodm._base import KeyInstanceMachine


class KISVM(KeyInstanceMachine):
    r"""Key-instance support vector machine (Ins-KI-SVM and Bag-KI-SVM).

    For a choice :math:`c` of one key instance in each positive bag ([1]_)

    .. math::
        \min_{w, \rho, \xi} \tfrac12\|w\|^2 - \rho + \tfrac{C}{2}\sum_s \xi_s^2
        \quad\text{with}\quad \langle w, \Psi_s^c\rangle \ge \rho - \xi_s,

    where :math:`C` is `C`, rows :math:`\Psi_s^c` are the key instances and the
    negative units (with a minus sign), and the choice is relaxed to the best mixture
    of choices. Dividing by :math:`\rho` gives `MIODM` with `theta` and `nu` zero and
    row weights :math:`C/2`: the same solver is used.

    Parameters
    ----------
    C : float, default=10.0
        Weight of the squared slacks.
    level : {"instance", "bag"}, default="bag"
        Negative units: every instance (Ins-KI-SVM) or the mean of each bag
        (Bag-KI-SVM).
    kernel, gamma, degree, coef0, bias, n_components
        As in `MIODM`.
    solver, prox_variant, polish
        As in `MIODM`.
    threshold : {"train", "cv", "zero"}, default="train"
        As in `MIODM`; the cut of the training scores is close to that of out-of-fold
        scores here, and costs nothing.
    class_weight, tol, max_iter, random_state
        As in `MIODM`.
    pos_label : label, default=None
        The positive class of two; ``classes_[1]`` by default.

    Attributes
    ----------
    rho_ : float
        Margin :math:`\rho` of the relaxation in the scale of [1]_; scores here are in
        units of it.
    objective_ : float
        Value :math:`J` of the relaxation in the scale of `MIODM`; the one of [1]_ is
        :math:`-1/(4J)`.
    assignments_, assignment_weight_, key_weight_, duality_gap_, relaxation_ratio_
        As in `MIODM`, with all its other attributes.

    See Also
    --------
    MIODM : Adds a zone without loss and a loss on large margins.

    Notes
    -----
    Differs from [1]_: a regularised intercept (`bias`); Newton's method for the
    mixture instead of multiple-kernel learning steps; the search for violated
    choices is a coordinate ascent with several starts. Cost as in `MIODM`.

    References
    ----------
    .. [1] Li, Y.-F., Kwok, J. T., Tsang, I. W. and Zhou, Z.-H., "A Convex Method for
       Locating Regions of Interest with Multi-Instance Learning", ECML PKDD, 2009.

    Examples
    --------
    >>> from bagwise.datasets import make_key_instance_bags
    >>> from bagwise.svm import KISVM
    >>> X, y = make_key_instance_bags(n_bags=40, random_state=0)
    >>> KISVM(level="bag", random_state=0).fit(X, y).key_instances(X).shape
    (40,)
    """

    _parameter_constraints: dict = {
        **KeyInstanceMachine._parameter_constraints,
        "C": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        C=10.0,
        *,
        level="bag",
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=1.0,
        bias=1.0,
        n_components=None,
        solver="newton",
        prox_variant="accelerated",
        threshold="train",
        polish=False,
        class_weight=None,
        pos_label=None,
        tol=1e-2,
        max_iter=40,
        random_state=None,
    ):
        self.C = C
        self.level = level
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.bias = bias
        self.n_components = n_components
        self.solver = solver
        self.prox_variant = prox_variant
        self.threshold = threshold
        self.polish = polish
        self.class_weight = class_weight
        self.pos_label = pos_label
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def _margin_loss(self):
        return 0.0, 0.0

    def _bag_cost(self, t, bag_weight):
        return 0.5 * self.C * bag_weight

    def _keep_expansion(self, mixture, rows, plus, minus):
        super()._keep_expansion(mixture, rows, plus, minus)
        self.rho_ = 1.0 / mixture.delta.sum()
