"""Bag kernels whose matrix takes hours on many bags: refused before the work."""

from __future__ import annotations

from bagwise.bags import Bags
from bagwise.kernels.emd import many_problems

# Instances of which all pairs are compared in about two minutes at a hundred columns.
_MOST_COMPARED = 150_000
# Instances for which boxes can be counted pair by pair; as in BoxKernelSVC.
_MOST_COUNTED = 20_000

_ADDITIVE = (
    'Take kernel="mi_graph" or "set", which beyond 60,000 instances work on Nystroem '
    "features"
)


def refuse_hours(X: Bags, metric: str) -> None:
    """Raise where the exact kernel matrix of training bags would take hours.

    Parameters
    ----------
    X : Bags
        The training bags.
    metric : str
        A name of `BAG_KERNELS`. What is cheap at any size passes.
    """
    n = X.n_instances
    reason = hint = None
    if metric == "emd":
        reason = many_problems(len(X) * (len(X) - 1) // 2)
        hint = "Take make_pipeline(SlicedWassersteinEmbedding(), SVC())"
    elif metric in ("graph", "distribution") and n > _MOST_COMPARED:
        reason = (
            f"All pairs of {n:,} instances would be compared, which takes hours (the "
            f"limit is {_MOST_COMPARED:,})."
        )
        hint = _ADDITIVE
    elif metric == "box" and n > _MOST_COUNTED:
        reason = (
            f"boxes would be counted for all pairs of {len(X):,} bags with {n:,} "
            f"instances, which takes hours (the limit is {_MOST_COUNTED:,})."
        )
        hint = "Take make_pipeline(RandomBoxFeatures(1000), LinearSVC())"
    if reason is not None:
        raise ValueError(
            f"{reason} {hint}, or fit on fewer bags; n_components=None computes the "
            "matrix all the same."
        )
