"""MI-ODM and KI-SVM: one key instance represents each positive bag."""

from numbers import Real

import numpy as np

from bagwise._compat import Interval
from bagwise.svm._key_instances import KeyInstanceSVM


class MIODM(KeyInstanceSVM):
    r"""Multi-instance optimal margin distribution machine (MI-ODM).

    One instance of each positive bag, its key instance, represents the bag. With the
    key of bag :math:`i` at position :math:`c_i`, rows :math:`\Psi_i = \phi(x_{i,c_i})`
    for the :math:`p` positive bags and :math:`\Psi_s = -\phi(x_s)` for the negative
    instances (or bags, see `level`), the best weight vector has the value ([1]_,
    Eq. (4))

    .. math::
        F(c) = \min_w \tfrac12\|w\|^2 + \sum_s C_s\,\ell(\langle w, \Psi_s\rangle),
        \qquad
        \ell(m) = \frac{(1-\theta-m)_+^2 + \nu(m-1-\theta)_+^2}{(1-\theta)^2},

    and the relaxation solved is, over mixtures :math:`v` of choices
    :math:`c_1, c_2, \dots` ([1]_, Eq. (9))

    .. math::
        J^* = \min_v \max_\delta\; \mathrm{conj}(\delta)
              - \tfrac12\sum_k v_k\,\delta' K_{c_k}\delta \;\le\; \min_c F(c)

    where :math:`\theta` is `theta`, :math:`\nu` is `nu`, :math:`C_s` is
    `lambda1` :math:`/p` on positive rows and `lambda2` divided by the number of
    negative bags on the others, :math:`K_c` is the kernel matrix of the rows (`kernel`,
    plus one with `fit_intercept`), and conj is the conjugate of the losses. The score
    of a bag is that of its best instance.

    Parameters
    ----------
    lambda1, lambda2 : float, default=1000 and 100
        Weights of the loss of positive and of negative bags.
    theta : float, default=0.2
        Half width of the zone around margin one without loss, in [0, 1).
    nu : float, default=0.5
        Weight of margins that are too large, in [0, 1].
    level : {"instance", "bag"}, default="instance"
        The negative rows: every instance of the negative bags as in [1]_, or the mean
        of each negative bag in feature space, which is much cheaper.
    kernel : {"rbf", "linear", "poly", "laplacian"}, default="rbf"
        Instance kernel.
    gamma : {"scale", "auto", "median"} or float, default="scale"
        Width of the kernel; "auto" is the center of the grid of [1]_.
    degree, coef0 : float, default=3 and 1.0
        Parameters of the polynomial kernel.
    fit_intercept : bool, default=True
        Whether one is added to the kernel, which gives a regularized intercept.
    n_components : int, "auto" or None, default="auto"
        Size of a Nystroem basis for the kernel; None for the exact kernel. "auto" is
        the exact kernel up to 10,000 instances, beyond it a basis of 100.
    threshold : {"cv", "train", "zero"}, default="cv"
        Decision threshold of the bag scores: where a sigmoid fitted to out-of-fold
        scores or to training scores equals one half, or zero as in [1]_, which is
        biased, see Notes.
    polish : bool, default=False
        Whether to predict with the best single choice found instead of the mixture:
        the descent starts from roundings of the mixture, from an ODM that takes every
        instance of a positive bag as positive, and from random choices. For large data,
        see Notes.
    class_weight : dict or "balanced", default=None
        Factors of `lambda1` and `lambda2`. Not the same as a `sample_weight`, which
        changes the weights of bags within a class only.
    pos_label : label, default=None
        The positive class of two; ``classes_[1]`` by default.
    tol : float, default=1e-2
        Accepted duality gap, relative to the objective.
    max_iter : int, default=40
        Maximum number of rounds of the active set.
    random_state : int, RandomState or None, default=None
        Random starts of the search for choices, and the landmarks.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels seen in `fit`. With more than two, `estimators_` holds one fitted
        two-class estimator per class, which have the attributes below.
    assignments_ : ndarray of shape (n_choices, n_positive_bags)
        Position of the key instance inside each positive training bag, for every choice
        with weight, the largest weight first.
    assignment_weight_ : ndarray of shape (n_choices,)
        Weights :math:`v`.
    key_weight_ : Ragged
        Total weight of each instance of the positive training bags; one per bag.
    objective_, objective_path_ : float, ndarray
        Value of the relaxation, at the end and after every round.
    duality_gap_ : float
        Bound on the distance of `objective_` to :math:`J^*`, never above
        `objective_`.
    gap_certified_ : bool
        Whether the search behind the gap was exhaustive. Otherwise it was local and
        the true gap may be larger.
    integer_objective_ : float
        :math:`F(c)` of the best single choice found.
    relaxation_ratio_ : float
        Lower bound of :math:`J^*` over `integer_objective_`: 1 means that the
        single choice is optimal.
    threshold_ : float
        The decision threshold, already subtracted from decision values and instance
        scores.
    dual_coef_, support_instances_ : ndarray
        Expansion of the scores in kernel values.
    coef_ : ndarray of shape (n_features,) or (rank,)
        Weight vector instead, with a linear kernel or `n_components`.
    intercept_ : float
        Constant part of the scores.
    n_iter_ : int
        Number of rounds.

    See Also
    --------
    KISVM : The special case without an upper side.
    ODM : The same loss on single instances.

    Notes
    -----
    Differs from [1]_: (a) the ridge of the dual is the one that follows from Eq. (4),
    :math:`(1-\theta)^2/(2C_s)` row by row, where Eq. (5) loses :math:`1/p` and
    :math:`1/q`; (b) only choices with weight are kept, found by coordinate ascent, as
    the vector over all choices cannot be stored; (c) Newton's method instead of
    mirror prox, 8 to 31 times faster for a smaller gap; (d) rounding gives each bag
    the instance with the least loss, which with `nu` > 0 need not be the one with the
    highest score.

    A positive training margin averages scores of different instances, one for each
    choice, but a bag is scored by one instance. A threshold of zero therefore predicts
    too many negative bags with ``level="instance"`` and, because only the means of
    negative bags are constrained, too many positive ones with ``level="bag"``. Keep the
    default `threshold` if the predicted labels matter, not only the ranking.

    Out-of-fold scores for the threshold keep the mixture of the fit, without the bags
    of the fold, and only the dual vector is found again. This takes a fifth to a half
    of the time of the fit, and predicts as well as full fits to the folds.

    With `sample_weight`, :math:`p` and the number of negative bags are sums of
    weights. With `class_weight`, all weights are plain factors.

    Cost: kernel values between all positive instances and negative rows; a round
    costs a few factorizations of the size of the rows with loss. Above 2,000 negative
    instances only those with loss join the problem. With a linear kernel or
    `n_components`, memory and time of a round grow linearly with the instances. Nearly
    all of the time is spent on closing the gap: where the relaxation is loose and
    `polish` is set, a `tol` of 0.2 ends the rounds early and need not change the
    choice.

    Long bags, many features and large lambdas make the relaxation loose
    (`relaxation_ratio_` near 0), whatever the solver: take two choices, the highest and
    the lowest instance of each positive bag along any direction, with weight one half
    each. Their weight vectors cancel on the negatives, and every positive bag gets half
    of its own width as a margin, whatever it contains. The mixture then need not
    contain the key instances although its gap is small. On such data use
    ``polish=True``, which predicts with one choice and tries more starts for it, with
    ``threshold="train"`` or ``"cv"``. That choice is a local optimum without a
    certificate.

    ``level="bag"`` has a second weakness that `polish` does not remove: the mean of a
    long negative bag hardly varies, while the highest instance of any bag is far from
    it in every direction. The best single choice then need not be the key instances,
    and can have an objective below theirs. Use ``level="instance"`` unless bags are
    short or the key instances are far from the others.

    References
    ----------
    .. [1] Zhang, T. and Jin, H., "Optimal Margin Distribution Machine for
       Multi-Instance Learning", IJCAI, 2020, 2383-2389.

    Examples
    --------
    >>> from bagwise.datasets import make_key_instance_bags
    >>> from bagwise.svm import MIODM
    >>> X, y = make_key_instance_bags(n_bags=40, random_state=0)
    >>> model = MIODM(level="bag", random_state=0).fit(X, y)
    >>> bool(model.duality_gap_ <= model.tol * model.objective_)
    True
    """

    _parameter_constraints: dict = {
        **KeyInstanceSVM._parameter_constraints,
        "lambda1": [Interval(Real, 0, None, closed="neither")],
        "lambda2": [Interval(Real, 0, None, closed="neither")],
        "theta": [Interval(Real, 0, 1, closed="left")],
        "nu": [Interval(Real, 0, 1, closed="both")],
    }

    def __init__(
        self,
        lambda1=1000.0,
        lambda2=100.0,
        *,
        theta=0.2,
        nu=0.5,
        level="instance",
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=1.0,
        fit_intercept=True,
        n_components="auto",
        threshold="cv",
        polish=False,
        class_weight=None,
        pos_label=None,
        tol=1e-2,
        max_iter=40,
        random_state=None,
    ):
        self.lambda1 = lambda1
        self.lambda2 = lambda2
        self.theta = theta
        self.nu = nu
        self.level = level
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.fit_intercept = fit_intercept
        self.n_components = n_components
        self.threshold = threshold
        self.polish = polish
        self.class_weight = class_weight
        self.pos_label = pos_label
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # Choices that are equally violated are added in the order of the bags.
        tags.input_tags.order_invariant = False
        return tags

    def _margin_loss(self):
        return self.theta, self.nu

    def _bag_cost(self, t, bag_weight):
        positive = t > 0
        counted = bag_weight if self.class_weight is None else np.ones(len(t))
        scale = np.where(
            positive,
            self.lambda1 / counted[positive].sum(),
            self.lambda2 / counted[~positive].sum(),
        )
        return scale * bag_weight


