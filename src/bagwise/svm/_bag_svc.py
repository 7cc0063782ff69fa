"""Support vector classification of bags through a kernel between bags."""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.utils import check_array, check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, column_or_1d

from bagwise._compat import Interval, StrOptions, _fit_context
from bagwise._sizes import check_memory
from bagwise.bags import Ragged
from bagwise.bags.validation import refuse_masked
from bagwise.base import MulticlassBagClassifier
from bagwise.kernels import bag_kernel
from bagwise.kernels.additive import (
    ADDITIVE_KERNELS,
    additive_features,
    instance_contributions,
)
from bagwise.kernels.basis import fit_basis
from bagwise.kernels.instance import row_blocks
from bagwise.kernels.registry import (
    BAG_KERNELS,
    KERNEL_RESOLVERS,
    fit_bag_kernel,
    refuse_hours,
    weighted_scale,
)
from bagwise.kernels.reuse import reused
from bagwise.svm._pairwise import (
    class_scores,
    objectives,
    pair_totals,
    solve_pairs,
)


def check_kernel(kernel, n_components):
    """Refuse an unknown kernel, and explicit features of one that has none."""
    if callable(kernel):
        return
    known = {*BAG_KERNELS, "precomputed"}
    if kernel not in known:
        listed = ", ".join(repr(name) for name in sorted(known))
        message = f"unknown kernel {kernel!r}; known are {listed} or a "
        raise ValueError(message + "function of two Bags.")
    if n_components not in (None, "auto") and kernel not in ADDITIVE_KERNELS:
        names = " or ".join(f"kernel={name!r}" for name in ADDITIVE_KERNELS)
        raise ValueError(
            f"n_components needs {names}, the kernels with explicit features; got "
            f"kernel={kernel!r}."
        )


def call_kernel(function, X, Y, params):
    """Return the matrix of a user's function, which must have the right shape."""
    K = np.asarray(function(X, Y, **params), dtype=np.float64)
    if K.shape != (X.n_bags, Y.n_bags):
        raise ValueError(
            f"the kernel function returned shape {K.shape} for {X.n_bags} x "
            f"{Y.n_bags} bags."
        )
    return K


def check_square(K, y):
    """Return a kernel matrix of the training bags, and their labels."""
    refuse_masked(K, "X")
    refuse_masked(y, "y")
    K = check_array(K, dtype=np.float64)
    y = column_or_1d(y, warn=True)
    if K.shape != (len(y), len(y)):
        raise ValueError(
            f"a precomputed kernel matrix must be square with one row for each of "
            f"the {len(y)} labels, got shape {K.shape}."
        )
    return K, y


def check_new_rows(K, n_trained):
    """Return a kernel matrix of new bags, with a column for each training bag."""
    refuse_masked(K, "X")
    K = check_array(K, dtype=np.float64)
    if K.shape[1] != n_trained:
        raise ValueError(
            f"X has {K.shape[1]} columns, but the model was fitted on "
            f"{n_trained} bags: a kernel matrix needs one column for "
            "each of them."
        )
    return K


KERNEL_PARAMS = ("kernel", "gamma", "kernel_params")


