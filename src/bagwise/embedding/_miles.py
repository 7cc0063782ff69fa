"""MILES: a sparse linear SVM on similarities to instances."""

import warnings
from numbers import Real

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog
from sklearn.exceptions import ConvergenceWarning

from bagwise._compat import Interval, StrOptions
from bagwise._sizes import check_memory
from bagwise.bags.segments import repeat, segment_argmax_share
from bagwise.base import WeightedBagClassifier
from bagwise.embedding._prototypes import (
    GAMMA_CONSTRAINT,
    MOST_CONSTRAINT,
    chosen_rows,
    similarities,
)
from bagwise.kernels.instance import resolve_gamma, row_blocks, squared_distances
from bagwise.solvers.l1 import l1_squared_hinge

# Seconds of a fit below which there is no warning, and seconds measured with 2,500
# noisy bags and 5,000 prototypes on one core.
_SHORT, _SECONDS = 60.0, 20.0


def _warn_if_long(n_bags, n_prototypes):
    """Say before the work how long it may take, if that is more than a minute."""
    seconds = _SECONDS * (n_bags / 2_500) ** 2.7 * (n_prototypes / 5_000) ** 1.3
    if seconds > _SHORT:
        warnings.warn(
            f"MILES with {n_bags:,} bags and {n_prototypes:,} prototypes may take "
            f"{seconds / 60:.0f} minutes on one core. A smaller max_prototypes is "
            "faster.",
            UserWarning,
            stacklevel=6,
        )


