"""Scores per type of instance, such as the types of cells; scores back into AnnData."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from bagwise.bags import Bags
from bagwise.bags.segments import segment_mean
from bagwise.bags.validation import group_rows
from bagwise.inspection._explain import Explanation, explain
from bagwise.io import from_frame

__all__ = ["type_table", "write_scores"]

TOP_SHARE = 0.05  # of the instances of a bag, the ones with the highest scores


def type_table(
    X: Bags, scores: Any, positive: NDArray[np.bool_] | None = None
) -> list[dict[str, Any]]:
    """Summarize instance scores per type of instance.

    Parameters
    ----------
    X : Bags
        Bags with `instance_types`.
    scores : array-like of shape (n_instances,)
        Scores of the instances; bags with NaN are left out.
    positive : ndarray of bool of shape (n_bags,), default=None
        Which bags are positive.

    Returns
    -------
    list of dict
        One per type, the most frequent type among the top instances first. The top
        instances are the 5% of each bag with the highest scores, at least one per bag.
        "type"; "count" of the instances; "share" of the instances, "positive" and
        "negative" shares in positive and negative bags, and "top" share of the top
        instances, all as means over bags; "percentile", the mean percentile of the
        scores among all instances.
    """
    scores = np.asarray(scores, dtype=np.float64)
    known = np.isfinite(np.add.reduceat(scores, X.offsets[:-1]))
    if X.instance_types is None or not known.any():
        return []
    rows = np.repeat(known, X.sizes)
    names = X.instance_types[rows].astype(str)
    sizes = X.sizes[known]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    own = scores[rows]
    bag = np.repeat(np.arange(len(sizes)), sizes)
    rank = np.empty(len(own), dtype=np.int64)
    rank[np.lexsort((-own, bag))] = np.arange(len(own)) - offsets[bag]
    most = np.maximum(1, np.floor(TOP_SHARE * sizes))
    top = rank < most[bag]
    percentile = 100 * (rankdata(own) - 0.5) / len(own)
    sides = {"positive": None, "negative": None}
    if positive is not None:
        sides = {"positive": positive[known], "negative": ~positive[known]}
    found = []
    for name in np.unique(names):
        here = (names == name).astype(np.float64)
        share = segment_mean(here[:, None], offsets)[:, 0]
        in_top = np.bincount(bag, weights=here * top) / most
        row = {"type": str(name), "count": int(here.sum()), "share": share.mean()}
        for side, which in sides.items():
            some = which is not None and which.any()
            row[side] = share[which].mean() if some else np.nan
        row |= {"top": in_top.mean(), "percentile": percentile[here > 0].mean()}
        found.append({k: v if k == "type" else float(v) for k, v in row.items()})
    return sorted(found, key=lambda row: (-row["top"], -row["percentile"]))


def write_scores(
    model: Any,
    adata: Any,
    *,
    bag: str,
    features: str = "X",
    pos_label: Any = None,
    key: str = "bagwise",
) -> Explanation:
    """Score the cells of an AnnData object, and write the scores into its ``obs``.

    Parameters
    ----------
    model : estimator
        A fitted classifier or regressor of bags, or a pipeline of one.
    adata : AnnData
        The cells. Three columns of ``adata.obs`` are written.
    bag : str
        The column of ``obs`` with the donor of each cell. Cells without a donor have no
        score (NaN).
    features : str, default="X"
        The matrix that the model was fitted on: ``"X"``, ``"obsm:X_pca"`` or
        ``"layers:counts"``.
    pos_label : label, default=None
        As in `explain`.
    key : str, default="bagwise"
        Prefix of the names of the columns: ``bagwise_score`` (higher is more positive),
        ``bagwise_rank`` (1 for the highest score of a donor) and ``bagwise_predicted``
        (the prediction for the donor).

    Returns
    -------
    Explanation
        The same scores with tables and plots.

    See Also
    --------
    explain : The same for any bags.

    Examples
    --------
    >>> model = BagClassifier().fit(X, y)  # doctest: +SKIP
    >>> write_scores(model, adata, bag="donor")  # doctest: +SKIP
    >>> adata.obs.groupby("cell_type")["bagwise_score"].mean()  # doctest: +SKIP
    """
    import pandas as pd

    if bag not in adata.obs:
        from_frame(adata, bag=bag, features=features)  # raises and lists the columns
    kept = np.flatnonzero(~pd.isna(adata.obs[bag]).to_numpy())
    part = adata if len(kept) == adata.n_obs else adata[kept]
    X = from_frame(part, bag=bag, features=features)
    found = explain(model, X, pos_label=pos_label)
    donors = part.obs[bag].astype(object).to_numpy()
    rows = group_rows(kept[:, None], donors)[0][:, 0]  # the cells in the order of X
    columns = found.columns()
    for name in ("score", "rank", "bag_label"):
        values = pd.Series(columns[name], index=rows).reindex(range(adata.n_obs))
        name = "predicted" if name == "bag_label" else name
        adata.obs[f"{key}_{name}"] = values.to_numpy()
    return found
