"""Metrics of predicted risks for censored event times."""

import numpy as np

from bagwise.base.survival import check_survival, concordance


def concordance_index(y, risk):
    r"""Return Harrell's concordance index.

    .. math::
        C = \frac{\sum_{(i, j)} [r_i > r_j] + \frac12 [r_i = r_j]}{|\{(i, j)\}|}

    over the comparable pairs: those in which the event of bag :math:`i` was observed
    while bag :math:`j` was at risk, :math:`t_i < t_j`, or :math:`t_i = t_j` without an
    event of :math:`j` [1]_. Here :math:`r` is `risk` and :math:`t` the time in `y`.

    Parameters
    ----------
    y : structured array or data frame, of length n_bags
        The fields `event` (true where it was observed) and `time`.
    risk : array-like of shape (n_bags,)
        Higher where the event is expected earlier.

    Returns
    -------
    float
        1 for a perfect order, 0.5 for chance; NaN without a comparable pair.

    References
    ----------
    .. [1] Harrell, F. E., Lee, K. L. and Mark, D. B., "Multivariable prognostic
       models", Statistics in Medicine, 1996.

    Examples
    --------
    >>> import numpy as np
    >>> from bagwise.metrics import concordance_index
    >>> y = np.array([(True, 1.0), (False, 2.0), (True, 3.0)],
    ...              dtype=[("event", bool), ("time", float)])
    >>> concordance_index(y, [0.9, 0.1, 0.5])
    1.0
    """
    y = check_survival(y)
    risk = np.asarray(risk, dtype=np.float64)
    if risk.shape != y.shape:
        raise ValueError(f"risk has shape {risk.shape} for {len(y)} bags.")
    return concordance(y["event"], y["time"], risk)
