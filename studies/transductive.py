"""A transductive classifier with the interface of an estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

__all__ = ["TransductiveBoxSVC"]


class TransductiveBoxSVC(ClassifierMixin, BaseEstimator):
    """`transductive_box_svc` as an estimator, for experiments only.

    `fit` stores the bags; every prediction trains with the given bags as unlabeled
    ones, so that the score of a bag depends on the others. A published table calls this
    transduction; it is not a classifier to deploy.

    Parameters
    ----------
    C, rho, normalize, random_state
        As in :class:`~bagwise.svm.BoxKernelSVC`.

    Attributes
    ----------
    classes_ : ndarray
        The labels.

    Notes
    -----
    Differs from Tao, Scott, Vinodchandran and Osugi (ICML 2004): as
    `transductive_box_svc` does, with a threshold of zero. The last answer is kept,
    because decisions and labels of the same bags are computed one after the other.
    """

    def __init__(
        self,
        C: float = 10.0,
        *,
        rho: Any = "auto",
        normalize: bool = True,
        random_state: Any = None,
    ) -> None:
        self.C = C
        self.rho = rho
        self.normalize = normalize
        self.random_state = random_state

    def fit(self, X: Any, y: NDArray[Any]) -> TransductiveBoxSVC:
        """Keep the training bags."""
        self.classes_ = np.unique(y)
        self.bags_fit_, self.labels_fit_ = X, np.asarray(y)
        self.asked_: tuple[Any, Any] | None = None
        return self

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Return the score of each bag, all of `X` being known."""
        return np.asarray(self._answer(X).decision_function)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label of each bag, all of `X` being known."""
        return np.asarray(self._answer(X).predictions)

    def _answer(self, X: Any) -> Any:
        from bagwise.svm import transductive_box_svc

        if self.asked_ is None or self.asked_[0] is not X:
            found = transductive_box_svc(
                self.bags_fit_,
                self.labels_fit_,
                X,
                threshold="zero",
                **self.get_params(deep=False),
            )
            self.asked_ = (X, found)
        return self.asked_[1]
