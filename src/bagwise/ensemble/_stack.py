"""A stack: members fitted out of fold and on all bags, and what they score.

`fit_stack` is what `BagStackingClassifier`, `BagClassifier` and `BagRegressor` share.
How the scores of members become one decision is in `_combine`.
"""

import importlib.util
import time
import warnings
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.utils import check_random_state
from threadpoolctl import threadpool_limits

from bagwise.bags import Bags
from bagwise.bags.segments import segment_max
from bagwise.base import bag_folds
from bagwise.base.estimator import weight_arguments
from bagwise.base.folds import most_folds
from bagwise.compose import forests
from bagwise.compose.forests import class_probabilities, values
from bagwise.ensemble._inputs import Input, Made
from bagwise.kernels.distances import thin_bags

# Time budget, in seconds, of time_budget="auto".
_AUTO_SECONDS = 60.0
# Maximum number of instances, over all bags, that are scored out of fold.
_SCORED = 200_000
# Warnings of members that have learned nothing. They are for users who chose the
# settings of a member: in a default stack, equal scores have no effect.
_NOTHING_LEARNED = ("the optimum is constant", "No weak learner of MILBoost")


@dataclass
class Member:
    """An estimator, the transformer that makes its input, and what it costs.

    Parameters
    ----------
    name : str
        How the stack calls it.
    estimator : estimator
        Unfitted.
    input : Input
        Makes what it learns from; by default it learns from the bags as they are.
    native : bool
        Whether one fit serves all classes (otherwise one-vs-rest).
    prior : float
        Its weight on instances before any evidence, next to the others'.
    share : float
        Its weight on bags before any evidence, next to the others'.
    quiet : bool
        Whether it may learn nothing without a warning.
    once, per_fit : float
        Estimated seconds of its own input, and of each fit.
    """

    name: str
    estimator: Any
    input: Input = field(default_factory=Input)
    native: bool = False
    prior: float = 0.0
    share: float = 0.0
    quiet: bool = False
    once: float = 0.0
    per_fit: float = 0.0

    def seconds(self, n_fits, n_classes):
        """Estimate what so many fits cost; with many classes each is one-vs-rest."""
        per_class = 1 if self.native or n_classes <= 2 else n_classes
        return self.once + n_fits * per_class * self.per_fit


def named_members(pairs, parameter):
    """Return members for a list of (name, estimator), the value of a parameter."""
    if not pairs or len({name for name, _ in pairs}) < len(pairs):
        raise ValueError(
            f"{parameter} must be a list of (name, estimator) with at least one entry "
            "and no name twice."
        )
    return [Member(name, estimator) for name, estimator in pairs]


@dataclass
class Stack:
    """Members fitted on all training bags.

    Parameters
    ----------
    names : list of str
        The members.
    inputs : list of Input
        What each of them scores.
    models : list of list of estimator
        One fitted estimator per member, or one per class or target.
    n_classes : int
        How many classes there are; 0 for real values.
    """

    names: list
    inputs: list
    models: list
    n_classes: int

    def scores(self, X, used):
        """Return the scores of bags, of shape (n_bags, n_members, n_columns).

        There is a column per class or target; of two classes there is one. Members that
        are not in `used`, an ndarray of bool of shape (n_members,), are not asked:
        their scores are zero.
        """
        n_columns = {0: len(self.models[0]), 2: 1}.get(self.n_classes, self.n_classes)
        made, out = Made(X), np.zeros((len(X), len(self.names), n_columns))
        for k in np.flatnonzero(used):
            rows = made.of(self.inputs[k])
            out[:, k] = bag_scores(self.models[k], rows, self.n_classes)
        return out

    def scoring(self):
        """Return the positions of the members that score instances."""
        first = [models[0] for models in self.models]
        return [k for k, one in enumerate(first) if hasattr(one, "instance_scores")]

    def instance_scores(self, made, members, most=None):
        """Return scores of shape (n_instances, n_chosen, n_columns) of some members.

        Parameters
        ----------
        made : Made
            Inputs of the bags.
        members : list of int
            Positions of members that score instances.
        most : int, default=None
            Instances of a bag that are scored; all of them by default.
        """
        found = []
        for k in members:
            rows = thin_bags(made.of(self.inputs[k]), most)
            found.append(_instance_scores(self.models[k], rows))
        return np.stack(found, axis=1)

    def by_name(self):
        """Return the fitted members: estimators, or lists (a class or target each)."""
        return {
            name: models if len(models) > 1 else models[0]
            for name, models in zip(self.names, self.models, strict=True)
        }


