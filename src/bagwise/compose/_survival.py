"""EmbeddedSurvival: one vector per bag and a model of scikit-survival."""

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from bagwise._compat import HasMethods, StrOptions, _fit_context
from bagwise.bags import Bags, Ragged
from bagwise.bags.validation import in_bag_order
from bagwise.base import BaseBagEstimator
from bagwise.base.survival import check_survival, concordance, require_survival
from bagwise.compose.pooling import POOLINGS, pool


def _passes_on(name):
    def check(self):
        inner = getattr(self, "estimator_", self.estimator)
        return inner is None or hasattr(inner, name)

    return check


class EmbeddedSurvival(BaseBagEstimator):
    r"""Predict the risk of an event from one vector per bag.

    A bag :math:`B` becomes a vector :math:`\phi(B)`, and any model of scikit-survival
    learns from the vectors, the times and the events, by default Cox's proportional
    hazards with a ridge ([1]_):

    .. math:: h(t \mid B) = h_0(t) \exp(w^\top \phi(B)),

    where :math:`\phi` is `embedding` and the risk of a bag is :math:`w^\top \phi(B)`.

    Parameters
    ----------
    embedding : {"mean", "max", "min", "minmax", "midpoint", "mean+std", "statistics"} \
            or transformer, default="mean"
        A summary of each bag as in `SimpleMI`, or a transformer of bags into rows, such
        as those of :mod:`bagwise.embedding`. It is fitted without times and events.
    estimator : estimator, default=None
        A model of scikit-survival, or a pipeline that ends in one. By default
        ``CoxPHSurvivalAnalysis(alpha=1.0)`` on columns of variance one.

    Attributes
    ----------
    embedding_ : transformer or str
        The fitted embedding, or the name of the summary.
    estimator_ : estimator
        The fitted model.

    See Also
    --------
    bagwise.metrics.concordance_index : What `score` returns.

    Notes
    -----
    Needs the extra ``bagwise[survival]``. `y` is a structured array or a data frame
    with the fields `event` and `time`. Costs one embedding and one fit of the model.
    `bagwise.save` supports Cox's model, survival trees, forests and boosted trees, and
    no other models of scikit-survival.

    Differs from [1]_: covariates are the embedding of a bag, and any other model of
    scikit-survival may follow.

    References
    ----------
    .. [1] Cox, D. R., "Regression models and life-tables", Journal of the Royal
       Statistical Society B, 1972.

    Examples
    --------
    >>> from bagwise.compose import EmbeddedSurvival
    >>> from bagwise.datasets import make_survival_bags
    >>> X, y = make_survival_bags(80, random_state=0)
    >>> model = EmbeddedSurvival("mean").fit(X[:40], y[:40])
    >>> model.score(X[40:], y[40:]) > 0.6
    True
    """

    _parameter_constraints: dict = {
        "embedding": [StrOptions(set(POOLINGS)), HasMethods(["fit", "transform"])],
        "estimator": [HasMethods(["fit", "predict"]), None],
    }

    def __init__(self, embedding="mean", estimator=None):
        self.embedding = embedding
        self.estimator = estimator

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.estimator_type = "survival"
        tags.target_tags.required = True
        return tags

    def _check_target(self, y):
        return check_survival(y)

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y):
        """Fit the embedding on the bags and the model on their vectors.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The training bags.
        y : structured array or data frame, of length n_bags
            The fields `event` (true where it was observed) and `time`.

        Returns
        -------
        self
        """
        require_survival("EmbeddedSurvival")
        X, y = self._check_bags(X, y, reset=True, min_bags=2)
        self.embedding_ = self.embedding
        if not isinstance(self.embedding, str):
            self.embedding_ = clone(self.embedding).fit(X)
        base = self._default() if self.estimator is None else clone(self.estimator)
        self.estimator_ = base.fit(self._rows(X), y)
        return self

    def _default(self):
        from sksurv.linear_model import CoxPHSurvivalAnalysis

        return make_pipeline(StandardScaler(), CoxPHSurvivalAnalysis(alpha=1.0))

    def _rows(self, X):
        if isinstance(self.embedding_, str):
            return pool(X, self.embedding_)
        return self.embedding_.transform(X)

    def _checked_rows(self, X):
        check_is_fitted(self)
        return self._rows(self._check_bags(X, reset=False))

    def _risk(self, rows):
        # Models that predict times have this attribute.
        sign = 1.0 if getattr(self.estimator_, "_predict_risk_score", True) else -1.0
        return sign * np.asarray(self.estimator_.predict(rows), dtype=np.float64)

    def predict(self, X):
        """Return the risk of each bag.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        ndarray of shape (n_bags,)
            Higher if the event is expected earlier; without a unit.
        """
        return self._risk(self._checked_rows(X))

    def score(self, X, y):
        """Return the concordance index.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.
        y : structured array or data frame, of length n_bags
            The fields `event` and `time`.

        Returns
        -------
        float
            1 for the right order of events, 0.5 for chance.
        """
        y, risk = check_survival(in_bag_order(y, X)), self.predict(X)
        if len(y) != len(risk):
            raise ValueError(f"y has {len(y)} entries for {len(risk)} bags.")
        return concordance(y["event"], y["time"], risk)

    @available_if(_passes_on("predict_survival_function"))
    def predict_survival_function(self, X, **options):
        """Return the survival function of each bag.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.
        **options
            Passed on to the model, such as ``return_array=True``.

        Returns
        -------
        ndarray
            Step functions of scikit-survival, or what the options ask for.
        """
        rows = self._checked_rows(X)
        return self.estimator_.predict_survival_function(rows, **options)

    def instance_scores(self, X):
        """Return the risk of a bag that contains only this instance.

        Parameters
        ----------
        X : Bags or sequence of 2-D arrays
            The bags.

        Returns
        -------
        Ragged
            One risk per instance.
        """
        check_is_fitted(self)
        X = self._check_bags(X, reset=False)
        alone = Bags(X.data, np.arange(X.n_instances + 1))
        return Ragged(self._risk(self._rows(alone)), X.offsets)
