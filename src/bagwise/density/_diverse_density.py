"""Diverse density: joint search for a concept point and its scales."""

import numpy as np

from bagwise._compat import StrOptions
from bagwise.density._base import DENSITY_CONSTRAINTS, DensityClassifier
from bagwise.density._objective import density_objective
from bagwise.solvers.lbfgs import Descent

# Steps from every start; the best start then goes on to convergence.
_FIRST_STEPS = 100
# Valleys are narrow near the end: more of the past of the descent is used.
_LATER_MEMORY = 40


class DiverseDensity(DensityClassifier):
    r"""Find the point that is near all positive bags and far from negative ones.

    With :math:`d_{ij} = \sum_k s_k^2 (x_{ijk} - h_k)^2` and
    :math:`p_{ij} = e^{-d_{ij}}`, the concept :math:`h` and the scales :math:`s`
    minimise ([1]_)

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
        Most iterations from the best start (the others get 100).
    threshold : {"zero", "train", "cv"}, default="train"
        Where scores are cut: at probability one half, at the best cut of the training
        bags, or at the best cut of out-of-fold scores.
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
        The minimum found. ``n_bags * log(2)`` would be no better than guessing.
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
    cost. A step reads the
    instances twice, O(n_instances * n_features), and runs without Python unless they
    are sparse; screening costs O(n_positive_instances * n_instances * n_features). No
    start is given up before its 100 steps: the best one may be among the last until
    then. Features should be scaled.

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
        runs = [objective.descend(Descent(start), first_steps) for start in starts]
        values = np.array([run.fun for run in runs])
        best = int(values.argmin())
        runs[best].memory = _LATER_MEMORY
        run = objective.descend(runs[best], self.max_iter)
        self._store(
            frame, starts[best], run.x, run.fun, values, run.n_iter, run.converged
        )
