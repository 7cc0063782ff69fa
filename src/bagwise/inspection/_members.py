"""What the members of a stack add to the score of a bag."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise.bags import as_bags
from bagwise.inspection._instances import last_step
from bagwise.inspection.scores import bag_scores, positive_class

__all__ = ["MemberContributions", "member_contributions"]


@dataclass(frozen=True, eq=False)
class MemberContributions:
    """Parts of the scores of bags that belong to members of a stack.

    Attributes
    ----------
    names : list of str
        The members.
    values : ndarray of shape (n_bags, n_members)
        Weight times log-odds of each member, for the class that scores are high for.
    intercept : float
        What is left: ``values.sum(axis=1) + intercept`` is `scores`.
    scores : ndarray of shape (n_bags,)
        Scores of the bags.
    """

    names: list[str]
    values: NDArray[np.float64]
    intercept: float
    scores: NDArray[np.float64]

    def to_dict(self) -> dict[str, list[float]]:
        """Return the table by columns, one for each member."""
        return {n: v.tolist() for n, v in zip(self.names, self.values.T, strict=True)}


def member_contributions(
    model: Any, X: Any, *, pos_label: Any = None
) -> MemberContributions | None:
    """Split the scores of bags by the members of a stack.

    Parameters
    ----------
    model : estimator
        A fitted `BagClassifier` or `BagStackingClassifier`, or a pipeline of one.
    X : Bags or list of 2-D arrays
        The bags.
    pos_label : label, default=None
        Class that scores are high for; must be given for more than two classes.

    Returns
    -------
    MemberContributions or None
        Exact parts; None for models that are no stacks.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.datasets import make_bags
    >>> from bagwise.ensemble import BagStackingClassifier
    >>> from bagwise.inspection import member_contributions
    >>> X, y = make_bags(random_state=0)
    >>> found = member_contributions(BagStackingClassifier(random_state=0).fit(X, y), X)
    >>> bool(np.allclose(found.values.sum(axis=1) + found.intercept, found.scores))
    True
    """
    X = as_bags(X)
    inner, inside = last_step(model, X)
    if not hasattr(inner, "member_contributions"):
        return None
    parts = np.asarray(inner.member_contributions(inside), dtype=np.float64)
    column, sign = positive_class(inner, pos_label)
    if parts.ndim == 3:
        if column is None:
            raise ValueError(
                f"there are {parts.shape[2]} classes: name one of "
                f"{np.asarray(inner.classes_).tolist()} as pos_label."
            )
        parts = parts[:, :, column]
    elif pos_label is not None:
        own = positive_class(inner)
        parts = parts if own == (column, sign) else -parts
    scores = bag_scores(inner, inside, pos_label)
    left = scores - parts.sum(axis=1)
    names = list(inner.members_)
    return MemberContributions(names, parts, float(np.median(left)), scores)
