"""Kernel spectral clustering, hard and soft, with out-of-sample extension."""

from numbers import Integral, Real

import numpy as np
from scipy.linalg import eigh
from scipy.sparse.linalg import LinearOperator, eigsh
from sklearn.base import ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from bagwise._compat import Interval, StrOptions, _fit_context
from bagwise._sizes import check_memory
from bagwise.base.estimator import DocumentedEstimator
from bagwise.kernels.basis import fit_basis
from bagwise.kernels.instance import (
    instance_kernel,
    kernel_params,
    resolve_gamma,
    row_blocks,
)

_DENSE_BELOW = 200


class KernelSpectralClustering(TransformerMixin, ClusterMixin, DocumentedEstimator):
    r"""Cluster rows by the signs of weighted kernel principal components.

    With the degrees :math:`D = \mathrm{diag}(\Omega 1)` and the weighted centering
    :math:`M = I - 1 1' D^{-1} / (1' D^{-1} 1)`, the scores of a row ([1]_) are

    .. math::
        e^{(l)}(x) = \sum_i \alpha_i^{(l)} k(x_i, x) + b_l, \qquad
        D^{-1} M \Omega \alpha^{(l)} = \lambda_l \alpha^{(l)},
        \quad l = 1, \dots, k - 1

    where k is `n_clusters` and the kernel is `kernel` with width `gamma`. The k most
    frequent sign patterns of the training scores are the clusters; a row goes to the
    pattern with the fewest other signs. Soft memberships ([2]_) are proportional to
    the reciprocal distance of the scores to each cluster's mean score: one minus the
    cosine, or the absolute difference for two clusters, where scores are numbers.

    Parameters
    ----------
    n_clusters : int, default=2
        Number of clusters.
    kernel : {"rbf", "linear", "poly"}, default="rbf"
        Kernel; all degrees must be positive.
    gamma : {"scale", "auto", "median"} or float, default="scale"
        Width of the kernel.
    degree, coef0 : float, default=3 and 1.0
        Parameters of the polynomial kernel.
    n_components : int, default=None
        Number of Nystroem landmarks that replace the exact kernel.
    random_state : int, RandomState or None, default=None
        Random seed of the landmarks.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each training row.
    eigenvalues_ : ndarray of shape (n_clusters - 1,)
        The :math:`\lambda_l`, between 0 and 1 for kernels with positive values.
    codebook_ : ndarray of shape (n_found, n_clusters - 1)
        Sign patterns of the clusters. There can be fewer than `n_clusters`.
    prototypes_ : ndarray of shape (n_found, n_clusters - 1)
        Mean scores of the clusters.
    dual_coef_ : ndarray of shape (n_clusters - 1, n_samples)
        The :math:`\alpha`; exact kernel only.
    intercept_ : ndarray of shape (n_clusters - 1,)
        The b.

    See Also
    --------
    bagwise.embedding.SoftKSCEmbedding : Mean memberships of bags.

    Notes
    -----
    Differs from [1]_: signs of eigenvectors are fixed, so that a fit can be repeated;
    differs from [2]_: absolute differences for two clusters, because the cosine of
    two numbers is only a sign. With three or more clusters the sign patterns need a
    kernel that is narrow compared with the gaps (second eigenvalue near one). A wider
    kernel, such as often with "scale", splits clusters; soft memberships are affected
    far less.
    Cost: n**2 memory and time per Lanczos step; with `n_components` n m instead.

    References
    ----------
    .. [1] Alzate, C. and Suykens, J. A. K., "Multiway spectral clustering with
       out-of-sample extensions through weighted kernel PCA", IEEE Transactions on
       Pattern Analysis and Machine Intelligence 32(2), 2010.
    .. [2] Langone, R., Mall, R. and Suykens, J. A. K., "Soft kernel spectral
       clustering", IJCNN, 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.least_squares import KernelSpectralClustering
    >>> X = np.array([[0.0], [0.1], [0.2], [5.0], [5.1]])
    >>> labels = KernelSpectralClustering(2).fit_predict(X)
    >>> bool(labels[0] == labels[2] != labels[3] == labels[4])
    True
    """

    _parameter_constraints: dict = {
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "kernel": [StrOptions({"rbf", "linear", "poly"})],
        "gamma": [
            StrOptions({"scale", "auto", "median"}),
            Interval(Real, 0, None, closed="neither"),
        ],
        "degree": [Interval(Real, 1, None, closed="left")],
        "coef0": [Interval(Real, 0, None, closed="left")],
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_clusters=2,
        *,
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=1.0,
        n_components=None,
        random_state=None,
    ):
        self.n_clusters = n_clusters
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.n_components = n_components
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Find the clusters.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
            Rows.
        y : None
            Ignored.

        Returns
        -------
        self
        """
        X = validate_data(
            self, X, accept_sparse="csr", dtype=np.float64, ensure_min_samples=2
        )
        if X.shape[0] < self.n_clusters:
            raise ValueError(
                f"n_samples={X.shape[0]} should be >= n_clusters={self.n_clusters}."
            )
        linear = self.kernel == "linear"
        self.kernel_gamma_ = 1.0 if linear else resolve_gamma(self.gamma, X)
        self.kernel_params_ = kernel_params(self, self.kernel_gamma_)
        product = self._prepare(X)
        degrees = product(np.ones((X.shape[0], 1)))[:, 0]
        if self.kernel == "rbf":  # an approximation may fall below the minimum, 1
            degrees = np.maximum(degrees, 1.0)
        bad = np.flatnonzero(~(degrees > 0))
        if bad.size:
            raise ValueError(
                f"Kernel spectral clustering needs positive degrees, but row {bad[0]} "
                f"has {degrees[bad[0]]:.3g}. Use kernel='rbf'."
            )
        alpha = self._eigenvectors(product, 1.0 / degrees)
        scores = product(alpha)
        inverse = 1.0 / degrees
        self.intercept_ = -(inverse @ scores) / inverse.sum()
        scores += self.intercept_
        if self.basis_ is None:
            self.dual_coef_ = alpha.T
        else:
            self.coef_ = (self._training_features.T @ alpha).T
            del self._training_features
        self._make_codebook(scores)
        return self

    def _prepare(self, X):
        """Return the product with the training kernel, exact or approximate."""
        n = X.shape[0]
        if self.n_components is not None and self.n_components < n:
            basis = fit_basis(
                X,
                method="nystroem",
                n_components=self.n_components,
                random_state=self.random_state,
                **self.kernel_params_,
            )
            Z = basis.Z
            self.basis_, self.X_fit_ = basis.without_rows(), None
            self._training_features = Z
            return lambda values: Z @ (Z.T @ values)
        check_memory(8.0 * n * n, f"The kernel matrix of {n} rows", "Set n_components.")
        self.basis_, self.X_fit_ = None, X
        omega = instance_kernel(X, **self.kernel_params_)
        return lambda values: omega @ values

    def _eigenvectors(self, product, inverse):
        """Leading alpha of D^-1 M Omega, through the symmetric form."""
        n, k = inverse.shape[0], max(1, self.n_clusters - 1)
        root, total = np.sqrt(inverse)[:, None], inverse.sum()

        def symmetric(u):
            a = root * u.reshape(n, -1)
            a = a - inverse[:, None] * (a.sum(axis=0) / total)  # M' a
            a = product(a)
            a = a - (inverse @ a) / total  # M a
            return root * a

        if n <= max(_DENSE_BELOW, k + 1):
            matrix = symmetric(np.eye(n))
            values, vectors = eigh(
                (matrix + matrix.T) / 2, subset_by_index=[n - k, n - 1]
            )
        else:
            start = np.random.default_rng(0).standard_normal(n)
            operator = LinearOperator((n, n), matvec=symmetric, dtype=np.float64)
            values, vectors = eigsh(operator, k=k, which="LA", v0=start)
        order = np.argsort(values)[::-1]
        self.eigenvalues_ = values[order]
        alpha = root * vectors[:, order]
        top = np.abs(alpha).argmax(axis=0)
        return alpha * np.sign(alpha[top, np.arange(k)])

    def _make_codebook(self, scores):
        patterns, position, counts = np.unique(
            scores > 0, axis=0, return_inverse=True, return_counts=True
        )
        kept = np.argsort(-counts, kind="stable")[: self.n_clusters]
        self.codebook_ = np.where(patterns[kept], 1, -1)
        self.labels_ = self._decode(scores)
        # Each cluster contains the rows of its own pattern, so that its mean exists.
        self.prototypes_ = np.array(
            [scores[self.labels_ == q].mean(axis=0) for q in range(len(kept))]
        )

    def _decode(self, scores):
        signs = np.where(scores > 0, 1, -1)
        return (signs @ self.codebook_.T).argmax(axis=1)

    def transform(self, X):
        """Return the scores of rows.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_clusters - 1)
            The scores e.
        """
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        if self.basis_ is not None:
            return self.basis_.transform(X) @ self.coef_.T + self.intercept_
        out = np.empty((X.shape[0], len(self.intercept_)))
        for block in row_blocks(X.shape[0], 8.0 * self.X_fit_.shape[0]):
            K = instance_kernel(X[block], self.X_fit_, **self.kernel_params_)
            out[block] = K @ self.dual_coef_.T + self.intercept_
        return out

    @property
    def _n_features_out(self):
        return len(self.intercept_)

    def get_feature_names_out(self, input_features=None):
        """Return names of the score columns.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        ndarray of str
            "kernelspectralclustering0", and so on.
        """
        check_is_fitted(self)
        names = [f"kernelspectralclustering{i}" for i in range(len(self.intercept_))]
        return np.asarray(names, dtype=object)

    def predict(self, X):
        """Return the cluster of rows, by their signs.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Cluster numbers.
        """
        return self._decode(self.transform(X))

    def memberships(self, X):
        """Return soft memberships of rows.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_found)
            Rows sum to one.
        """
        scores = self.transform(X)
        if self.prototypes_.shape[1] == 1:
            distance = np.abs(scores - self.prototypes_.T)
        else:
            distance = 1.0 - _directions(scores) @ _directions(self.prototypes_).T
        closeness = 1.0 / np.maximum(distance, 1e-12)
        return closeness / closeness.sum(axis=1, keepdims=True)


def _directions(rows):
    norm = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(norm > 0, norm, 1.0)
