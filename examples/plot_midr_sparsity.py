"""
Sparsity against orthonormality in MIDR
=======================================

The figure shows how far the sparse matrix H is from orthonormal columns, and its l1
norm, for values of the sparsity penalty C1 and of the coupling C2 between H and the
orthonormal projection, on the Musk data sets. Where C1 >= C2 (hatched) every entry of H
is zero: the entries of the projection do not exceed one and are below the threshold C1
/ C2, so that the penalty is constant.

    python examples/plot_midr_sparsity.py [FOLDER] [--quick]
"""

import sys
import warnings
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from bagwise.compose import OnInstances
from bagwise.datasets import fetch
from bagwise.decomposition import MIDR

POWERS = range(-4, 5)


def measure(X, y, C1, C2, n_components):
    """Return the loss of orthonormality and the l1 norm of H, each per column."""
    if C1 >= C2:
        return np.sqrt(n_components), 0.0
    # The strengths refer to a loss that is summed over bags.
    midr = MIDR(n_components, C1=C1 / len(y), tau=C1 / C2, C=len(y), random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        H = midr.set_params(max_iter=300).fit(X, y).sparse_components_
    gap = np.linalg.norm(H @ H.T - np.eye(len(H)))
    return gap, np.abs(H).sum() / n_components


def main(folder, quick=False):
    powers = list(POWERS)[::4] if quick else list(POWERS)
    names = ("musk1",) if quick else ("musk1", "musk2")
    figure, axes = plt.subplots(
        len(names), 2, figsize=(9.6, 4.2 * len(names)), layout="constrained"
    )
    for row, name in zip(np.atleast_2d(axes), names, strict=True):
        data = fetch(name)
        X, y = OnInstances(StandardScaler()).fit_transform(data.X), data.y
        maps = np.array(
            [[measure(X, y, 10.0**i, 10.0**j, 50) for j in powers] for i in powers]
        )
        off = np.array([[i >= j for j in powers] for i in powers])
        for axis, values, title in zip(
            row,
            np.moveaxis(maps, 2, 0),
            ["loss of orthonormality, |H'H - I|", "l1 norm of H per column"],
            strict=True,
        ):
            image = axis.imshow(values, origin="lower", cmap="viridis", vmin=0)
            ticks = range(len(powers))
            labels = [f"$10^{{{p}}}$" for p in powers]
            axis.set_xticks(ticks, labels)
            axis.set_yticks(ticks, labels)
            axis.set(title=f"{name}: {title}", xlabel="C2", ylabel="C1")
            for i, j in np.argwhere(off):
                axis.add_patch(
                    plt.Rectangle(
                        (j - 0.5, i - 0.5),
                        1,
                        1,
                        fill=False,
                        hatch="//",
                        ec="0.75",
                        lw=0,
                    )
                )
            figure.colorbar(image, ax=axis, shrink=0.9)
        print(name, "orthonormality\n", np.round(maps[..., 0], 2))
        print(name, "l1 per column\n", np.round(maps[..., 1], 2))
    path = Path(folder) / "midr_sparsity.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    print(path)


if __name__ == "__main__":
    folders = [a for a in sys.argv[1:] if not a.startswith("-")]
    main(folders[0] if folders else "build/examples", "--quick" in sys.argv)
