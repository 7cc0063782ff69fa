"""What boosting methods share: weak learners, rounds, stages and early stopping."""

import copy
import warnings
from itertools import zip_longest
from numbers import Integral, Real

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import check_scoring
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from bagwise._compat import Interval, StrOptions
from bagwise.base import WeightedBagClassifier, bag_folds
from bagwise.base.folds import kept_together, most_folds
from bagwise.solvers.pace import paced
from bagwise.solvers.stumps import SortedColumns, Stump

# Up to this many rows are scored by all stumps at once, not one stump at a time.
_FEW_ROWS = 1_000
BOOSTING_CONSTRAINTS: dict = {
    "n_estimators": [Interval(Integral, 1, None, closed="left")],
    "class_weight": [dict, StrOptions({"balanced"}), None],
    "n_iter_no_change": [Interval(Integral, 1, None, closed="left"), None],
    "validation_fraction": [Interval(Real, 0.0, 1.0, closed="neither")],
    "tol": [Interval(Real, 0.0, None, closed="left")],
    "random_state": ["random_state"],
}


def weak_learner_maker(estimator, data, total, rng, max_samples=None):
    """Return a function from signed weights to a fitted weak learner.

    Parameters
    ----------
    estimator : classifier or None
        None: decision stumps.
    data : ndarray or CSR matrix of shape (n_instances, n_features)
        The rows to learn from.
    total : float
        What the weights given to `estimator` sum to: regularized learners depend on it.
    rng : RandomState
        Seeds the learners.
    max_samples : int or None, default=None
        With more rows than that, each learner gets so many, sampled by their weights.
    """
    if estimator is None:
        return SortedColumns(data).best_stump
    if not has_fit_parameter(estimator, "sample_weight"):
        raise ValueError(
            f"{type(estimator).__name__} does not take sample_weight, which boosting "
            "needs to weight instances."
        )

    def learn(signed):
        size = np.abs(signed)
        wanted = np.where(signed > 0, 1, -1)
        used = wanted[size > 0]
        if len(used) and (used == used[0]).all():  # one class only: nothing to learn
            return Stump(-1, -np.inf, used[0])
        learner = _seeded(estimator, rng)
        if max_samples is None or len(size) <= max_samples:
            return learner.fit(data, wanted, sample_weight=size * (total / size.sum()))
        rows = np.sort(rng.choice(len(size), max_samples, p=size / size.sum()))
        weight = np.full(max_samples, total / max_samples)
        return learner.fit(data[rows], wanted[rows], sample_weight=weight)

    return learn


def _seeded(estimator, rng):
    learner = clone(estimator)
    names = sorted(learner.get_params(deep=True))
    seeds = {
        name: int(rng.randint(np.iinfo(np.int32).max))
        for name in names
        if name == "random_state" or name.endswith("__random_state")
    }
    return learner.set_params(**seeds)


def stump_sum(stumps, weights, data):
    """Return the weighted sum of the answers of stumps, of all of them at once.

    Parameters
    ----------
    stumps : list of Stump
        The learners.
    weights : ndarray of shape (n_stumps,)
        Their weights.
    data : ndarray or CSR matrix of shape (n_rows, n_features)
        A few rows.

    Returns
    -------
    ndarray of shape (n_rows,)
    """
    feature = np.array([max(one.feature, 0) for one in stumps])
    columns = data[:, feature]
    columns = columns.toarray() if sp.issparse(columns) else columns
    above = columns > np.array([one.threshold for one in stumps])  # True if constant
    step = weights * np.array([one.sign for one in stumps])
    return np.where(above, step, -step).sum(axis=1)


def learner_outputs(learners, data):
    """Yield the outputs, +1 or -1, of each learner in turn."""
    if sp.issparse(data) and any(isinstance(one, Stump) for one in learners):
        # All columns of stumps at once: extracting one from CSR visits each row.
        used = sorted(
            {one.feature for one in learners if isinstance(one, Stump)} - {-1}
        )
        place = {feature: k for k, feature in enumerate(used)}
        columns = np.asfortranarray(data[:, used].toarray())
        for one in learners:
            if isinstance(one, Stump) and one.feature >= 0:
                yield one.of_column(columns[:, place[one.feature]])
            else:
                yield one.predict(data)
        return
    for one in learners:
        yield np.asarray(one.predict(data), dtype=np.float64)