class MILES(WeightedBagClassifier):
    r"""Select the instances that discriminate between the classes of bags.

    A bag is described by its similarity to every training instance,
    :math:`m_k(B) = \max_{x \in B} e^{-\gamma |x - z_k|^2}`, and a 1-norm SVM
    keeps few of them ([1]_, Eqs. (7), (9)):

    .. math::
        \min_{w, b} \; |w|_1 + C \sum_i v_i \, \ell\big(t_i (w' m(B_i) + b)\big)

    where :math:`\gamma` is `gamma`, :math:`C` is `C`, :math:`v_i` the weight of a bag
    and :math:`\ell` the hinge (`solver="highs"`) or its square (`"interior_point"`).

    Parameters
    ----------
    C : float, default=10.0
        Weight of the loss; the paper's :math:`\lambda` and :math:`\mu = 1/2` are
        ``C = 1 / (2 * lambda)``.
    gamma : {"median", "scale", "auto"} or float, default="median"
        The width; the paper's :math:`\sigma^2` is ``1 / gamma``.
    solver : {"interior_point", "highs"}, default="interior_point"
        Squared hinge by an interior-point method, or the hinge of the paper as a linear
        program.
    max_prototypes : int, None or "auto", default="auto"
        Maximum number of prototypes; a random sample of the instances when there are
        more. None takes all of them, "auto" all up to 20,000 instances and 5,000
        beyond.
    class_weight : dict or "balanced", default=None
        Weights of the classes.
    pos_label : label, default=None
        The positive class of two; ``classes_[1]`` by default.
    tol : float, default=1e-6
        Relative duality gap at which the interior-point method ends.
    random_state : int or RandomState, default=None
        Random seed of the sample of prototypes.

    Attributes
    ----------
    prototypes_ : ndarray or CSR matrix of shape (n_selected, n_features)
        The instances with a weight.
    coef_, intercept_ : ndarray of shape (n_selected,), float
        Their weights, and :math:`b`.
    objective_ : float
        The value of the problem above.
    n_iter_ : int
        Iterations of the solver.

    Notes
    -----
    `instance_scores` are contributions: each instance gets the terms for which it is
    the nearest, and their sum over a bag is the decision value minus `intercept_`. A
    bag of weight two is not the same as a bag that is given twice, whose instances are
    prototypes twice.

    Differs from [1]_: the default loss is squared, and the width follows the data. The
    embedding costs O(n_instances**2 * n_features) time and O(n_bags * n_instances)
    memory; `max_prototypes` makes both linear. A step of the interior-point method, of
    which there are 15 to 40, costs O(n_bags**2 * n_prototypes), or O(n_bags *
    n_prototypes**2) where there are fewer prototypes than bags. Beyond a million
    similarities the SVM is solved on working sets, about twenty in turn as the weight
    of the loss grows to `C`, each starting from the last: a few times `n_selected`
    prototypes, and the bags near or inside their margin. A step then costs O(n_near *
    n_selected**2), and each set two products with the similarities. `fit` warns in
    advance if it may take more than a minute.

    References
    ----------
    .. [1] Chen, Y., Bi, J. and Wang, J. Z., "MILES: multiple-instance learning via
       embedded instance selection", IEEE TPAMI, 2006. :doi:`10.1109/TPAMI.2006.248`

    Examples
    --------
    >>> from bagwise.datasets import make_bags
    >>> from bagwise.embedding import MILES
    >>> X, y = make_bags(random_state=0)
    >>> MILES(random_state=0).fit(X, y).score(X, y) > 0.8
    True
    """

    _parameter_constraints: dict = {
        "C": [Interval(Real, 0, None, closed="neither")],
        "gamma": GAMMA_CONSTRAINT,
        "solver": [StrOptions({"interior_point", "highs"})],
        "max_prototypes": MOST_CONSTRAINT,
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        C=10.0,
        *,
        gamma="median",
        solver="interior_point",
        max_prototypes="auto",
        class_weight=None,
        pos_label=None,
        tol=1e-6,
        random_state=None,
    ):
        self.C = C
        self.gamma = gamma
        self.solver = solver
        self.max_prototypes = max_prototypes
        self.class_weight = class_weight
        self.pos_label = pos_label
        self.tol = tol
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.respects_standard_assumption = False
        return tags

    def _fit_binary(self, X, t, bag_weight):
        self.gamma_ = resolve_gamma(self.gamma, X.data, repeat(bag_weight, X.offsets))
        rows = chosen_rows(X.n_instances, self.max_prototypes, self.random_state)
        prototypes = X.data[rows]
        check_memory(
            8.0 * len(X) * len(rows),
            f"The similarities of {len(X)} bags to {len(rows)} instances",
            "Set max_prototypes, for example to 5000.",
        )
        _warn_if_long(len(X), len(rows))
        M = similarities(X, prototypes, self.gamma_)
        cost = self.C * bag_weight
        if self.solver == "highs":
            coef, b, self.n_iter_ = l1_hinge(M, t, cost)
            loss = np.maximum(1.0 - t * (M @ coef + b), 0.0)
            self.objective_ = float(np.abs(coef).sum() + cost @ loss)
        else:
            coef, b, self.objective_, self.n_iter_ = l1_squared_hinge(
                M, t, cost, tol=self.tol
            )
        self._keep(prototypes, coef, b)

    def _keep(self, prototypes, coef, intercept):
        used = np.flatnonzero(coef)
        self.prototypes_ = prototypes[used]
        self.coef_ = coef[used]
        self.intercept_ = float(intercept)
        if not len(used):
            warnings.warn(
                "MILES selected no instance: every bag gets the same "
                "score. Increase C.",
                ConvergenceWarning,
                stacklevel=5,
            )

    def _score_bags(self, X):
        if not len(self.coef_):
            return np.full(len(X), self.intercept_)
        return (
            similarities(X, self.prototypes_, self.gamma_) @ self.coef_
            + self.intercept_
        )

    def _score_instances(self, X):
        """Give each instance the terms it is the nearest for; ties share them."""
        total = np.zeros(X.n_instances)
        for part in row_blocks(len(self.coef_), 48.0 * X.n_instances):
            D = squared_distances(X.data, self.prototypes_[part])
            share = segment_argmax_share(-D, X.offsets)
            total += (share * np.exp(-self.gamma_ * D)) @ self.coef_[part]
        return total


def l1_hinge(M, t, cost):
    """Solve min |w|_1 + sum_i cost_i (1 - t_i (w'm_i + b))_+ as a linear program.

    Returns
    -------
    coef, intercept, n_iter
    """
    n, k = M.shape
    signed = t[:, None] * M
    # Columns: w+, w-, b, slack. Rows: t (w'm + b) + slack >= 1.
    A = sp.hstack([-signed, signed, -t[:, None], -sp.identity(n)], format="csc")
    objective = np.concatenate([np.ones(2 * k), [0.0], cost])
    bounds = np.tile([0.0, np.inf], (2 * k + 1 + n, 1))
    bounds[2 * k, 0] = -np.inf
    # The simplex method ends at a vertex: no more weights than there are bags.
    solved = linprog(
        objective, A_ub=A, b_ub=-np.ones(n), bounds=bounds, method="highs-ds"
    )
    if solved.status != 0:
        raise RuntimeError(f"the linear program was not solved: {solved.message}")
    x = solved.x
    return x[:k] - x[k : 2 * k], x[2 * k], int(solved.nit)
