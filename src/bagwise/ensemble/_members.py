"""Members of a stack: fitting them, out of fold and on all bags."""

import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from bagwise.bags import Bags
from bagwise.bags.segments import segment_max
from bagwise.base import bag_folds, most_folds
from bagwise.base.weights import weight_arguments
from bagwise.kernels.emd import thin_bags

# Instances, all bags together, that show which member to trust on instances.
_JUDGED = 200_000
# What members say that have learned nothing: it is for those who chose their settings,
# and nobody chose those of a default stack, in which equal scores decide nothing.
_SILENT = ("the optimum is constant", "No weak learner of MILBoost")


@dataclass
class Member:
    """An estimator and the view of the bags it learns from.

    Parameters
    ----------
    name : str
        How the stack calls it.
    estimator : estimator
        Unfitted.
    view : str
        What it is fitted on. ``thin_rows`` and ``thin_dense`` hold fewer instances of
        large bags and are for fitting alone: bags are scored on all instances.
    native : bool
        Whether one fit serves all classes (otherwise one-vs-rest).
    trust : float
        Its weight on instances before any evidence, next to the others'.
    """

    name: str
    estimator: Any
    view: str = "bags"
    native: bool = False
    trust: float = 0.0

    @property
    def score_view(self):
        """The view that bags are scored on."""
        return self.view.removeprefix("thin_")


class PlainViews:
    """The bags themselves as the only view.

    A set of views gives, for the training bags and for others, objects that are
    indexed by bag. `columns` holds, for a view whose columns stand for training bags or
    for their instances, the training bag of each column: a member that learns from some
    bags may see only their columns.
    """

    columns: dict = {}

    def __init__(self, X):
        self.train = {"bags": X}

    def of(self, X):
        """Return the views of other bags."""
        return {"bags": X}

    def without_train(self):
        """Forget what only training needs."""
        self.train = {}
        return self