class OutOfFold(NamedTuple):
    """Scores of training bags by members that were not fitted to them.

    Attributes
    ----------
    scores : ndarray of shape (n_rows, n_members, n_columns)
        Scores of bags; a row per bag, and again for every repetition of the folds.
    tops : list of ndarray of shape (n_bags, n_columns) or None
        Largest score of an instance of each bag, per member, in the first folds.
    made : Made
        The inputs of the training bags.
    priors : ndarray of shape (n_members,)
        Weights on instances without evidence.
    shares : ndarray of shape (n_members,)
        Weights on bags without evidence.
    folds : list of (train, test)
        The folds, those of one repetition after the other.
    """

    scores: np.ndarray
    tops: list
    made: Made
    priors: np.ndarray
    shares: np.ndarray
    folds: list


def fit_stack(
    members,
    X,
    y,
    weight,
    *,
    n_classes,
    cv,
    random_state,
    n_jobs,
    budget,
    n_repeats=1,
    progress=None,
):
    """Make the inputs, score every bag out of fold, and refit on all bags.

    Parameters
    ----------
    members : list of Member
        In the order in which they are fitted.
    X : Bags
        Training bags.
    y : ndarray of shape (n_bags,) or (n_bags, n_targets)
        Codes of classes (of two, 1 is the positive one), or values.
    weight : ndarray of shape (n_bags,)
        Weights of the bags.
    n_classes : int
        How many classes there are; 0 for values.
    cv : int
        Most folds.
    random_state : int, RandomState or None
        Random seed of folds and members.
    n_jobs : int or None
        Fits at the same time.
    budget : Budget
        Members for which no time is left are not fitted, the first one excepted.
    n_repeats : int, default=1
        Repetitions of the folds, each with other folds.
    progress : str, default=None
        Title of a progress bar.

    Returns
    -------
    stack : Stack
        The fitted members.
    seen : OutOfFold
        Their scores of the training bags.
    """
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    seeds = range(seed, seed + n_repeats)
    folds = [fold for k in seeds for fold in stack_folds(X, y, n_classes, cv, k)]
    first = len(folds) // n_repeats
    made = Made(X, fit=True)
    for member in members:
        made.of(member.input)
    n_targets = y.shape[1] if y.ndim == 2 else 1
    pace = _Pace(budget, n_targets * (len(folds) + 1), n_classes)
    found = {}
    with Parallel(n_jobs=n_jobs) as parallel:
        for member in _shown(members, progress):
            if found and not budget.allows(pace.next_seconds(member)):
                continue
            jobs = _jobs(member, made, y, n_classes, folds, weight, seed, first)
            *parts, models = parallel(jobs)
            found[member.name] = member, parts, models
            pace.after(member)
    fitted = [member for member, _, _ in found.values()]
    stack = Stack(
        [member.name for member in fitted],
        [member.input.scored for member in fitted],
        [models for _, _, models in found.values()],
        n_classes,
    )
    scores, tops = [], []
    for _, parts, _ in found.values():
        scores.append(_in_place(folds, [part for part, _ in parts], len(X)))
        largest = [part for _, part in parts[:first]]
        tops.append(_in_place(folds[:first], largest, len(X)))
    priors = np.array([member.prior for member in fitted])
    shares = np.array([member.share for member in fitted])
    scores = np.stack(scores, axis=1)
    return stack, OutOfFold(scores, tops, made, priors, shares, folds)


