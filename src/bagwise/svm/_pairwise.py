"""Support vector classifiers of all pairs of classes, in plain arrays."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from bagwise.base.thresholds import sigmoid_threshold
from bagwise.solvers.coordinate_ascent import coordinate_ascent
from bagwise.solvers.smo import smo


class CodedSVC(SVC):
    """`SVC` on labels that are the codes 0, 1, ... of classes, all of them there.

    It skips scikit-learn's checks of the labels, which take as long as a small fit.
    """

    def _validate_targets(self, y):
        self.classes_ = np.arange(int(y.max()) + 1)
        self.class_weight_ = np.ones(len(self.classes_))
        return np.asarray(y, dtype=np.float64, order="C")


def solve_pairs(M, codes, C, weight, *, linear=False, fit_intercept=True, **options):
    """Solve one SVM for each pair of classes.

    Parameters
    ----------
    M : ndarray of shape (n_samples, n_samples) or (n_samples, n_features)
        Kernel matrix, or features of a `linear` kernel.
    codes : ndarray of int, shape (n_samples,)
        Class of each sample.
    C : float
        Weight of the loss.
    weight : ndarray of shape (n_samples,)
        Weight of each sample in it.
    linear, fit_intercept : bool
        Whether `M` holds features, and whether there is an intercept.
    **options
        Of `SVC`, which solves with an intercept; without it only `tol` is used.

    Returns
    -------
    coef : ndarray of shape (n_samples, n_pairs)
        Coefficient of each sample in each decision.
    intercept : ndarray of shape (n_pairs,)
        The constants.
    n_iter : int
        Steps of the solver, over all pairs the largest.
    """
    if fit_intercept:
        kernel = "linear" if linear else "precomputed"
        svc = CodedSVC(C=C, kernel=kernel, **options)
        svc.fit(M, codes, sample_weight=weight)
        return *pair_solution(svc, len(codes)), int(np.max(svc.n_iter_))
    n_classes = codes.max() + 1
    pairs = [(1, 0)] if n_classes == 2 else class_pairs(n_classes)
    coef, steps, tol = np.zeros((len(codes), len(pairs))), [], options["tol"]
    for p, (plus, minus) in enumerate(pairs):
        here = np.flatnonzero((codes == plus) | (codes == minus))
        sign = np.where(codes[here] == plus, 1.0, -1.0)
        cap = C * weight[here]
        if linear:
            found = coordinate_ascent(
                M, here, sign, cap=cap, tol=tol, max_passes=100_000
            )
            beta, n_iter, violation = found.beta, found.n_passes, found.violation
        else:
            # Without an intercept there is no equality constraint on the multipliers.
            beta, _, n_iter, violation = smo(
                M, sign, cap=cap, index=here, bias=np.zeros(len(here)), tol=tol
            )
        if not violation < tol:
            warnings.warn(
                f"the SVM without intercept stopped at a violation of "
                f"{violation:.1e} (tol={tol:g}). Lower C, or scale the kernel.",
                ConvergenceWarning,
                stacklevel=5,
            )
        coef[here, p] = sign * beta
        steps.append(n_iter)
    return coef, np.zeros(len(pairs)), max(steps)


def pair_solution(svc, n_samples):
    """Return coefficients and intercepts of a fitted `SVC`, one column per pair.

    With two classes there is one column, positive for the second class. With more
    there is one for each pair (i, j), i < j, positive for class i, as in scikit-learn.

    Parameters
    ----------
    svc : SVC
        A fitted classifier.
    n_samples : int
        Number of samples it was fitted on.

    Returns
    -------
    coef : ndarray of shape (n_samples, n_pairs)
        Coefficient of each training sample in each decision.
    intercept : ndarray of shape (n_pairs,)
        The constants.
    """
    dual = np.asarray(svc.dual_coef_)
    n_classes = len(svc.classes_)
    coef = np.zeros((n_samples, n_classes * (n_classes - 1) // 2))
    if n_classes == 2:
        coef[svc.support_, 0] = dual[0]
        return coef, np.asarray(svc.intercept_)
    # For a vector of class i, libsvm stores the k - 1 coefficients against the other
    # classes in order: row j - 1 is against class j > i, row j against class j < i.
    ends = np.cumsum(svc.n_support_)
    members = np.split(np.arange(ends[-1]), ends[:-1])
    for p, (i, j) in enumerate(class_pairs(n_classes)):
        coef[svc.support_[members[i]], p] = dual[j - 1, members[i]]
        coef[svc.support_[members[j]], p] = dual[i, members[j]]
    return coef, np.asarray(svc.intercept_)


def pair_cuts(decisions, codes, weight):
    """Return the threshold of each pair, from decisions on the training samples."""
    n_classes = codes.max() + 1
    pairs = [(1, 0)] if n_classes == 2 else class_pairs(n_classes)
    cuts = np.empty(len(pairs))
    for p, (plus, minus) in enumerate(pairs):
        here = (codes == plus) | (codes == minus)
        cuts[p] = sigmoid_threshold(
            decisions[here, p], codes[here] == plus, weight[here]
        )
    return cuts


def class_pairs(n_classes):
    """List the pairs of classes in libsvm's order."""
    return [(i, j) for i in range(n_classes) for j in range(i + 1, n_classes)]


def class_scores(decisions):
    """Return one column per class from the decisions of all pairs.

    The number of pairs a class wins; between equal numbers the summed decisions
    decide, squeezed so that they never amount to a vote. This is scikit-learn's
    ``decision_function_shape="ovr"``.
    """
    n_classes = round((1 + np.sqrt(1 + 8 * decisions.shape[1])) / 2)
    votes = np.zeros((decisions.shape[0], n_classes))
    total = decisions @ pair_totals(n_classes)
    for p, (i, j) in enumerate(class_pairs(n_classes)):
        wins = decisions[:, p] > 0
        votes[wins, i] += 1
        votes[~wins, j] += 1
    return votes + total / (3 * (np.abs(total) + 1))


def pair_totals(n_classes):
    """Return the matrix that adds up the decisions for and against each class."""
    pairs = class_pairs(n_classes)
    out = np.zeros((len(pairs), n_classes))
    for p, (i, j) in enumerate(pairs):
        out[p, i], out[p, j] = 1.0, -1.0
    return out


def objectives(scores, coef, intercept, codes, bound):
    r"""Return primal values and duality gaps of the pairs.

    Parameters
    ----------
    scores : ndarray of shape (n_samples, n_pairs)
        ``K @ coef`` on the training samples.
    coef, intercept : ndarray
        The solution.
    codes : ndarray of shape (n_samples,)
        Class of each sample.
    bound : ndarray of shape (n_samples,)
        Weight of the loss of each sample, C times its weight.
    """
    n_classes = codes.max() + 1
    pairs = [(1, 0)] if n_classes == 2 else class_pairs(n_classes)
    primal, gap = np.empty(len(pairs)), np.empty(len(pairs))
    for p, (plus, minus) in enumerate(pairs):
        here = (codes == plus) | (codes == minus)
        t = np.where(codes[here] == plus, 1.0, -1.0)
        f = scores[here, p]
        norm = float(coef[here, p] @ f)
        hinge = np.maximum(0.0, 1.0 - t * (f + intercept[p]))
        primal[p] = norm / 2 + bound[here] @ hinge
        gap[p] = primal[p] - (np.abs(coef[here, p]).sum() - norm / 2)
    return primal, gap
