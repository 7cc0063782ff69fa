r"""Optimal margin distribution machine for fixed rows: loss, operators, Newton.

A *row* is a signed feature vector :math:`\Psi_s`; its margin is
:math:`m_s = \langle w, \Psi_s\rangle`. Everything here sees the rows only through
an operator with two methods, ``matvec`` (margins of the dual vector) and ``factor``
(a solver for the kernel block of some rows plus a diagonal), so that one Newton
method serves kernels, plain features and mixtures of key-instance assignments.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg.lapack import dgetrf, dgetrs, dpotrf, dpotrs
from scipy.sparse.linalg import LinearOperator, cg

# If both the primal and the dual system are larger, a factorization costs more than
# conjugate gradients with the two matrix-vector products.
MAX_FACTOR = 6000


class OdmLoss:
    r"""Weighted margin distribution loss and its conjugate.

    .. math::
        \ell(m) = \frac{(1 - \theta - m)_+^2 + \nu (m - 1 - \theta)_+^2}{(1-\theta)^2}

    summed over rows with weights :math:`C_s`. With ``nu=0`` it is the squared hinge.

    Parameters
    ----------
    weight : ndarray of shape (n_rows,)
        Row weights :math:`C_s`, all positive.
    theta, nu : float
        Half width of the zone without loss, and weight of the upper side.
    """

    def __init__(self, weight, theta, nu):
        self.weight = np.asarray(weight, dtype=np.float64)
        self.theta = float(theta)
        self.nu = float(nu)
        self.low = 1.0 - self.theta
        self.high = 1.0 + self.theta
        self.slope = 2.0 * self.weight / self.low**2  # second derivative, lower side

    def subset(self, rows):
        """Loss of some of the rows."""
        return OdmLoss(self.weight[rows], self.theta, self.nu)

    def value(self, margins):
        """Sum of the weighted losses."""
        below = np.maximum(self.low - margins, 0.0)
        above = np.maximum(margins - self.high, 0.0)
        return 0.5 * (self.slope @ (below * below + self.nu * (above * above)))

    def rowwise(self, margins):
        """Unweighted loss of each margin (any shape)."""
        below = np.maximum(self.low - margins, 0.0)
        above = np.maximum(margins - self.high, 0.0)
        return (below * below + self.nu * (above * above)) / self.low**2

    def respond(self, margins):
        """Return minus the derivative: the dual vector that the margins call for."""
        below = np.maximum(self.low - margins, 0.0)
        above = np.maximum(margins - self.high, 0.0)
        return self.slope * (below - self.nu * above)

    def partition(self, margins):
        """Side of each row: 1 below the zone, -1 above it (if `nu` > 0), else 0."""
        side = (margins < self.low).astype(np.int8)
        if self.nu > 0:
            side -= margins > self.high
        return side

    def signs(self, delta):
        """Side of each row by the sign that a dual vector has at its optimum."""
        side = np.sign(delta).astype(np.int8)
        return side if self.nu > 0 else np.maximum(side, 0)

    def ridge(self, side):
        """Inverse curvature of the rows on their `side` (1 or -1)."""
        return np.where(side > 0, 1.0, 1.0 / self.nu if self.nu else 1.0) / self.slope

    def target(self, side):
        """Edge of the zone next to the rows on their `side`."""
        return np.where(side > 0, self.low, self.high)

    def conjugate(self, delta):
        """Concave part of the dual objective that does not involve the kernel."""
        up, down = np.maximum(delta, 0.0), np.maximum(-delta, 0.0)
        value = self.low * up.sum() - self.high * down.sum()
        value -= 0.5 * (up @ (up / self.slope))
        if down.any():
            if self.nu == 0:
                return -np.inf
            value -= 0.5 * (down @ (down / (self.nu * self.slope)))
        return value


class CholeskyFactor:
    """Factor of a symmetric positive definite matrix, which is overwritten.

    Only the diagonal and what is above it is read.
    """

    def __init__(self, matrix):
        # Call LAPACK directly: many small systems are solved in one fit. The transpose
        # of a C-ordered symmetric matrix has LAPACK's order: no copy.
        self.lower, info = dpotrf(matrix.T, lower=1, overwrite_a=1, clean=0)
        if info != 0:
            raise ValueError(
                "the kernel matrix is not positive definite in double precision: "
                "standardize the features (rows far from the origin lose their "
                "digits), use another kernel, or smaller lambda parameters."
            )

    def solve(self, rhs):
        """Solve for one or several right-hand sides."""
        return dpotrs(self.lower, rhs, lower=1)[0]


class PrimalFactor:
    r"""Solver for :math:`(\Phi\Phi' + R) x = b` through the columns of `phi`.

    Uses :math:`x = R^{-1}(b - \Phi (I + \Phi'R^{-1}\Phi)^{-1}\Phi'R^{-1}b)`.
    """

    def __init__(self, phi, ridge):
        self.phi = phi
        self.ridge = ridge
        if sparse.issparse(phi):
            gram = (phi.T @ scaled_rows(phi, 1.0 / ridge)).toarray()
        else:
            gram = phi.T @ scaled_rows(phi, 1.0 / ridge)
        gram.flat[:: gram.shape[0] + 1] += 1.0
        self.inner = CholeskyFactor(gram)

    def solve(self, rhs):
        """Solve for one or several right-hand sides."""
        ridge = self.ridge if rhs.ndim == 1 else self.ridge[:, None]
        scaled = rhs / ridge
        return scaled - (self.phi @ self.inner.solve(self.phi.T @ scaled)) / ridge


class IterativeFactor:
    """Conjugate gradients on a matrix-vector product plus a diagonal."""

    def __init__(self, product, ridge, diagonal):
        n = len(ridge)
        self.system = LinearOperator(
            (n, n), matvec=lambda x: product(x.ravel()) + ridge * x.ravel()
        )
        scale = 1.0 / (diagonal + ridge)
        self.precondition = LinearOperator((n, n), matvec=lambda x: scale * x.ravel())

    def solve(self, rhs):
        """Solve for one or several right-hand sides, one after the other."""
        if rhs.ndim == 2:
            return np.column_stack([self.solve(column) for column in rhs.T])
        x, info = cg(self.system, rhs, rtol=1e-10, maxiter=2000, M=self.precondition)
        if info != 0:
            raise ValueError(
                "conjugate gradients did not converge on the Newton system: "
                "standardize the features or use smaller lambda parameters"
            )
        return x


def block_of(matrix, rows, columns):
    """Some rows and columns of a matrix.

    Whole rows first: that is copied in lines, and twice as fast as entry by entry.
    """
    return matrix.take(rows, axis=0).take(columns, axis=1)


class KernelRows:
    """Rows given by their signed kernel matrix ``sign_s sign_t k(x_s, x_t)``."""

    def __init__(self, kernel, sign):
        self.kernel = kernel
        self.sign = sign

    def matvec(self, delta):
        """Margins of the dual vector."""
        return self.sign * (self.kernel @ (self.sign * delta))

    def factor(self, rows, ridge):
        """Solver for the kernel block of `rows` plus ``diag(ridge)``."""
        sign = self.sign[rows]
        block = block_of(self.kernel, rows, rows)
        block *= sign
        block *= sign[:, None]
        block.flat[:: len(rows) + 1] += ridge
        return CholeskyFactor(block)


class FeatureRows:
    """Rows given by their signed features, dense or CSR."""

    def __init__(self, phi):
        self.phi = phi

    def matvec(self, delta):
        """Margins of the dual vector."""
        return self.phi @ (self.phi.T @ delta)

    def factor(self, rows, ridge):
        """Solver for the block of `rows`: primal, dual or iterative by size."""
        phi = self.phi if len(rows) == self.phi.shape[0] else self.phi[rows]
        n, d = phi.shape
        if min(n, d) > MAX_FACTOR:
            diagonal = row_norms(phi)
            return IterativeFactor(lambda x: phi @ (phi.T @ x), ridge, diagonal)
        if d <= n:
            return PrimalFactor(phi, ridge)
        block = phi @ phi.T
        block = block.toarray() if sparse.issparse(block) else block
        block.flat[:: n + 1] += ridge
        return CholeskyFactor(block)


def row_norms(phi):
    """Squared norm of each row, dense or CSR."""
    if sparse.issparse(phi):
        return np.asarray(phi.multiply(phi).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", phi, phi)


def scaled_rows(rows, factor):
    """Rows times a factor each, dense or CSR."""
    if sparse.issparse(rows):
        return sparse.csr_array(sparse.diags_array(factor) @ rows)
    return rows * factor[:, None]


def with_constant(rows, bias):
    """Append the constant feature of a regularized intercept."""
    if bias == 0:
        return rows
    column = np.full((rows.shape[0], 1), np.sqrt(bias))
    if sparse.issparse(rows):
        return sparse.hstack([rows, sparse.csr_array(column)], format="csr")
    return np.hstack([rows, column])


class OdmResult(NamedTuple):
    """Optimum of the fixed-rows problem."""

    delta: np.ndarray
    margins: np.ndarray
    objective: float
    gap: float
    n_iter: int
    converged: bool
    rows: np.ndarray
    factor: object


def exact_step(loss, margins, change, slope, curvature):
    """Minimize the convex piecewise quadratic objective along a direction.

    `slope` and `curvature` belong to the regularizer. The derivative along the line
    is increasing and piecewise linear: Newton steps inside a shrinking bracket.
    """
    low, high, step = 0.0, np.inf, 1.0
    for _ in range(60):
        at = margins + step * change
        side = loss.partition(at)
        derivative = slope + step * curvature - loss.respond(at) @ change
        if derivative > 0:
            high = step
        else:
            low = step
        hinge = np.where(side > 0, 1.0, np.where(side < 0, loss.nu, 0.0))
        second = curvature + (loss.slope * hinge) @ (change * change)
        if second <= 0:
            return step
        proposal = step - derivative / second
        if abs(proposal - step) <= 1e-12 * max(1.0, step):
            return proposal
        if not low < proposal < high:
            proposal = 0.5 * (low + high) if np.isfinite(high) else 2.0 * step
        step = proposal
    return step


def solve_odm(
    rows, loss, delta=None, margins=None, *, tol=1e-12, max_iter=100, limit=np.inf
):
    r"""Minimize :math:`\frac12\|w\|^2 + \sum_s C_s \ell(\langle w,\Psi_s\rangle)`.

    Semismooth Newton on the dual vector :math:`\delta`, with
    :math:`w = \sum_s\delta_s\Psi_s`: on the rows with loss, the next point solves
    :math:`(K_{SS} + R_S)\delta_S = t_S`. When the new margins select the same rows
    the point is optimal, which happens after finitely many steps; otherwise an exact
    line search keeps the objective falling.

    Parameters
    ----------
    rows : KernelRows, FeatureRows or a mixture
        Operator over the rows.
    loss : OdmLoss
        Weighted loss.
    delta : ndarray of shape (n_rows,), optional
        Start, zero by default.
    margins : ndarray of shape (n_rows,), optional
        Margins of the start. Without them, `delta` is the answer to a similar problem:
        only its signs are used, as a guess of the rows with loss.
    tol : float
        Relative duality gap accepted when the selection keeps changing.
    max_iter : int
        Maximum number of Newton steps.
    limit : float
        An optimum above this value is irrelevant.

    Returns
    -------
    OdmResult
        None as soon as the dual says that the optimum is above `limit`.
    """
    n = len(loss.weight)
    delta = np.zeros(n) if delta is None else delta
    # With other rows, the margins of an earlier vector may select nearly all of them,
    # while its signs still indicate which rows have a loss.
    guessed = margins is None and bool(delta.any())
    if guessed:
        side, delta = loss.signs(delta), np.zeros(n)
    margins = np.zeros(n) if margins is None else margins
    factor, active, n_iter = None, np.zeros(0, dtype=np.intp), 0
    while True:
        if not guessed:
            side = loss.partition(margins)
        objective, gap = _objective_and_gap(loss, delta, margins)
        if objective - gap > limit:
            return None
        converged = gap <= tol * max(1.0, abs(objective))
        # A warm start may be optimal already. One step is still needed, since callers
        # use its factor.
        if (converged and n_iter) or n_iter == max_iter:
            break
        n_iter += 1
        active = np.flatnonzero(side)
        proposal, factor = np.zeros(n), None
        if active.size:
            factor = rows.factor(active, loss.ridge(side)[active])
            proposal[active] = factor.solve(loss.target(side)[active])
        reached = rows.matvec(proposal)
        if np.array_equal(loss.partition(reached), side):
            if loss.nu == 0:
                proposal = np.maximum(proposal, 0.0)  # clip rounding errors
            delta, margins, converged = proposal, reached, True
            objective, gap = _objective_and_gap(loss, delta, margins)
            break
        direction, change = proposal - delta, reached - margins
        step = 1.0
        if not guessed:  # along a Newton direction the objective decreases
            step = exact_step(
                loss, margins, change, direction @ margins, direction @ change
            )
        guessed = False
        delta, margins = delta + step * direction, margins + step * change
    if objective - gap > limit:
        return None
    return OdmResult(
        delta, margins, objective, max(gap, 0.0), n_iter, converged, active, factor
    )


def _objective_and_gap(loss, delta, margins):
    """Primal objective and its distance to the dual one at the same vector."""
    norm = delta @ margins
    objective = 0.5 * norm + loss.value(margins)
    return objective, objective - (loss.conjugate(delta) - 0.5 * norm)


class BorderedFactor:
    r"""Solver for a block whose rows differ a little from those of a known factor.

    Let :math:`A` be the factored block. The unknowns of rows that leave it are held at
    zero by multipliers :math:`\mu` (:math:`E` has a unit column for each of them), rows
    that join have unknowns :math:`y`, columns :math:`B` and a block :math:`C`:

    .. math::
        \begin{pmatrix} A & E & B \\ E' & 0 & 0 \\ B' & 0 & C \end{pmatrix}
        \begin{pmatrix} x \\ \mu \\ y \end{pmatrix} =
        \begin{pmatrix} b \\ 0 \\ c \end{pmatrix}.

    Eliminating :math:`x` leaves a system as large as the number of changes. It is
    regular whenever the block of all rows, old and new, is positive definite.

    Parameters
    ----------
    factor : object with a method solve
        Solver for the block of the old rows.
    stays, joins : bool ndarray of shape (n_old,), (n_new,)
        Old rows that stay, and new rows that the old ones do not contain. The others
        are in the same order in both.
    border : ndarray of shape (n_old, n_joining)
        Columns :math:`B`.
    corner : ndarray of shape (n_joining, n_joining)
        Block :math:`C`.
    """

    def __init__(self, factor, stays, joins, border, corner):
        self.factor, self.stays, self.joins, self.border = factor, stays, joins, border
        self.leaving = np.flatnonzero(~stays)
        cut = len(self.leaving)
        sides = np.zeros((len(stays), cut + len(corner)))
        sides[self.leaving, np.arange(cut)] = 1.0
        sides[:, cut:] = border
        self.response = factor.solve(sides)
        small = np.concatenate([self.response[self.leaving], border.T @ self.response])
        small[cut:, cut:] -= corner
        self.lu, self.pivots, info = dgetrf(small, overwrite_a=1)
        if info != 0:
            raise np.linalg.LinAlgError("the bordered system is singular.")

    def solve(self, rhs):
        """Solve for one or several right-hand sides."""
        inner = np.zeros((len(self.stays), *rhs.shape[1:]))
        inner[self.stays] = rhs[~self.joins]
        inner = self.factor.solve(inner)
        misfit = np.concatenate(
            [inner[self.leaving], self.border.T @ inner - rhs[self.joins]]
        )
        change = dgetrs(self.lu, self.pivots, misfit, overwrite_b=1)[0]
        inner -= self.response @ change
        out = np.empty(rhs.shape)
        out[~self.joins] = inner[self.stays]
        out[self.joins] = change[len(self.leaving) :]
        return out
