r"""The objective of MIDR: loss, ridge and sparsity penalty, with gradients."""

import numpy as np

#: Names of the sparsity penalties.
PENALTIES = ("huber", "smooth_l1")

_EPSILON = 1e-3


def soft_threshold(A, tau):
    """Shrink every entry of `A` towards zero by `tau` (Eq. (12) with C1/C2 = tau)."""
    return np.sign(A) * np.maximum(np.abs(A) - tau, 0.0)


def huber_penalty(A, C1, tau):
    r"""Value and gradient of the penalty of Eq. (10) with its second matrix gone.

    .. math::
        \min_H \tfrac{C_2}{2} \|A - H\|^2 + C_1 \|H\|_1 = \sum_{st} h(A_{st}), \qquad
        h(a) = \begin{cases} C_2 a^2 / 2 & |a| \le \tau \\
            C_1 (|a| - \tau / 2) & \text{otherwise} \end{cases}

    with :math:`\tau = C_1 / C_2`, attained at ``soft_threshold(A, tau)``.
    """
    clipped = np.clip(A, -tau, tau)
    # On both branches h(a) = C2 c (a - c / 2) for the clipped value c.
    value = (C1 / tau) * (np.vdot(clipped, A) - 0.5 * np.vdot(clipped, clipped))
    clipped *= C1 / tau
    return float(value), clipped


def smooth_l1_penalty(A, C1, tau):
    r"""Value and gradient of :math:`C_1 \sum \sqrt{A_{st}^2 + \epsilon^2}` (Eq. (5)).

    `tau` is not used; :math:`\epsilon = 10^{-3}`.
    """
    root = np.sqrt(A * A + _EPSILON**2)
    return float(C1 * root.sum()), C1 * A / root


_PENALTY_FUNCTIONS = {"huber": huber_penalty, "smooth_l1": smooth_l1_penalty}


class MIDRObjective:
    r"""Objective :math:`F(A, W, b)` on the product of manifold and plane.

    .. math::
        F(A, W, b) = L(AW, b) + \frac{1}{2C} \|W\|^2 + \mathrm{pen}(A)

    where :math:`L` is a `BagLoss`. With :math:`G = \partial L / \partial U` at
    :math:`U = AW`,

    .. math::
        \partial_A F = G W' + \partial\,\mathrm{pen}, \qquad
        \partial_W F = A'G + W / C, \qquad \partial_b F = \partial_b L :

    the loss part of the first has rank one for one direction. The projected instances
    :math:`XA` are never formed.

    Parameters
    ----------
    loss : BagLoss
        The loss.
    C, C1, tau, penalty : as in `MIDR`
    """

    def __init__(self, loss, *, C, C1, tau, penalty="huber"):
        self.loss = loss
        self.ridge = 1.0 / C
        self.C1 = C1
        self.tau = tau
        self.penalty = _PENALTY_FUNCTIONS[penalty]
        self.penalty_name = penalty

    @property
    def coupling(self):
        """The constant C2 of Eq. (10)."""
        return self.C1 / self.tau

    def __call__(self, A, W, b):
        """Return the value and the gradients in `A`, `W` and `b`."""
        value, gradient, slope = self.loss(A @ W, b)
        value += 0.5 * self.ridge * float(np.vdot(W, W))
        grad_A = gradient @ W.T
        grad_W = A.T @ gradient + self.ridge * W
        if self.C1 > 0:
            extra, more = self.penalty(A, self.C1, self.tau)
            value += extra
            grad_A += more
        return value, grad_A, grad_W, slope

    def value(self, A, W, b):
        """Return the value alone."""
        value = self.loss.value(A @ W, b) + 0.5 * self.ridge * float(np.vdot(W, W))
        if self.C1 > 0:
            value += self.penalty(A, self.C1, self.tau)[0]
        return value
