r"""Decision values of left-out bags for whole grids, from the exact kernel.

Everything is computed from one kernel matrix of all bags. The training rows of a fold
are those with a positive entry of V, so that no sub-matrix is ever copied: the Lanczos
vectors of all folds and values of rho are columns of one product with the kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.metrics import get_scorer

from bagwise._sizes import check_memory
from bagwise.bags.segments import repeat, segment_sum
from bagwise.base.estimator import class_factors
from bagwise.kernels.instance import (
    instance_kernel,
    resolve_gamma,
    squared_distances,
)
from bagwise.least_squares._safe_kernel import Bordered
from bagwise.least_squares.safe_moments import FeatureMap, MomentSystem, features_from
from bagwise.least_squares.safe_problem import (
    LabelTargets,
    Settings,
    Training,
    instance_variance,
    rho_unit,
    row_namer,
    squared_size,
)
from bagwise.solvers.lanczos import largest_eigenvalues, resolvent_path

AXES = ("gamma", "rho", "variance_weight")


def candidate_scores(model, candidates, X, y, splits, scoring):
    """Return the mean score of every candidate, or None where nothing is shared.

    Parameters
    ----------
    model : SAFE
        What is tuned; unfitted.
    candidates : list of dict
        Parameters to try.
    X, y : Bags, ndarray
        Training bags and labels.
    splits : list of (train, test)
        Folds.
    scoring : str or callable
        As in scikit-learn.
    """
    known = {*AXES, "aggregation"}
    if (
        model.loss != "squared"
        or model.variance_weight_abs is not None
        or not all(set(params) <= known for params in candidates)
    ):
        return None
    full = [
        {name: params.get(name, getattr(model, name)) for name in known}
        for params in candidates
    ]
    if any(params["aggregation"] == "max" for params in full):
        return None
    classes, codes = np.unique(y, return_inverse=True)
    count = np.ones(len(codes))
    folds = make_folds(codes, count, classes, model.class_weight, splits)
    score = partial(score_fold, scoring, classes, X, y, None)
    found = np.empty(len(full))
    for aggregation in dict.fromkeys(params["aggregation"] for params in full):
        mine = [k for k, p in enumerate(full) if p["aggregation"] == aggregation]
        values = [list(dict.fromkeys(full[k][name] for k in mine)) for name in AXES]
        settings = Settings.of(clone(model).set_params(aggregation=aggregation))
        factor = class_factors(model.class_weight, classes, codes, count)
        columns = LabelTargets(len(classes)).columns(codes)
        training = Training(X, columns, count * factor[codes])
        fixed = model.class_weight != "balanced"
        grid = grid_scores(settings, training, folds, values, score, fixed=fixed)
        for k in mine:
            place = [values[a].index(full[k][name]) for a, name in enumerate(AXES)]
            found[k] = grid[tuple(place)].mean()
    return found


def make_folds(codes, count, classes, class_weight, splits):
    """Return the folds with the weights and targets of their training bags."""
    targets = LabelTargets(len(classes))
    columns = targets.columns(codes)
    folds = []
    for number, (train, test) in enumerate(splits):
        train = train[count[train] > 0]  # without bags of zero weight
        kind, mine = codes[train], count[train]
        missing = np.setdiff1d(np.arange(len(classes)), kind)
        if missing.size:
            raise ValueError(
                f"Fold {number} has no training bag of class "
                f"{classes[missing[0]]}. Use fewer or stratified folds."
            )
        factor = class_factors(class_weight, classes, kind, mine)
        Y = columns[train] @ targets.mix()
        folds.append(Fold(number, train, test, mine * factor[kind], Y))
    return folds


def grid_scores(settings, training, folds, values, score, *, fixed):
    """Return the scores, of shape (gammas, rhos, variance weights, folds)."""
    gammas, rhos, shares = values
    grid = (folds, gammas, rhos, shares)
    targets = LabelTargets(training.columns.shape[1])
    if settings.uses_features(training.X):
        decided = moment_decisions(settings, training, targets, *grid, fixed=fixed)
    else:
        Y = training.columns @ targets.mix(training.totals)
        decided = kernel_decisions(settings, training, Y, *grid, fixed=fixed)
    scores = np.empty((len(gammas), len(rhos), len(shares), len(folds)))
    for i, decisions in enumerate(decided):
        for g in range(len(shares)):
            for j, fold in enumerate(folds):
                for r in range(len(rhos)):
                    scores[i, r, g, j] = score(decisions[g][j][r], fold.test)
    return scores


def score_fold(scoring, classes, X, y, count, values, test):
    """Score of one fold; bags count as often as they weigh, if they do."""
    values = values[:, 0] if values.shape[1] == 1 else values
    fold = _Decided(classes, values)
    weight = None if count is None else count[test]
    if scoring is None:
        return float(np.average(fold.predict(None) == y[test], weights=weight))
    extra = {} if weight is None else {"sample_weight": weight}
    return get_scorer(scoring)(fold, X[test], y[test], **extra)


class _Decided(ClassifierMixin, BaseEstimator):
    """A classifier that has decided already, for scorers."""

    def __init__(self, classes=None, values=None):
        self.classes_ = classes
        self.values = values
        self.classes = classes

    def decision_function(self, X):
        return self.values

    def predict(self, X):
        if self.values.ndim == 1:
            return self.classes_[(self.values > 0).astype(np.intp)]
        return self.classes_[self.values.argmax(axis=1)]


# Bytes of Lanczos vectors that one batch of columns may take.
_BATCH_BYTES = 2**28
_EXPECTED_STEPS = 64


@dataclass
class Fold:
    """One split: bag numbers, weights and targets of the training bags."""

    number: int
    train: np.ndarray
    test: np.ndarray
    weight: np.ndarray
    Y: np.ndarray


@dataclass
class GridColumn:
    """One operator of a batch: a fold at one value of rho."""

    fold: Fold
    place: tuple  # (position of the fold, position of rho)
    bordered: Bordered
    root: np.ndarray  # square root of V, zero on rows outside the training bags


class KernelFolds:
    """Folds of one kernel matrix and one aggregation.

    Parameters
    ----------
    omega : ndarray of shape (n_instances, n_instances)
        The kernel.
    offsets, weight : ndarray
        Bags and aggregation weights.
    folds : list of Fold
        The splits.
    rhos : sequence of float
        Values of rho.
    relative : bool
        Whether rho is divided by the unit of each training set.
    """

    def __init__(self, omega, offsets, weight, folds, rhos, *, relative):
        self.omega = omega
        self.offsets = offsets
        self.weight = weight
        self.folds = folds
        self.rhos = np.asarray(rhos, dtype=np.float64)
        self.n = segment_sum(weight, offsets)
        self.omega_j = segment_sum(weight[:, None] * omega, offsets).T
        self.gram = self._to_bags(self.omega_j)
        self._set_scales(relative)

    def _to_bags(self, values):
        return segment_sum(self.weight[:, None] * values, self.offsets)

    def _set_scales(self, relative):
        rows = np.zeros((len(self.weight), len(self.folds)))
        for j, fold in enumerate(self.folds):
            per_bag = np.zeros(len(self.n))
            per_bag[fold.train] = fold.weight
            rows[:, j] = repeat(per_bag, self.offsets)
        self.rows = rows
        self.degrees = self.omega @ rows
        diagonal = np.diag(self.omega)
        self.rho = np.tile(self.rhos, (len(self.folds), 1))
        if not relative:
            return
        for j, fold in enumerate(self.folds):
            total = rows[:, j].sum()
            unit = rho_unit(
                squared_size(self.n[fold.train], fold.weight),
                fold.weight.sum(),
                float(rows[:, j] @ diagonal) / total,
                float(rows[:, j] @ self.degrees[:, j]) / total**2,
            )
            self.rho[j] = self.rhos / unit

    @cached_property
    def bordered(self):
        """Factorisations, one for every fold and rho."""
        out = []
        for j, fold in enumerate(self.folds):
            block = self.gram[np.ix_(fold.train, fold.train)]
            row = []
            for rho in self.rho[j]:
                Q = block.copy()
                Q[np.diag_indices_from(Q)] += 1.0 / (rho * fold.weight)
                try:
                    row.append(Bordered(Q, self.n[fold.train]))
                except ValueError as error:
                    raise ValueError(
                        f"Fold {fold.number} with rho={rho:.3g}: {error}"
                    ) from None
            out.append(row)
        return out

    def _predict(self, fold, a, b):
        cross = self.gram[np.ix_(fold.test, fold.train)]
        return cross @ a + np.multiply.outer(self.n[fold.test], b)

    def closed_form(self):
        """Left-out scores without variance weight: [fold][rho] -> (bags, outputs)."""
        out = []
        for fold, row in zip(self.folds, self.bordered, strict=True):
            zero = np.zeros(fold.Y.shape[1])
            out.append([self._predict(fold, *one.solve(fold.Y, zero)) for one in row])
        return out

    def leave_one_out(self, Y, weight):
        """Same as `closed_form` for folds of one bag each, from one eigenproblem.

        On the complement of n the bag kernel is ``W diag(l) W'``, so that both the
        solution and the diagonal of the inverse are sums over l for any rho.
        """
        s = np.sqrt(weight)
        scaled = (s[:, None] * self.gram) * s
        full, _ = np.linalg.qr((s * self.n)[:, None], mode="complete")
        basis = full[:, 1:]
        values, vectors = np.linalg.eigh(basis.T @ scaled @ basis)
        W = basis @ vectors
        target = W.T @ (s[:, None] * Y)
        out = []
        for j, fold in enumerate(self.folds):
            k, row = fold.test[0], []
            for rho in self.rho[j]:
                inverse = 1.0 / (np.maximum(values, 0.0) + 1.0 / rho)
                a = s[k] * ((W[k] * inverse) @ target)
                diagonal = weight[k] * ((W[k] ** 2) @ inverse)
                row.append((Y[k] - a / diagonal)[None])
            out.append(row)
        return out

    def with_variance(self, variance, shares, *, tol, max_iter):
        """Left-out scores for shares of gamma_max: [share][fold][rho].

        Parameters
        ----------
        variance : ndarray of shape (n_instances, n_folds)
            V of every fold, zero outside its training rows.
        shares : sequence of float
            Positive values of the relative variance weight.
        tol, max_iter : float, int
            Of Lanczos.
        """
        columns = [
            GridColumn(fold, (j, r), one, np.sqrt(variance[:, j]))
            for j, fold in enumerate(self.folds)
            for r, one in enumerate(self.bordered[j])
        ]
        n_outputs = self.folds[0].Y.shape[1]
        width = 8 * (_EXPECTED_STEPS * len(self.weight) * n_outputs + len(self.n) ** 2)
        step = max(1, _BATCH_BYTES // width)
        out = [[[None] * len(self.rhos) for _ in self.folds] for _ in shares]
        for first in range(0, len(columns), step):
            self._solve_batch(columns[first : first + step], shares, out, tol, max_iter)
        return out

    def _inverses(self, columns):
        """Inverses of the bordered matrices of a batch, zero outside training bags.

        As stacked matrices they serve a Lanczos step by one batched product, where
        thousands of small triangular solves would cost several times as much.
        """
        n_bags = len(self.n)
        P = np.zeros((len(columns), n_bags, n_bags))
        q = np.zeros((len(columns), n_bags))
        s = np.empty(len(columns))
        for i, column in enumerate(columns):
            bags = column.fold.train
            P[np.ix_([i], bags, bags)], q[i, bags], s[i] = column.bordered.inverse()
        return P, q, s

    def _operator(self, columns, inverses, repeats):
        """Product with V^1/2 K V^1/2 of each column, every column `repeats` times."""
        roots = np.repeat(np.array([c.root for c in columns]).T, repeats, axis=1)

        def apply(vectors):
            inner = roots * vectors
            product = self.omega @ inner
            a, b = _solve_columns(
                inverses, repeats, self._to_bags(product), inner.sum(axis=0)
            )
            return roots * (product - self.omega_j @ a - b)

        return apply, roots

    def _solve_batch(self, columns, shares, out, tol, max_iter):
        n_rows, n_bags = self.omega_j.shape
        n_outputs = columns[0].fold.Y.shape[1]
        inverses = self._inverses(columns)
        single, roots = self._operator(columns, inverses, 1)
        top = largest_eigenvalues(single, n_rows, len(columns))
        bound = (roots**2 * np.diag(self.omega)[:, None]).max(axis=0)
        zero = top <= np.finfo(np.float64).eps * n_rows * bound
        gamma = np.divide(1.0, top, out=np.zeros_like(top), where=~zero)
        gammas = np.multiply.outer(np.repeat(gamma, n_outputs), np.asarray(shares))
        apply, roots = self._operator(columns, inverses, n_outputs)
        Y = np.zeros((n_bags, len(columns) * n_outputs))
        for i, column in enumerate(columns):
            mine = slice(i * n_outputs, (i + 1) * n_outputs)
            Y[column.fold.train, mine] = column.fold.Y
        a, b = _solve_columns(inverses, n_outputs, Y, np.zeros(Y.shape[1]))
        start = roots * (self.omega_j @ a + b)
        z, _ = resolvent_path(apply, start, gammas, tol=tol, max_iter=max_iter)
        for g in range(len(shares)):
            pull = gammas[:, g] * (roots * z[g])
            bags = self._to_bags(self.omega @ pull)
            a, b = _solve_columns(inverses, n_outputs, Y - bags, -pull.sum(axis=0))
            for i, column in enumerate(columns):
                mine = slice(i * n_outputs, (i + 1) * n_outputs)
                fold, (j, r) = column.fold, column.place
                scores = self._predict(fold, a[fold.train, mine], b[mine])
                out[g][j][r] = bags[fold.test, mine] + scores


def _solve_columns(inverses, repeats, top, bottom):
    """Bordered solves, every inverse for `repeats` columns side by side."""
    P, q, s = inverses
    top = top.reshape(top.shape[0], -1, repeats).transpose(1, 0, 2)
    bottom = bottom.reshape(-1, repeats) / s[:, None]
    a = P @ top + q[:, :, None] * bottom[:, None, :]
    b = (q[:, None, :] @ top)[:, 0] / s[:, None] - bottom
    return a.transpose(1, 0, 2).reshape(a.shape[1], -1), b.ravel()


def kernel_decisions(settings, training, Y, folds, gammas, rhos, shares, *, fixed):
    """Yield [share][fold][rho] -> decisions on left-out bags for every kernel width.

    Parameters
    ----------
    settings : Settings
        Everything but the grid.
    training : Training
        All bags.
    Y : ndarray of shape (n_bags, n_outputs)
        Their targets.
    folds : list of Fold
        The splits.
    gammas, rhos, shares : sequences
        The grid.
    fixed : bool
        Whether class weights are the same in all folds.
    """
    X = training.X
    n = X.n_instances
    check_memory(
        16.0 * n * n,
        f"The kernel matrix of {n} instances",
        "Set n_components (for instance 300) to use explicit features.",
    )
    data = X.data.astype(np.float64, copy=False)
    distances = squared_distances(data) if settings.kernel == "rbf" else None
    for gamma in gammas:
        groups = {}  # a named width differs between training sets
        for fold in folds:
            value = _fold_gamma(settings, gamma, X, fold)
            groups.setdefault(value, []).append(fold)
        out = [[None] * len(folds) for _ in shares]
        for value, members in groups.items():
            one = settings.with_kernel(value)
            if distances is not None:
                omega = np.exp(-value * distances)
            else:
                omega = instance_kernel(data, **one.kernel_params)
            part = _one_kernel(
                one, omega, training, Y, members, rhos, shares, fixed=fixed
            )
            for g in range(len(shares)):
                for fold, decisions in zip(members, part[g], strict=True):
                    out[g][fold.number] = decisions
        yield out


def _fold_gamma(settings, gamma, X, fold):
    if settings.kernel == "linear":
        return 1.0
    if not isinstance(gamma, str):
        return float(gamma)
    train = X[fold.train]
    return resolve_gamma(gamma, train.data, np.repeat(fold.weight, train.sizes))


def _one_kernel(settings, omega, training, Y, folds, rhos, shares, *, fixed):
    X = training.X
    work = KernelFolds(
        omega,
        X.offsets,
        settings.aggregation_weight(X.offsets),
        folds,
        rhos,
        relative=settings.rho_scale == "relative",
    )
    out = [None] * len(shares)
    positive = [share for share in shares if share > 0]
    if len(positive) < len(shares):
        alone = sorted(int(f.test[0]) for f in folds if len(f.test) == 1)
        complete = all(len(f.train) == X.n_bags - 1 for f in folds)
        if alone == list(range(X.n_bags)) and complete and fixed:
            plain = work.leave_one_out(Y, training.weight)
        else:
            plain = work.closed_form()
        out = [plain if share == 0 else None for share in shares]
    if positive:
        variance = _fold_variance(settings.core, work, X)
        found = iter(
            work.with_variance(
                variance, positive, tol=settings.tol, max_iter=settings.max_iter
            )
        )
        out = [
            next(found) if share > 0 else one
            for share, one in zip(shares, out, strict=True)
        ]
    return out


def _fold_variance(core, work, X):
    variance = np.zeros_like(work.rows)
    namer = row_namer(X)
    for j, fold in enumerate(work.folds):
        inside = np.flatnonzero(work.rows[:, j] > 0)
        try:
            variance[inside, j] = instance_variance(
                core,
                work.degrees[inside, j],
                work.rows[inside, j],
                lambda row, inside=inside: namer(inside[row]),
            )
        except ValueError as error:
            raise ValueError(f"Fold {fold.number}: {error}") from None
    return variance


def moment_decisions(
    settings, training, targets, folds, gammas, rhos, shares, *, fixed
):
    """Yield [share][fold][rho] -> decisions on left-out bags for every kernel width.

    Parameters
    ----------
    settings : Settings
        Everything but the grid.
    training : Training
        All bags.
    targets : LabelTargets
        How targets follow from the columns.
    folds : list of Fold
        The splits.
    gammas, rhos, shares : sequences
        The grid.
    fixed : bool
        Whether class weights are the same in all folds.
    """
    X = training.X
    for gamma in gammas:
        one = replace(settings, gamma=gamma).resolved(X, training.weight)
        chosen = FeatureMap(one, features_from(one, X))
        check_memory(
            8.0 * X.n_bags * (chosen.features.n_features_out + 1),
            f"The features of {X.n_bags} bags",
            "Set a smaller n_components.",
        )
        sums = chosen.bag_sums(X, one.aggregation_weight(X.offsets))
        needed = any(share > 0 for share in shares)
        moments = _training_moments(chosen, training, folds, needed, fixed)
        yield _fold_decisions(one, moments, targets, sums, folds, rhos, shares)


def _training_moments(chosen, training, folds, needed, fixed):
    """Moments of the training bags: all minus test where that is what they are."""
    ksc = needed and chosen.settings.core == "ksc"
    whole = None
    out = []
    for fold in folds:
        complement = len(fold.train) + len(fold.test) == training.X.n_bags
        if fixed and not ksc and complement:
            if whole is None:
                whole = chosen.moments(training, instance=needed)
            left = chosen.moments(training[fold.test], instance=needed)
            out.append(whole - left)
            continue
        part = Training(
            training.X[fold.train], training.columns[fold.train], fold.weight
        )
        mine = FeatureMap(chosen.settings, chosen.features)
        if ksc:
            mine.total = mine.sum(part.X, part.weight)
        out.append(mine.moments(part, instance=needed))
    return out


def _fold_decisions(settings, moments, targets, sums, folds, rhos, shares):
    out = [[[None] * len(rhos) for _ in folds] for _ in shares]
    for j, (fold, mine) in enumerate(zip(folds, moments, strict=True)):
        right = mine.target.T @ targets.mix(mine.target[:, -1])
        unit = mine.relative_scale() if settings.rho_scale == "relative" else 1.0
        for r, rho in enumerate(rhos):
            system = MomentSystem(mine.bag, mine.instance, rho / unit)
            bound = system.gamma_max() if any(share > 0 for share in shares) else 0.0
            bound = bound if np.isfinite(bound) else 0.0
            for g, share in enumerate(shares):
                theta = system.solve(right, share * bound)
                out[g][j][r] = sums[fold.test] @ theta
    return out
