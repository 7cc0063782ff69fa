"""Diverse density, and its maximization by expectation maximization (EM-DD)."""

import numpy as np

from bagwise._compat import StrOptions
from bagwise.density._base import (
    DENSITY_CONSTRAINTS,
    DensityClassifier,
    density_objective,
)
from bagwise.solvers.lbfgs import Descent
from bagwise.solvers.pace import paced

# Steps from every start; only the best start is continued until convergence.
_FIRST_STEPS = 100
# The objective has narrow valleys near the optimum: use a longer L-BFGS history.
_LATER_MEMORY = 40


class DiverseDensity(DensityClassifier):
    r"""Find the point that is near all positive bags and far from negative ones.

    With :math:`d_{ij} = \sum_k s_k^2 (x_{ijk} - h_k)^2` and
    :math:`p_{ij} = e^{-d_{ij}}`, the concept :math:`h` and the scales :math:`s`
    minimize ([1]_)

    .. math::
        -\sum_{i \in +} w_i \log P_i - \sum_{i \in -} w_i \log (1 - P_i), \qquad
        P_i = 1 - \prod_j (1 - p_{ij}) \;\text{ or }\; \max_j p_{ij}

    where :math:`P_i` is chosen by `mode` and :math:`w_i` is the weight of a bag.

    Parameters
    ----------
    mode : {"noisy_or", "max"}, default="noisy_or"
        How instances are combined.
    starts : {"screened", "all"}, default="screened"
        Start from the most promising instances of positive bags, or from all of them.
        Of more than 20,000 such instances an even share of 5,000 is screened.
    n_starts : int, default=15
        Number of screened starts.
    max_iter : int, default=1000
        Maximum number of iterations from the best start (the others get 100).
    threshold : {"zero", "train", "cv"}, default="train"
        Decision threshold: probability one half, the threshold fitted to the scores of
        the training bags, or the one fitted to out-of-fold scores.
    class_weight : dict or "balanced", default=None
        Weights of the classes.
    pos_label : label, default=None
        The positive class of two; ``classes_[1]`` by default.

    Attributes
    ----------
    concept_ : ndarray of shape (n_features,)
        The point :math:`h`.
    scale_ : ndarray of shape (n_features,)
        The squared scales :math:`s_k^2`; zero means that a feature is not used.
    objective_ : float
        The minimum found. ``n_bags * log(2)`` is the value of a random guess.
    objective_path_ : ndarray of shape (n_starts,)
        The objective reached from each start.
    n_starts_ : int
        Number of starts used.
    n_iter_ : int
        Iterations from the best start.

    Notes
    -----
    The problem has many local minima: the start with the lowest *training* objective is
    kept. Screening gives every candidate its max-density at seven isotropic scales from
    one distance matrix, which reaches the optimum of all starts at a fraction of the
    cost. A step reads the instances twice, O(n_instances * n_features), and runs
    without Python unless they are sparse; screening costs O(n_positive_instances *
    n_instances * n_features). No start is stopped before its 100 steps, because the
    best one may have a high objective until then. Features should be scaled.

    Differs from [1]_: screened starts, and a threshold from the training bags.

    References
    ----------
    .. [1] Maron, O. and Lozano-Perez, T., "A framework for multiple-instance learning",
       NIPS, 1998.

    Examples
    --------
    >>> from bagwise.datasets import make_bags
    >>> from bagwise.density import DiverseDensity
    >>> X, y = make_bags(random_state=0)
    >>> DiverseDensity().fit(X, y).score(X, y) > 0.8
    True
    """

    _parameter_constraints: dict = {
        **DENSITY_CONSTRAINTS,
        "mode": [StrOptions({"noisy_or", "max"})],
    }

    def __init__(
        self,
        mode="noisy_or",
        *,
        starts="screened",
        n_starts=15,
        max_iter=1000,
        threshold="train",
        class_weight=None,
        pos_label=None,
    ):
        self.mode = mode
        self.starts = starts
        self.n_starts = n_starts
        self.max_iter = max_iter
        self.threshold = threshold
        self.class_weight = class_weight
        self.pos_label = pos_label

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.duplicate_invariant = True if self.mode == "max" else None
        return tags

    def _fit_binary(self, X, t, bag_weight):
        X, frame = self._framed(X)
        positive = t > 0
        objective = density_objective(
            X.data, X.offsets, positive, bag_weight, self.mode
        )
        starts = self._make_starts(X, positive, bag_weight)
        self.n_starts_ = len(starts)
        first_steps = min(_FIRST_STEPS, self.max_iter)
        paced_starts = paced(starts, type(self).__name__, "starts")
        runs = [objective.descend(Descent(one), first_steps) for one in paced_starts]
        values = np.array([run.fun for run in runs])
        best = int(values.argmin())
        runs[best].memory = _LATER_MEMORY
        run = objective.descend(runs[best], self.max_iter)
        self._store(
            frame, starts[best], run.x, run.fun, values, run.n_iter, run.converged
        )