def candidate_scores(model, candidates, X, y, splits, scoring):
    """Return the mean score of every candidate, or None where nothing is shared.

    The matrix of the training bags is evaluated once for each setting of the kernel;
    folds take its rows and columns. What a kernel learns without labels (its width,
    say) therefore comes from all bags of `X`.

    Parameters
    ----------
    model : BagSVC
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
    probes = [clone(model).set_params(**params) for params in candidates]
    if not all(_has_matrix(probe, X) for probe in probes):
        return None
    groups: dict[str, list[int]] = {}
    for k, probe in enumerate(probes):
        setting = [getattr(probe, name) for name in KERNEL_PARAMS]
        groups.setdefault(repr(setting), []).append(k)
    found = np.empty(len(candidates))
    for mine in groups.values():
        probe = probes[mine[0]]
        K, _ = fit_bag_kernel(X, probe.kernel, probe._given_params())
        on_matrix = clone(model).set_params(
            kernel="precomputed", gamma=None, kernel_params=None
        )
        rest = [
            {n: [v] for n, v in candidates[k].items() if n not in KERNEL_PARAMS}
            for k in mine
        ]
        search = GridSearchCV(on_matrix, rest, scoring=scoring, cv=splits, refit=False)
        found[mine] = search.fit(K, y).cv_results_["mean_test_score"]
    return found


def _has_matrix(model, X):
    """Return whether a named kernel without labels is evaluated exactly."""
    named = isinstance(model.kernel, str) and model.kernel != "precomputed"
    aligned = named and model._given_params().get("p") == "alignment"
    return named and not aligned and model._n_explicit(X) is None


# With more instances, "auto" uses this number of explicit features.
_EXACT_LIMIT, _FEATURES = 60_000, 500


def _adds_up(self):
    """Whether the decision is a sum over instances; used with `available_if`."""
    kernel = getattr(self, "kernel_", self.kernel)
    if isinstance(kernel, str) and kernel in ADDITIVE_KERNELS:
        return True
    known = " and ".join(repr(name) for name in ADDITIVE_KERNELS)
    raise AttributeError(
        f"BagSVC(kernel={kernel!r}) has no scores for single instances: only the "
        f"kernels {known} are sums over instances."
    )


def _basis_and_features(X, rows, kernel, params):
    """Return a Nystroem basis of some instances, and the features of the bags in it."""
    inside, instance = ADDITIVE_KERNELS[kernel](X, params)
    basis = fit_basis(X.data[rows], **instance, method="eigh").without_rows()
    return basis, additive_features(X, basis, inside)


def _features(X, basis, kernel, params):
    inside, _ = ADDITIVE_KERNELS[kernel](X, params)
    return additive_features(X, basis, inside)


class BagSVC(MulticlassBagClassifier):
    r"""Support vector classifier on a kernel between bags.

    With `K` the kernel matrix of the training bags it solves

    .. math::
        \min_{f, b}\; \tfrac12 \|f\|^2
        + C \sum_i c_i \max(0, 1 - y_i (f(B_i) + b)), \qquad
        f(B) = \sum_i \alpha_i K(B_i, B)

    where :math:`C` is `C`, :math:`c_i` is the weight of the bag times that of its class
    (`class_weight`), :math:`\alpha` is `dual_coef_` and :math:`b` is `intercept_`. With
    ``kernel="set"`` it is MI-Kernel, also called NSK [1]_; with "mi_graph" and "graph"
    miGraph and MIGraph [2]_.

    Parameters
    ----------
    kernel : str or callable, default="set"
        A name of ``bagwise.kernels.registry.BAG_KERNELS`` ("set", "statistics",
        "graph", "mi_graph", "emd", "ppmm", "box"), "precomputed" for kernel matrices
        instead of bags, or a function ``K = kernel(X, Y, **kernel_params)`` of two
        `Bags`,
        whose value for two bags must not depend on the other bags.
    C : float, default=10.0
        Weight of the loss. Normalized kernels are at most one: with ``C=1.0`` and few
        bags of one class, most models always predict the other class.
    gamma : float or str, default=None
        Width of the kernel; None is the default of the kernel. The same as
        ``kernel_params={"gamma": gamma}``.
    kernel_params : dict, default=None
        Further parameters of the kernel, such as ``{"kernel": "poly", "power": 2}``.
    n_components : int, None or "auto", default="auto"
        For the kernels "set" and "mi_graph": approximate the instance kernel by this
        many Nystroem features (landmarks sampled from the instances), so that the cost
        is linear in the number of instances. None is exact; "auto" is exact up to
        60,000 instances and 500 features beyond. Another kernel is always exact, and
        "auto" raises an error in advance if it would take hours: "emd" beyond 2,000,000
        pairs of bags (2,000 bags), "graph" and "distribution" beyond 150,000 instances,
        "box" beyond 20,000. None always computes it.
    fit_intercept : bool, default=True
        Whether to fit the intercept :math:`b`. Without it, and with a kernel matrix
        that is dominated by its diagonal, the decision becomes
        :math:`\sum_i y_i K(B_i, B) / K(B_i, B_i)`.
    class_weight : dict or "balanced", default=None
        Weights of the classes.
    pos_label : label, default=None
        The positive class of two; ``classes_[1]`` by default.
    tol : float, default=1e-4
        Tolerance of the solver: libsvm, or SMO without an intercept.
    max_iter : int, default=-1
        Maximum number of steps of the solver, -1 for no limit.
    cache_size : float, default=200
        Cache of the solver in megabytes.
    random_state : int or RandomState, default=None
        Random seed of the landmarks; not used without `n_components`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    support_ : ndarray of shape (n_support,)
        Positions of the support bags among the training bags.
    support_bags_ : Bags
        The support bags, which are sufficient for prediction. Not with "precomputed"
        and `n_components`.
    dual_coef_ : ndarray of shape (n_support, n_pairs)
        Signed coefficients of the support bags: one column for two classes, else one
        for each pair of classes.
    coef_ : ndarray of shape (rank, n_pairs)
        Only with `n_components`: the weights of the explicit features.
    intercept_ : ndarray of shape (n_pairs,)
        The intercepts.
    kernel_params_ : dict
        The parameters of the kernel with widths as numbers.
    basis_ : KernelBasis
        Only with `n_components`: the feature map of the instances.
    objective_ : float or ndarray of shape (n_pairs,)
        The value of the minimized function.
    duality_gap_ : float or ndarray of shape (n_pairs,)
        Bound on its distance from the optimum (for positive semi-definite kernels).
    n_iter_ : int
        Steps of the solver, over all pairs the largest.

    See Also
    --------
    bagwise.kernels.bag_kernel : The kernels as functions.
    bagwise.svm.MISVM : When single instances decide.

    Notes
    -----
    Differs from [1]_ and [2]_: nothing. More than two classes are
    trained in pairs, and `decision_function` has a column per class as in
    ``SVC(decision_function_shape="ovr")``.

    The set kernel and miGraph are sums over instances, and so is the decision:
    `instance_scores` returns the contribution of each instance. Over a bag the scores
    sum to the decision minus the intercept; with more than two classes, column c sums
    to the decisions of all pairs for and against class c, without their intercepts. A
    score is therefore relative to the bag's size, and ranks instances inside a bag.

    Cost: the kernel matrix (most kernels compare all pairs of instances, which is
    ``n_instances ** 2``), ``n_bags ** 2`` numbers of memory and libsvm's
    ``n_bags ** 2`` to ``n_bags ** 3`` steps. With `n_components` r,
    ``O(n_instances * r * (n_features + r))`` and ``O(n_bags * r)`` memory instead of
    the matrix. A matrix beyond the memory budget is refused before it is allocated.

    References
    ----------
    .. [1] Gärtner, T., Flach, P. A., Kowalczyk, A. and Smola, A. J., "Multi-Instance
       Kernels", International Conference on Machine Learning, 2002.
    .. [2] Zhou, Z.-H., Sun, Y.-Y. and Li, Y.-F., "Multi-Instance Learning by Treating
       Instances As Non-I.I.D. Samples", International Conference on Machine Learning,
       2009. :doi:`10.1145/1553374.1553534`

    Examples
    --------
    >>> from bagwise.svm import BagSVC
    >>> X = [[[0.0], [0.2]], [[0.1]], [[2.0], [0.1]], [[2.2]]]
    >>> model = BagSVC(gamma=1.0, C=10.0).fit(X, [0, 0, 1, 1])
    >>> model.predict([[[0.0], [2.1]], [[-0.1]]])
    array([1, 0])
    """

    _parameter_constraints: dict = {
        "kernel": [str, callable],
        "C": [Interval(Real, 0, None, closed="neither")],
        "gamma": [Interval(Real, 0, None, closed="neither"), str, None],
        "kernel_params": [dict, None],
        "n_components": [
            Interval(Integral, 1, None, closed="left"),
            StrOptions({"auto"}),
            None,
        ],
        "fit_intercept": ["boolean"],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, -1, None, closed="left")],
        "cache_size": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        kernel="set",
        C=10.0,
        *,
        gamma=None,
        kernel_params=None,
        n_components="auto",
        fit_intercept=True,
        class_weight=None,
        pos_label=None,
        tol=1e-4,
        max_iter=-1,
        cache_size=200,
        random_state=None,
    ):
        self.kernel = kernel
        self.C = C
        self.gamma = gamma
        self.kernel_params = kernel_params
        self.n_components = n_components
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.pos_label = pos_label
        self.tol = tol
        self.max_iter = max_iter
        self.cache_size = cache_size
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        pairwise = isinstance(self.kernel, str) and self.kernel == "precomputed"
        tags.input_tags.pairwise = pairwise
        tags.input_tags.two_d_array = pairwise
        tags.input_tags.three_d_array = not pairwise
        dense_only = pairwise or (
            isinstance(self.kernel, str) and self.kernel in ("ppmm", "box")
        )
        tags.input_tags.sparse = not dense_only
        if pairwise or callable(self.kernel) or self.kernel == "box":
            tags.input_tags.scale_sensitive = "no"
        normalized = (self.kernel_params or {}).get("normalization", "feature")
        if isinstance(self.kernel, str) and (
            self.kernel == "statistics" or (self.kernel == "set" and normalized)
        ):
            tags.input_tags.duplicate_invariant = True
        if isinstance(self.kernel, str) and not pairwise:
            tags.input_tags.respects_standard_assumption = False
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None):
        """Fit on bags.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The training bags; their kernel matrix with ``kernel="precomputed"``.
        y : array-like of shape (n_bags,)
            One label per bag.
        sample_weight : array-like of shape (n_bags,), default=None
            Weight of each bag in the loss; 1 by default.

        Returns
        -------
        self
        """
        check_kernel(self.kernel, self.n_components)
        for name in ("basis_", "coef_", "support_bags_", "kernel_params_"):
            self.__dict__.pop(name, None)  # set by an earlier fit with other parameters
        self.kernel_ = self.kernel
        X, y = self._check_input(X, y, reset=True)
        codes = self._encode_labels(y)
        weight = self._bag_weight(codes, sample_weight)
        used = self._used(codes, weight)
        if len(used) < len(codes):
            codes, weight = codes[used], weight[used]
            X = X[np.ix_(used, used)] if self._pairwise else X[used]
        n_features = None if self._pairwise else self._n_explicit(X)
        if n_features is not None and not self._is_linear():
            self._fit_features(X, codes, weight, n_features)
        else:
            self._fit_kernel(X, codes, weight)
        self.support_ = used[self.support_]
        return self

    def _fit_kernel(self, X, codes, weight):
        K = self._training_matrix(X, codes, weight)
        coef, support = self._solve(K, codes, weight, lambda a: K @ a)
        self.support_ = support
        self.dual_coef_ = coef[support]
        if not self._pairwise:
            self.support_bags_ = X[support]

    def _n_explicit(self, X):
        """Return the number of explicit features, None for the exact kernel."""
        if self.n_components != "auto":
            return self.n_components
        if callable(self.kernel):
            return None
        if self.kernel in ADDITIVE_KERNELS:
            return _FEATURES if X.n_instances > _EXACT_LIMIT else None
        refuse_hours(X, self.kernel)
        return None

    def _fit_features(self, X, codes, weight, n_features):
        params = weighted_scale(X, self.kernel, self._given_params(), weight)
        params = KERNEL_RESOLVERS[self.kernel](X, **params)
        n_rows = min(n_features, X.n_instances)
        check_memory(
            8.0 * n_rows * (n_rows + X.n_bags),
            f"{n_rows} Nystroem features of {X.n_bags} bags",
            "Lower n_components.",
        )
        rng = check_random_state(self.random_state)
        rows = np.sort(rng.permutation(X.n_instances)[:n_rows])
        self.kernel_params_ = params
        self.basis_, F = reused(_basis_and_features, X, rows, self.kernel, params)
        coef, support = self._solve(
            F, codes, weight, lambda a: F @ (F.T @ a), linear=True
        )
        self.support_ = support
        self.dual_coef_ = coef[support]
        self.coef_ = F.T @ coef

    def _solve(self, M, codes, weight, product, *, linear=False):
        """Solve all pairs; `product` multiplies the kernel matrix with coefficients."""
        names = ("fit_intercept", "tol", "max_iter", "cache_size")
        options = {"linear": linear} | {name: getattr(self, name) for name in names}
        solved = solve_pairs(M, codes, self.C, weight, **options)
        coef, self.intercept_, self.n_iter_ = solved
        primal, gap = objectives(
            product(coef), coef, self.intercept_, codes, self.C * weight
        )
        if len(self.classes_) == 2:
            primal, gap = float(primal[0]), float(gap[0])
        self.objective_, self.duality_gap_ = primal, gap
        return coef, np.flatnonzero(coef.any(axis=1))

    def _score_candidates(self, candidates, X, y, splits, scoring):
        return candidate_scores(self, candidates, X, y, splits, scoring)

    def _training_matrix(self, X, codes, weight):
        if self._pairwise:
            return X
        n = X.n_bags
        check_memory(
            8.0 * n * n,
            f"The kernel matrix of {n} bags",
            'Use explicit features: BagSVC(kernel="set", n_components=500).',
        )
        params = self._given_params()
        if callable(self.kernel):
            self.kernel_params_ = params
            return call_kernel(self.kernel, X, X, params)
        found = fit_bag_kernel(X, self.kernel, params, weight, codes)
        K, self.kernel_params_ = found
        return K

    def decision_function(self, X):
        """Return the score of each bag.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags; with ``kernel="precomputed"`` the kernel matrix of shape
            (n_bags, n_training_bags).

        Returns
        -------
        ndarray of shape (n_bags,) or (n_bags, n_classes)
            Positive for `classes_[1]` with two classes, else one column per class.
        """
        check_is_fitted(self)
        return self._outside(self._decide(self._check_input(X)))

    def _decide(self, X):
        scores = self._pair_decisions(X)
        return scores[:, 0] if len(self.classes_) == 2 else class_scores(scores)

    def _pair_decisions(self, X):
        if isinstance(self.kernel_, str) and self.kernel_ == "precomputed":
            return X[:, self.support_] @ self.dual_coef_ + self.intercept_
        if hasattr(self, "basis_"):
            params = self.kernel_params_
            F = reused(_features, X, self.basis_, self.kernel_, params)
            return F @ self.coef_ + self.intercept_
        if callable(self.kernel_):
            K = call_kernel(self.kernel_, X, self.support_bags_, self.kernel_params_)
            return K @ self.dual_coef_ + self.intercept_
        out = np.empty((X.n_bags, len(self.intercept_)))
        for part in row_blocks(X.n_bags, 8.0 * 2 * self.support_bags_.n_bags):
            K = bag_kernel(
                X[part], self.support_bags_, self.kernel_, **self.kernel_params_
            )
            out[part] = K @ self.dual_coef_
        return out + self.intercept_

    @available_if(_adds_up)
    def instance_scores(self, X):
        """Return the contribution of each instance to the decision of its bag.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        Ragged
            One score per instance, which over a bag sum to the decision minus the
            intercept; or one row with a column per class, see the notes above.
        """
        check_is_fitted(self)
        X = self._check_input(X)
        return Ragged(self._score_instances(X), X.offsets)

    def _score_instances(self, X):
        if hasattr(self, "basis_"):
            inside, _ = ADDITIVE_KERNELS[self.kernel_](X, self.kernel_params_)
            values = np.empty((X.n_instances, self.coef_.shape[1]))
            width = 8.0 * 4 * (self.basis_.rank + X.n_features)
            for part in row_blocks(X.n_instances, width):
                values[part] = self.basis_.transform(X.data[part]) @ self.coef_
            values *= inside[:, None]
        else:
            values = instance_contributions(
                X,
                self.support_bags_,
                self.dual_coef_,
                self.kernel_,
                self.kernel_params_,
            )
        if len(self.classes_) == 2:
            return values[:, 0]
        return values @ pair_totals(len(self.classes_))

    @property
    def _pairwise(self):
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def _given_params(self):
        params = dict(self.kernel_params or {})
        if self.gamma is not None:
            if "gamma" in params:
                raise ValueError("gamma is given twice, also in kernel_params.")
            params["gamma"] = self.gamma
        return params

    def _is_linear(self):
        """Whether the exact matrix is as cheap as features: sums of bags do."""
        params = self._given_params()
        return params.get("kernel") == "linear" and params.get("power", 1) == 1

    def _check_input(self, X, y=None, *, reset=False):
        kernel = self.kernel if reset else self.kernel_
        if not (isinstance(kernel, str) and kernel == "precomputed"):
            return self._check_bags(X, y, reset=reset)
        if not reset:
            return check_new_rows(X, self.n_features_in_)
        K, y = check_square(X, y)
        self.n_features_in_ = K.shape[1]
        return K, y