def _shown(members, progress):
    """Wrap the members in a progress bar, where there is a title for one."""
    if progress is None:
        return members
    from rich.console import Console
    from rich.progress import track

    # In a notebook without ipywidgets, rich warns at every update of its bar.
    shown = not Console().is_jupyter or importlib.util.find_spec("ipywidgets")
    return track(members, description=progress, disable=not shown)


def _jobs(member, made, y, n_classes, folds, weight, seed, first):
    """Yield the fits of a member, each with the rows it needs and no others.

    Instances are scored in the `first` folds only.
    """
    fit_on, scored = member.input, member.input.scored
    rows, all_rows = made.of(fit_on), made.of(scored)
    targets = _targets(member, y, n_classes)
    most = max(1, _SCORED // len(weight))
    for k, (train, test) in enumerate(folds):
        yield delayed(_score_fold)(
            member,
            fit_on.select(rows, train, train),
            [target[train] for target in targets],
            weight[train],
            seed,
            scored.select(all_rows, test, train),
            n_classes,
            most if k < first else 0,
        )
    yield delayed(fit_member)(member, rows, targets, weight, seed)


def _targets(member, y, n_classes):
    """Return the target of each of a member's fits."""
    if n_classes == 2:
        return [y == 1]
    if n_classes == 0:
        return list(y.reshape(len(y), -1).T)
    return [y] if member.native else [y == k for k in range(n_classes)]


def _score_fold(member, rows, targets, weight, seed, held_out, n_classes, most):
    models = fit_member(member, rows, targets, weight, seed)
    wanted = n_classes and most
    tops = _largest_scores(models, held_out, most) if wanted else None
    return bag_scores(models, held_out, n_classes), tops


def fit_member(member, rows, targets, weight, seed):
    """Return copies of a member's estimator, fitted to each of the targets."""
    even = (weight == 1.0).all()
    options = weight_arguments(member.estimator, None if even else weight)
    # Folds run in parallel: threads inside a small fit would only wait.
    with threadpool_limits(1, user_api="openmp"), warnings.catch_warnings():
        if member.quiet:
            for message in _NOTHING_LEARNED:
                warnings.filterwarnings("ignore", message)
        return [
            _seeded(member.estimator, seed).fit(rows, y, **options) for y in targets
        ]


def _seeded(estimator, seed):
    """Clone an estimator and fix every random state in it.

    A member learns from codes, whatever the labels of the stack are called.
    """
    model = clone(estimator)
    names = {name: name.split("__")[-1] for name in model.get_params()}
    seeds = {name: seed for name, last in names.items() if last == "random_state"}
    labels = {name: None for name, last in names.items() if last == "pos_label"}
    return model.set_params(**seeds, **labels)


# Scores -------------------------------------------------------------------------------


def bag_scores(models, rows, n_classes):
    """Return a column of scores per class (of two, the positive one) or target."""
    if n_classes == 0:
        return np.column_stack([values(model, rows) for model in models])
    n_columns = 1 if n_classes == 2 else n_classes
    if len(models) == n_columns:
        return np.column_stack([decision_values(model, rows) for model in models])
    found = decision_values(models[0], rows)
    if found.shape[1] == n_classes:
        return found
    # A class without bags in a fold gets the lowest score there.
    out = np.full((len(found), n_classes), found.min())
    out[:, models[0].classes_] = found
    return out


def decision_values(model, rows):
    """Return the decision value of the positive class, or of each of several."""
    if hasattr(model, "decision_function"):
        return forests.decision_values(model, rows)
    p = np.clip(class_probabilities(model, rows), 1e-6, 1.0 - 1e-6)
    logit = np.log(p) - np.log1p(-p)
    return logit[:, 1] if p.shape[1] == 2 else logit


def _instance_scores(models, rows):
    columns = [model.instance_scores(rows).values for model in models]
    return columns[0] if columns[0].ndim == 2 else np.column_stack(columns)


def _largest_scores(models, rows, most):
    """Return the largest score of an instance of each bag, one column per class.

    In units of the spread of all instances in `rows`, from their mean: models of
    different folds are not on one scale. None where instances are not scored. Of a
    large bag, `most` instances are scored.
    """
    if not (isinstance(rows, Bags) and hasattr(models[0], "instance_scores")):
        return None
    thin = thin_bags(rows, most)
    scores = _instance_scores(models, thin)
    spread = scores.std(axis=0)
    scores = (scores - scores.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return segment_max(scores, thin.offsets)


def _in_place(folds, parts, n_bags):
    """Put what was found of every fold in the order of the bags."""
    if parts[0] is None:
        return None
    tests = np.concatenate([test for _, test in folds])
    repeat = np.repeat(np.arange(len(tests) // n_bags), n_bags)
    out = np.empty((len(tests), parts[0].shape[1]))
    out[repeat * n_bags + tests] = np.concatenate(parts)
    return out


# Folds and weights --------------------------------------------------------------------


def stack_folds(X, y, n_classes, cv, seed):
    """Return the folds of a stack: groups and copies of a bag stay together.

    Parameters
    ----------
    X : Bags
        The training bags.
    y : ndarray of shape (n_bags,) or (n_bags, n_targets)
        Classes or values.
    n_classes : int
        How many classes there are; 0 for values.
    cv : int
        Most folds.
    seed : int
        Shuffles the bags.

    Returns
    -------
    list of (train, test)
    """
    # Values that happen to be whole numbers are not classes, and a table has none.
    strata = y if n_classes else y.reshape(len(y), -1)
    n_splits = most_folds(X, strata, cv)
    if n_splits < 2:
        units = "bags" if X.groups is None else "groups"
        if n_classes:
            wanted, found = f"{units} of each class", f"a class has {n_splits}"
        else:
            wanted, found = units, f"n_samples = {len(X)}"
        raise ValueError(
            f"stacking needs at least 2 {wanted}, to score bags by members that were "
            f"not fitted to them ({found})."
        )
    return bag_folds(X, strata, n_splits, random_state=seed)


def scaled_to_one(weight):
    """Return weights with mean one: penalties of a stack do not depend on their sum."""
    if (weight == weight[0]).all():
        return np.ones(len(weight))
    return weight / weight.mean()


# Time ---------------------------------------------------------------------------------


class Budget:
    """Seconds that a fit may take.

    Parameters
    ----------
    time_budget : float, "auto" or None
        The parameter of that name. "auto" plans for a minute and never looks at the
        clock, so that the result does not depend on how busy the computer is.

    Attributes
    ----------
    seconds : float or None
        What estimates are compared with; None for no limit.
    """

    def __init__(self, time_budget):
        self.watched = not isinstance(time_budget, str) and time_budget is not None
        self.seconds = _AUTO_SECONDS if time_budget == "auto" else time_budget
        self.start = time.monotonic()

    def elapsed(self):
        """Return the seconds since the start."""
        return time.monotonic() - self.start

    def allows(self, more):
        """Whether `more` seconds stay within the budget, with a tolerance of 25%."""
        return not self.watched or self.elapsed() + more <= 1.25 * self.seconds


class _Pace:
    """How long members take, next to their estimates."""

    def __init__(self, budget, n_fits, n_classes):
        self.budget, self.sizes = budget, (n_fits, n_classes)
        self.started = self.last = budget.elapsed()
        self.estimated = self.slowest = 0.0

    def next_seconds(self, member):
        """Predict how long a member takes: its estimate at the pace so far."""
        guess = member.seconds(*self.sizes)
        if not (guess > 0 and self.estimated > 0):
            return self.slowest
        return guess * (self.last - self.started) / self.estimated

    def after(self, member):
        """Take note that a member has been fitted."""
        now = self.budget.elapsed()
        self.slowest = max(self.slowest, now - self.last)
        self.last = now
        self.estimated += member.seconds(*self.sizes)