# Number of best runs that also minimize the full objective, and their steps.
_POLISHED, _POLISHING_STEPS = 3, 100


class EMDD(DensityClassifier):
    r"""Alternate between the nearest instances and the concept they define.

    For each start, the E-step takes the nearest instance of every bag, positive and
    negative, and the M-step minimizes the max-density objective (see `DiverseDensity`)
    over those points alone ([1]_):

    .. math::
        j_i = \arg\min_j d_{ij}(h, s), \qquad
        (h, s) \leftarrow \arg\min_{h, s} \sum_{i \in +} w_i d_{i j_i}
            - \sum_{i \in -} w_i \log(1 - e^{-d_{i j_i}}).

    Parameters
    ----------
    starts : {"screened", "all"}, default="screened"
        Start from the most promising instances of positive bags, or from all of them.
        Of more than 20,000 such instances an even share of 5,000 is screened.
    n_starts : int, default=20
        Number of screened starts.
    max_iter : int, default=100
        Maximum number of rounds of E- and M-steps from a start.
    m_steps : int, default=40
        Maximum number of L-BFGS iterations in an M-step.
    threshold : {"zero", "train", "cv"}, default="train"
        Decision threshold; see `DiverseDensity`.
    class_weight : dict or "balanced", default=None
        Weights of the classes.
    pos_label : label, default=None
        The positive class of two; ``classes_[1]`` by default.

    Attributes
    ----------
    concept_, scale_ : ndarray of shape (n_features,)
        The point and its squared scales.
    objective_ : float
        The max-density objective over all instances.
    objective_path_ : ndarray of shape (n_starts,)
        The objective reached from each start.
    n_starts_, n_iter_ : int
        Number of starts, and rounds of the best one.

    Notes
    -----
    The M-step lowers the objective of the *chosen* instances; choosing again can raise
    the part of the negative bags, so the whole objective need not fall: the best point
    seen is kept. The three best runs end with up to 100 steps of L-BFGS on the whole
    objective, with the nearest instances at every step. This lowers it by a few
    percent, so that the result depends less on the start. The start is chosen by its
    training objective, never by test error (as in the experiments of [1]_, see [2]_).
    An M-step costs as much as diverse density on `n_bags` instances.

    Differs from [1]_: screened starts, chosen on training data; the last descent.

    References
    ----------
    .. [1] Zhang, Q. and Goldman, S. A., "EM-DD: an improved multiple-instance learning
       technique", NIPS, 2001.
    .. [2] Andrews, S., Tsochantaridis, I. and Hofmann, T., "Support vector machines for
       multiple-instance learning", NIPS, 2002.

    Examples
    --------
    >>> from bagwise.datasets import make_bags
    >>> from bagwise.density import EMDD
    >>> X, y = make_bags(random_state=0)
    >>> EMDD().fit(X, y).score(X, y) > 0.8
    True
    """

    _parameter_constraints: dict = {
        **DENSITY_CONSTRAINTS,
        "m_steps": DENSITY_CONSTRAINTS["max_iter"],
    }

    def __init__(
        self,
        starts="screened",
        *,
        n_starts=20,
        max_iter=100,
        m_steps=40,
        threshold="train",
        class_weight=None,
        pos_label=None,
    ):
        self.starts = starts
        self.n_starts = n_starts
        self.max_iter = max_iter
        self.m_steps = m_steps
        self.threshold = threshold
        self.class_weight = class_weight
        self.pos_label = pos_label

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.duplicate_invariant = True
        return tags

    def _fit_binary(self, X, t, bag_weight):
        X, frame = self._framed(X)
        positive = t > 0
        whole = density_objective(X.data, X.offsets, positive, bag_weight, "max")
        starts = self._make_starts(X, positive, bag_weight)
        self.n_starts_ = len(starts)
        paced_starts = paced(starts, type(self).__name__, "starts")
        runs = [self._alternate(whole, start) for start in paced_starts]
        values = np.array([value for value, *_ in runs])
        for i in np.argsort(values, kind="stable")[:_POLISHED]:
            end = whole.descend(Descent(runs[i][1]), _POLISHING_STEPS)
            runs[i] = end.fun, end.x, *runs[i][2:]
            values[i] = end.fun
        best = int(values.argmin())
        value, theta, n_iter, ended = runs[best]
        self._store(frame, starts[best], theta, value, values, n_iter, ended)

    def _alternate(self, whole, theta):
        """Return (objective, theta, rounds, whether it ended) from one start."""
        best_value, best = whole(theta)[0], theta
        chosen = whole.select(theta)
        for n_iter in range(1, self.max_iter + 1):
            theta = whole.only(chosen).descend(Descent(theta), self.m_steps).x
            value = whole(theta)[0]
            if value >= best_value - 1e-9 * max(1.0, abs(best_value)):
                return best_value, best, n_iter, True
            best_value, best = value, theta
            again = whole.select(theta)
            if (again == chosen).all():
                return best_value, best, n_iter, True
            chosen = again
        return best_value, best, n_iter, False