class KISVM(KeyInstanceSVM):
    r"""Key-instance support vector machine (Ins-KI-SVM and Bag-KI-SVM).

    For a choice :math:`c` of one key instance in each positive bag ([1]_)

    .. math::
        \min_{w, \rho, \xi} \tfrac12\|w\|^2 - \rho + \tfrac{C}{2}\sum_s \xi_s^2
        \quad\text{with}\quad \langle w, \Psi_s^c\rangle \ge \rho - \xi_s,

    where :math:`C` is `C`, rows :math:`\Psi_s^c` are the key instances and (with a
    minus sign) the negative instances or bags, and the choice is relaxed to the best
    mixture of choices. Dividing by :math:`\rho` gives `MIODM` with `theta` and `nu`
    zero and row weights :math:`C/2`: the same solver is used.

    Parameters
    ----------
    C : float, default=10.0
        Weight of the squared slacks.
    level : {"instance", "bag"}, default="bag"
        The negative rows: every instance (Ins-KI-SVM) or the mean of each bag
        (Bag-KI-SVM).
    kernel, gamma, degree, coef0, n_components
        As in `MIODM`.
    fit_intercept : bool, default=True
        Whether one is added to the kernel, which gives a regularized intercept. The
        authors' implementation of [1]_ has no intercept with the RBF kernel.
    threshold : {"train", "cv", "zero"}, default="train"
        As in `MIODM`; here the threshold from training scores is close to that from
        out-of-fold scores, without further fits.
    polish, tol, max_iter, random_state
        As in `MIODM`.
    class_weight : dict or "balanced", default=None
        Weights of the classes: the same as this `sample_weight` for all of their bags.
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
    Differs from [1]_: a regularized intercept (`fit_intercept`); Newton's method for
    the mixture instead of multiple-kernel learning steps; the search for violated
    choices is a coordinate ascent with several starts. The authors' program for
    Bag-KI-SVM has other defaults: a linear kernel (the width of its RBF kernel is the
    mean distance), C = 1, a weight for the smaller class, an end at a relative change
    of 1%, and the threshold zero. Cost as in `MIODM`.

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
        **KeyInstanceSVM._parameter_constraints,
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
        fit_intercept=True,
        n_components="auto",
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
        self.fit_intercept = fit_intercept
        self.n_components = n_components
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
