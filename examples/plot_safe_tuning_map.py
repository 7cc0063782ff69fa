"""
Accuracy of SAFE over rho and gamma, with the limit of convexity
================================================================

Below the line the solution is a minimum. Above it the objective has no minimum: the
solution of the linear system is a saddle point, whose components change sign one after
the other until the classifier is inverted. `SAFE` refuses parameters in that region. To
show it, this example solves the optimality system directly.

Usage: python plot_safe_tuning_map.py [FOLDER]
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from bagwise.datasets import make_safe_toy
from bagwise.kernels.instance import instance_kernel
from bagwise.least_squares._safe_kernel import DenseOmega, KernelSystem
from bagwise.least_squares.safe_problem import BagDesign, aggregation_weights

GAMMA = 2.0


def stationary_point(omega, J, rho, gamma, variance, y):
    """Solve the optimality system by LU: a minimum below the border, else a saddle."""
    n = len(omega)
    G = rho * J @ J.T - gamma * np.diag(variance)
    system = np.ones((n + 1, n + 1))
    system[:-1, :-1] = np.eye(n) + G @ omega
    system[:-1, -1] = G.sum(axis=1)
    system[-1, -1] = 0.0
    solution = np.linalg.solve(system, np.append(rho * (J @ y), 0.0))
    return solution[:-1], solution[-1]


def accuracy_map(rhos, gammas, core):
    """Held-out accuracy for every pair, and gamma_max for every rho."""
    X, y = make_safe_toy(2, 40, random_state=0)
    new, y_new = make_safe_toy(2, 400, random_state=1)
    omega = instance_kernel(X.data, kernel="rbf", gamma=GAMMA)
    cross = instance_kernel(new.data, X.data, kernel="rbf", gamma=GAMMA)
    ones = np.ones(len(omega))
    variance = ones if core == "kpca" else 1.0 / omega.sum(axis=1)
    weight = aggregation_weights("sum", X.offsets)
    J = (X.bag_index[:, None] == np.arange(len(y))).astype(float)
    target = np.where(y > 0, 1.0, -1.0)
    out, border = np.empty((len(gammas), len(rhos))), np.empty(len(rhos))
    for j, rho in enumerate(rhos):
        design = BagDesign(X.offsets, weight, np.full(len(y), rho), variance)
        border[j] = KernelSystem(DenseOmega(omega), design).gamma_max()
        for i, gamma in enumerate(gammas):
            alpha, b = stationary_point(omega, J, rho, gamma, variance, target)
            scores = (cross @ alpha + b).reshape(len(y_new), -1).sum(axis=1)
            out[i, j] = np.mean((scores > 0) == (y_new > 0))
    return out, border


def main():
    """Make the picture."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "build/examples")
    folder.mkdir(parents=True, exist_ok=True)
    rhos, gammas = np.logspace(-2, 2, 17), np.logspace(-3, 3, 25)
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    for axis, core in zip(axes, ("ksc", "kpca"), strict=True):
        values, border = accuracy_map(rhos, gammas, core)
        mesh = axis.pcolormesh(
            rhos, gammas, values, vmin=0, vmax=1, cmap="RdYlGn", shading="nearest"
        )
        axis.plot(rhos, border, color="black", linewidth=2)
        axis.text(
            rhos[11], border[11] / 5, r"$\gamma_{max}(\rho)$", fontsize=12, color="w"
        )
        axis.set(xscale="log", yscale="log", xlabel=r"$\rho$", ylabel=r"$\gamma$")
        axis.set_xlim(rhos[0], rhos[-1])
        axis.set_ylim(gammas[0], gammas[-1])
        axis.set_title(f"core {core}: minima below the line, saddles above")
        convex = values[gammas[:, None] < border]
        beyond = values[gammas[:, None] >= border]
        print(
            f"{core:<5} convex: {convex.min():.3f} to {convex.max():.3f}   "
            f"not convex: {beyond.min():.3f} to {beyond.max():.3f}"
        )
    figure.colorbar(mesh, ax=axes, label="accuracy on new bags")
    figure.savefig(folder / "safe_tuning_map.png", dpi=110)


if __name__ == "__main__":
    main()