class BoostedBags(WeightedBagClassifier):
    """A weighted sum of weak learners of instances, F(x) = sum_m c_m h_m(x).

    Subclasses define `_boost(X, t, bag_weight, learn)`, a generator of (learner, its
    outputs h_m, c_m, objective after the round) whose first item is (None, None, 0.0,
    objective at F = 0);
    `_loss(F, offsets, t, bag_weight)`, which early stopping watches; and
    `_pool(F, offsets)`, the scores of bags.
    """

    def _most_samples(self, n_instances):
        """Return how many rows a learner sees at most, None for all."""
        return None

    def _learner_rows(self, X):
        """Return the rows that learners see."""
        return X.data

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.scale_sensitive = "no"
        base = self._weak_estimator()
        tags.input_tags.sparse = base is None or get_tags(base).input_tags.sparse
        return tags

    def _weak_estimator(self):
        """Return the weak learner to clone, or None for stumps."""
        return self.estimator

    def _fit_binary(self, X, t, bag_weight):
        rng = check_random_state(self.random_state)
        whole, held_out = X, None
        X = X.with_data(self._learner_rows(X))
        if self.n_iter_no_change is not None:
            (X, t, bag_weight), held_out = self._hold_out(X, t, bag_weight, rng)
        most = self._most_samples(X.n_instances)
        learn = weak_learner_maker(
            self._weak_estimator(), X.data, float(len(X)), rng, most
        )
        rounds = self._boost(X, t, bag_weight, learn)
        path = [next(rounds)[-1]]
        learners, steps = [], []
        watch = None if held_out is None else _Watch(self, *held_out)
        F = np.zeros(X.n_instances)
        numbers = paced(range(self.n_estimators), type(self).__name__, "rounds")
        for _, (learner, h, step, value) in zip(numbers, rounds, strict=False):
            F += step * h
            learners.append(learner)
            steps.append(step)
            path.append(value)
            if watch is not None and watch.sees(learner, h, step):
                break
        if watch is not None:
            self.validation_path_ = np.asarray(watch.path)
            kept = watch.best_round
            learners, steps, path = learners[:kept], steps[:kept], path[: kept + 1]
            F = None  # includes rounds that are dropped
        self.learners_, self.learner_weights_ = learners, np.asarray(steps)
        self.objective_path_ = np.asarray(path)
        self.objective_ = float(path[-1])
        self.n_iter_ = len(learners)
        self._warn_if_constant(self._score_instances(whole) if F is None else F)

    def _hold_out(self, X, t, bag_weight, rng):
        n_classes = 2
        n_held = int(np.ceil(self.validation_fraction * len(X)))
        fewest = min(int((t > 0).sum()), int((t < 0).sum()))
        if fewest < 2 or n_held < n_classes or len(X) - n_held < n_classes:
            raise ValueError(
                f"early stopping cannot hold out {self.validation_fraction:.0%} of "
                f"{len(X)} bags with both classes on both sides (the smaller class has "
                f"{fewest}). Set n_iter_no_change=None or another validation_fraction."
            )
        if kept_together(X) is not None:
            n_folds = most_folds(X, t, max(2, round(1.0 / self.validation_fraction)))
            train, held = bag_folds(X, t, n_folds, rng)[0]
        else:
            train, held = train_test_split(
                np.arange(len(X)), test_size=n_held, stratify=t, random_state=rng
            )
        train, held = np.sort(train), np.sort(held)
        return tuple((X[k], t[k], bag_weight[k]) for k in (train, held))

    def _warn_if_constant(self, F):
        if F.max() > F.min():
            return
        warnings.warn(
            f"No weak learner of {type(self).__name__} separates instances: all get "
            "the same score. Check that the features vary, or use another "
            "`estimator`.",
            ConvergenceWarning,
            stacklevel=5,
        )

    def _stages(self, X):
        F = np.zeros(X.n_instances)
        outputs = learner_outputs(self.learners_, self._learner_rows(X))
        for c, h in zip(self.learner_weights_, outputs, strict=True):
            F += c * h
            yield F

    def _score_instances(self, X):
        if X.n_instances <= _FEW_ROWS and self._are_stumps():
            rows = self._learner_rows(X)
            return stump_sum(self.learners_, self.learner_weights_, rows)
        F = np.zeros(X.n_instances)
        for stage in self._stages(X):
            F = stage
        return F

    def _are_stumps(self):
        return all(type(one) is Stump for one in self.learners_)

    def _score_bags(self, X):
        return self._pool(self._score_instances(X), X.offsets)

    def staged_decision_function(self, X):
        """Yield the score of each bag after every round.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Yields
        ------
        ndarray of shape (n_bags,) or (n_bags, n_classes)
            What `decision_function` would return had boosting stopped there. With more
            than two classes, a class whose rounds have ended keeps its last score.
        """
        check_is_fitted(self)
        X = self._check_bags(X, reset=False)
        parts = self._parts()
        columns = [one._pool(np.zeros(X.n_instances), X.offsets) for one in parts]
        for stage in zip_longest(*(one._stages(X) for one in parts)):
            for k, F in enumerate(stage):
                if F is not None:
                    columns[k] = parts[k]._pool(F, X.offsets)
            yield columns[0].copy() if len(parts) == 1 else np.column_stack(columns)

    def _score_candidates(self, candidates, X, y, splits, scoring):
        """Score numbers of rounds along one run of boosting; tuning calls this.

        None where something else is tuned as well, or where rounds are not the first
        ones of a longer run: early stopping ends them elsewhere, and a shared random
        generator gives every fit other numbers.
        """
        passed_on = isinstance(self.random_state, np.random.RandomState)
        if passed_on or self.n_iter_no_change is not None:
            return None
        if any(set(one) != {"n_estimators"} for one in candidates):
            return None
        score = check_scoring(self, scoring)
        rounds = [one["n_estimators"] for one in candidates]
        total = np.zeros(len(rounds))
        for train, test in splits:
            model = clone(self).set_params(n_estimators=max(rounds))
            model.fit(X[train], y[train])
            total += [score(model._after(n), X[test], y[test]) for n in rounds]
        return total / len(splits)

    def _after(self, n_rounds):
        """Return the model that `n_rounds` rounds of this one give."""
        model = copy.copy(self)
        if len(self.classes_) > 2:
            model.estimators_ = [one._after(n_rounds) for one in self.estimators_]
        else:
            model.learners_ = self.learners_[:n_rounds]
            model.learner_weights_ = self.learner_weights_[:n_rounds]
            model.objective_path_ = self.objective_path_[: n_rounds + 1]
            model.objective_ = float(model.objective_path_[-1])
        model.n_iter_ = min(self.n_iter_, n_rounds)
        return model


class _Watch:
    """Follow the loss on bags that boosting does not see."""

    def __init__(self, model, X, t, bag_weight):
        self.model, self.X, self.t = model, X, t
        self.weight = bag_weight / bag_weight.sum()
        self.F = np.zeros(X.n_instances)
        self.path = [model._loss(self.F, X.offsets, t, self.weight)]
        self.best_round = 1  # at least one round is kept
        self.best = np.inf
        self.varies = False

    def sees(self, learner, h, step):
        """Take one round into account; return whether to stop."""
        output = next(learner_outputs([learner], self.X.data))
        self.F += step * output
        loss = self.model._loss(self.F, self.X.offsets, self.t, self.weight)
        self.path.append(loss)
        n_rounds = len(self.path) - 1
        # Do not stop at constant learners only, however low their loss is.
        if loss < self.best - self.model.tol or not self.varies:
            self.best, self.best_round = loss, n_rounds
        self.varies = self.varies or h.max() > h.min()
        return n_rounds - self.best_round >= self.model.n_iter_no_change