class Classes:
    """What members learn and say when bags have classes.

    Parameters
    ----------
    codes : ndarray of int of shape (n_bags,)
        Classes 0, 1, ...; of two, 1 is the positive one.
    n_classes : int
        How many there are.
    """

    def __init__(self, codes, n_classes):
        self.codes, self.n_classes = codes, n_classes
        self.n_columns = 1 if n_classes == 2 else n_classes

    def targets(self, member):
        """Return the labels of each of a member's fits."""
        if self.n_classes == 2:
            return [self.codes == 1]
        if member.native:
            return [self.codes]
        return [self.codes == k for k in range(self.n_classes)]

    def scores(self, models, rows):
        """Return one column of scores per class; of two, of the positive one."""
        if len(models) == self.n_columns:
            return np.column_stack([score_rows(model, rows) for model in models])
        found = score_rows(models[0], rows)
        if found.shape[1] == self.n_classes:
            return found
        # A fold without bags of a class: nothing speaks for it there.
        out = np.full((len(found), self.n_classes), found.min())
        out[:, models[0].classes_] = found
        return out

    def tops(self, models, rows, most):
        """Return the largest score of an instance of each bag, one column per class.

        In units of the spread of all instances in `rows`, from their mean: models of
        different folds are not on one scale. None where instances are not scored. Of
        a large bag `most` instances are looked at.
        """
        if not (isinstance(rows, Bags) and hasattr(models[0], "instance_scores")):
            return None
        thin = thin_bags(rows, most)
        scores = np.column_stack([one.instance_scores(thin).values for one in models])
        spread = scores.std(axis=0)
        scores = (scores - scores.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        return segment_max(scores, thin.offsets)


class Values:
    """What members learn and say when bags have real values."""

    n_columns = 1

    def __init__(self, y):
        self.y = y

    def targets(self, member):
        """Return the values."""
        return [self.y]

    def scores(self, models, rows):
        """Return the predictions as one column."""
        return models[0].predict(rows)[:, None]

    def tops(self, models, rows, most):
        """Return nothing: values of instances are not weighed by their own."""
        return None


def score_rows(model, rows):
    """Return the decision value of the positive class, or of each of several."""
    if hasattr(model, "decision_function"):
        return model.decision_function(rows)
    p = np.clip(model.predict_proba(rows), 1e-6, 1.0 - 1e-6)
    logit = np.log(p) - np.log1p(-p)
    return logit[:, 1] if p.shape[1] == 2 else logit


def take(views, name, columns, bags, learned_from):
    """Return rows `bags` of a view, with the columns of the bags `learned_from`."""
    rows = views[name] if bags is None else views[name][bags]
    if name not in columns or learned_from is None:
        return rows
    return rows[:, np.isin(columns[name], learned_from)]


def scaled_to_one(weight):
    """Return weights with mean one: in a stack, nobody tunes penalties to their sum."""
    if (weight == weight[0]).all():
        return np.ones(len(weight))
    return weight / weight.mean()


def _seeded(estimator, seed):
    """Clone an estimator and fix every random state in it.

    A member learns from codes, whatever the labels of the stack are called.
    """
    model = clone(estimator)
    names = {name: name.split("__")[-1] for name in model.get_params()}
    seeds = {name: seed for name, last in names.items() if last == "random_state"}
    labels = {name: None for name, last in names.items() if last == "pos_label"}
    return model.set_params(**seeds, **labels)


def _fit(member, rows, targets, weight, seed):
    even = (weight == 1.0).all()
    options = weight_arguments(member.estimator, None if even else weight)
    # Folds are what runs at the same time: threads inside a small fit only wait.
    with threadpool_limits(1, user_api="openmp"), warnings.catch_warnings():
        if member.view != "bags":
            for message in _SILENT:
                warnings.filterwarnings("ignore", message)
        return [
            _seeded(member.estimator, seed).fit(rows, y, **options) for y in targets
        ]


def _score_fold(member, task, rows, targets, weight, seed, held_out, most):
    models = _fit(member, rows, targets, weight, seed)
    return task.scores(models, held_out), task.tops(models, held_out, most)


def _jobs(member, views, task, folds, weight, seed):
    """Yield the fits of a member, each with the rows it needs and no others."""
    targets = task.targets(member)
    most = max(1, _JUDGED // len(weight))
    for train, test in folds:
        yield delayed(_score_fold)(
            member,
            task,
            take(views.train, member.view, views.columns, train, train),
            [target[train] for target in targets],
            weight[train],
            seed,
            take(views.train, member.score_view, views.columns, test, train),
            most,
        )
    rows = take(views.train, member.view, {}, None, None)
    yield delayed(_fit)(member, rows, targets, weight, seed)


def stack_folds(X, y, n_splits, seed):
    """Return the folds of a stack: copies of a bag are not scored by each other.

    Groups of bags, where there are some, stand as they are.

    Parameters
    ----------
    X : Bags
        The training bags.
    y : ndarray of shape (n_bags,)
        Classes or values.
    n_splits : int
        How many folds.
    seed : int
        Deals out the bags.

    Returns
    -------
    list of (train, test)
    """
    copies = None if X.groups is not None else copied_bags(X)
    if copies is not None and most_folds(X, y, n_splits, groups=copies) == n_splits:
        return bag_folds(X, y, n_splits, random_state=seed, groups=copies)
    return bag_folds(X, y, n_splits, random_state=seed)


def copied_bags(X):
    """Return for every bag the first one with the same rows; None without copies."""
    first, known = np.arange(len(X)), {}
    heads = X.take_rows(X.offsets[:-1])
    for i, size in enumerate(X.sizes):
        head = heads[[i]] if X.is_sparse else heads[i]
        mark = head.data.tobytes() if X.is_sparse else head.tobytes()
        alike = known.setdefault((int(size), mark), [])
        first[i] = next((k for k in alike if _same(X[k], X[i])), i)
        if first[i] == i:
            alike.append(i)
    return first if (first != np.arange(len(X))).any() else None


def _same(one, other):
    if hasattr(one, "tocsr"):
        return (one != other).nnz == 0
    return np.array_equal(one, other, equal_nan=True)


class Clock:
    """Seconds that are left of a budget.

    Parameters
    ----------
    seconds : float or None
        The budget; None for none.
    """

    def __init__(self, seconds):
        self.seconds = seconds
        self.start = time.monotonic()

    def elapsed(self):
        """Seconds since the start."""
        return time.monotonic() - self.start

    def allows(self, more):
        """Whether `more` seconds stay within the budget, with some grace."""
        return self.seconds is None or self.elapsed() + more <= 1.25 * self.seconds


def _next_seconds(name, done, costs, spent, slowest):
    """Guess how long the next member takes: its estimate at the pace of those done."""
    before = sum(costs.get(one, 0.0) for one in done)
    if name not in costs or not before > 0:
        return slowest
    return costs[name] * spent / before


def fit_members(
    members, views, task, folds, weight, seed, *, n_jobs, clock, track, costs=None
):
    """Score every training bag out of fold and refit every member on all bags.

    Parameters
    ----------
    members : list of Member
        In the order in which they are fitted.
    views : object with `train` and `columns`
        See `PlainViews`.
    task : Classes or Values
        What is learned.
    folds : list of (train, test)
        Bags of each fold.
    weight : ndarray of shape (n_bags,)
        Weights of the bags.
    seed : int
        Fixes the members.
    n_jobs : int or None
        Fits at the same time.
    clock : Clock
        Members for which no time is left are not fitted, the first one excepted.
    track : callable
        Wraps the members, to show progress.
    costs : dict of str to float, default=None
        Estimated seconds of members; the clock sets the pace.

    Returns
    -------
    scores : dict of str to ndarray of shape (n_bags, n_columns)
        Out-of-fold scores.
    tops : dict of str to ndarray of shape (n_bags, n_columns) or None
        The largest out-of-fold scores of instances; see `Classes.tops`.
    models : dict of str to list of estimator
        The members fitted on all bags.
    """
    scores, tops, models = {}, {}, {}
    slowest, first = 0.0, clock.elapsed()
    with Parallel(n_jobs=n_jobs) as parallel:
        for member in track(members):
            started = clock.elapsed()
            spent = started - first
            more = _next_seconds(member.name, models, costs or {}, spent, slowest)
            if models and not clock.allows(more):
                continue
            jobs = _jobs(member, views, task, folds, weight, seed)
            *parts, models[member.name] = parallel(jobs)
            scores[member.name] = _in_place(folds, [part for part, _ in parts])
            tops[member.name] = _in_place(folds, [part for _, part in parts])
            slowest = max(slowest, clock.elapsed() - started)
    return scores, tops, models


def _in_place(folds, parts):
    """Put what was found of every fold in the order of the bags."""
    if parts[0] is None:
        return None
    out = np.empty((sum(len(test) for _, test in folds), parts[0].shape[1]))
    for (_, test), part in zip(folds, parts, strict=True):
        out[test] = part
    return out
