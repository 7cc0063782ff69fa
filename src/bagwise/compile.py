"""Compile all loops ahead: ``python -m bagwise.compile``.

Loops are compiled when they are first called, which takes seconds for some methods, and
kept on disk. This fits every method with compiled loops to a few small bags, dense and
sparse, so that a fresh install, an image of a container or the nodes of a cluster with
one package folder need not wait later. What is there already is not compiled again.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bagwise.bags import Bags

__all__ = ["compile_all"]


def compile_all(*, verbose: bool = False) -> None:
    """Fit every method with compiled loops once, so that their code is on disk.

    Parameters
    ----------
    verbose : bool, default=False
        Whether to print what is compiled and how long it takes.

    Examples
    --------
    >>> from bagwise.compile import compile_all
    >>> compile_all()  # doctest: +SKIP
    """
    from scipy.sparse import csr_matrix

    rng = np.random.default_rng(0)
    offsets = np.arange(0, 121, 6)
    y = np.arange(20) % 2
    data = rng.standard_normal((120, 4))
    data[::6, 0] += 3.0 * y
    dense = Bags(data, offsets)
    sparse = Bags(csr_matrix(np.where(data > 0.0, data, 0.0)), offsets)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, fit in _fits():
            start = time.perf_counter()
            fit(dense, y)
            if name.endswith("sparse"):
                fit(sparse, y)
            if verbose:
                print(f"{name.split(',')[0]}: {time.perf_counter() - start:.1f} s")


def _fits() -> Iterator[tuple[str, Callable[[Bags, Any], None]]]:
    """Give names, "sparse" behind those that take sparse rows, and what to call."""
    from bagwise.bags import segments
    from bagwise.bags.stored import widened
    from bagwise.density import EMDD, DiverseDensity
    from bagwise.embedding import MILES, MiFV, SlicedWassersteinEmbedding
    from bagwise.ensemble import MIBoosting, MILBoost
    from bagwise.linear_model import MILinearRegression, MILogisticRegression
    from bagwise.neighbors import CitationKNN
    from bagwise.rectangles import GMIL, IAPR
    from bagwise.svm import KISVM, MIODM, MISVM, PCSVM, BagSVC, BoxKernelSVC, MiSVM

    def reductions(X: Bags, y: Any) -> None:
        long, ends = np.zeros(20_000), np.array([0, 5, 20_000])
        for kind in (np.float64, np.float32):
            for reduce in (segments.segment_sum, segments.segment_max):
                reduce(long.astype(kind), ends)
            segments.segment_min(long.astype(kind), ends)
        widened(long.astype(np.float16))

    def fit(model: Any) -> Callable[[Bags, Any], None]:
        def run(X: Bags, y: Any) -> None:
            fitted = model.fit(X, y)
            if hasattr(fitted, "predict"):
                fitted.predict(X)
            else:
                fitted.transform(X)

        return run

    yield "reductions", reductions
    for name, model in {
        "MI-SVM": MISVM(),
        "mi-SVM": MiSVM(),
        "MI-SVM, linear, sparse": MISVM(kernel="linear"),
        "PC-SVM": PCSVM(),
        "MI-ODM": MIODM(random_state=0),
        "MI-ODM, linear, sparse": MIODM(kernel="linear", random_state=0),
        "KI-SVM": KISVM(random_state=0),
        "MILR, sparse": MILogisticRegression(),
        "linear regression": MILinearRegression(),
        "Citation-kNN": CitationKNN(),
        "MILES": MILES(),
        "earth mover's distance": BagSVC(kernel="emd"),
        "diverse density": DiverseDensity(),
        "diverse density, max": DiverseDensity("max"),
        "EM-DD": EMDD(),
        "sliced Wasserstein": SlicedWassersteinEmbedding(random_state=0),
        "miFV": MiFV(random_state=0),
        "MILBoost": MILBoost(),
        "MIBoosting, sparse": MIBoosting(random_state=0),
        "IAPR": IAPR(),
        "GMIL": GMIL(random_state=0),
        "box kernel": BoxKernelSVC(random_state=0),
    }.items():
        yield name, fit(model)


def main() -> None:
    """Compile, and print the names."""
    parser = argparse.ArgumentParser(
        prog="python -m bagwise.compile", description="Compile all loops ahead."
    )
    parser.add_argument("--quiet", action="store_true", help="print nothing")
    options = parser.parse_args()
    compile_all(verbose=not options.quiet)


if __name__ == "__main__":
    main()
