"""Times until an event, some of them censored: one form for all that users have."""

import importlib.util

import numpy as np
from scipy.special import chdtrc

SURVIVAL = np.dtype([("event", np.bool_), ("time", np.float64)])


def check_survival(y):
    """Return times and events as one structured array, or say what is wrong.

    Parameters
    ----------
    y : structured array or data frame, of length n_bags
        Two fields: `event`, true (or 1) if the event was observed and false if the
        observation was censored, and `time`. The fields of a structured array
        may have other names if exactly one of them is boolean, as in scikit-survival.

    Returns
    -------
    ndarray of shape (n_bags,)
        With the fields `event` (bool) and `time` (float64).
    """
    names = getattr(getattr(y, "dtype", None), "names", None)
    if names is None and hasattr(y, "columns"):
        names = tuple(str(name) for name in y.columns)
    if names is None:
        raise ValueError(
            "y must contain, for each bag, whether and when the event was observed: a "
            "structured array or a data frame with the fields 'event' and 'time'."
        )
    columns = {name: np.asarray(y[name]) for name in names}
    if not {"event", "time"} <= set(columns):
        flags = [name for name in names if columns[name].dtype.kind == "b"]
        if len(names) != 2 or len(flags) != 1:
            raise ValueError(
                f"y has the fields {', '.join(map(repr, names))}; it needs 'event' and "
                "'time', or two fields of which one is boolean."
            )
        other = names[1] if names[0] == flags[0] else names[0]
        columns = {"event": columns[flags[0]], "time": columns[other]}
    return survival_target(columns["event"], columns["time"])


def survival_target(event, time):
    """Join events and times to one structured array.

    Parameters
    ----------
    event : array-like of shape (n_bags,)
        True or 1 if the event was observed, False or 0 if it was censored.
    time : array-like of shape (n_bags,)
        Finite and not negative.

    Returns
    -------
    ndarray of shape (n_bags,)
        With the fields `event` (bool) and `time` (float64).
    """
    event, time = np.asarray(event), np.asarray(time)
    if event.ndim != 1 or event.shape != time.shape:
        raise ValueError(
            f"event and time must be of one length, got shapes {event.shape} and "
            f"{time.shape}."
        )
    try:
        known = np.isin(event.astype(np.float64), (0.0, 1.0))
    except (TypeError, ValueError):
        known = np.zeros(len(event), dtype=bool)
    if not known.all():
        i = int(np.flatnonzero(~known)[0])
        raise ValueError(
            f"event must be true or false (1 or 0), got {event[i]!s} for bag {i}."
        )
    try:
        time = time.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError("time must hold numbers.") from None
    sound = np.isfinite(time) & (time >= 0)
    if not sound.all():
        i = int(np.flatnonzero(~sound)[0])
        raise ValueError(
            f"time must be finite and not negative, got {time[i]} for bag {i}. Exclude "
            "the bag, or add its time."
        )
    joined = np.empty(len(time), dtype=SURVIVAL)
    joined["event"], joined["time"] = event.astype(np.float64) == 1.0, time
    if len(joined) and not joined["event"].any():
        raise ValueError("no bag has an event: a model cannot be fitted.")
    return joined


def has_survival():
    """Return whether scikit-survival can be imported, without importing it."""
    return importlib.util.find_spec("sksurv") is not None


def require_survival(who):
    """Raise without scikit-survival, and name the extra that installs it.

    Parameters
    ----------
    who : str
        What needs it.
    """
    if not has_survival():
        raise ImportError(
            f"{who} needs scikit-survival, which is not installed: pip install "
            "'bagwise[survival]'. Everything else in bagwise works without it."
        )


def concordance(event, time, risk):
    """Return the share of comparable pairs that are in the right order.

    A pair is comparable if the event of one was observed while the other was at risk:
    its time is shorter, or equal and the other is censored. It counts one if the
    risk of the first is higher, and one half if both risks are equal.

    Parameters
    ----------
    event : ndarray of bool
        Whether the event was observed; otherwise the time is censored.
    time, risk : ndarray of float
        Times, and predicted risks: higher where events are expected earlier.

    Returns
    -------
    float
        Between 0 and 1, one half for a constant; NaN when no pair can be compared.

    Notes
    -----
    Costs O(number of events * n).
    """
    # At equal times, events come first: all entries after an event are comparable with
    # it, except other events at the same time.
    order = np.lexsort((~event, time))
    event, time, risk = event[order], time[order], risk[order]
    events = np.flatnonzero(event)
    same = np.searchsorted(time[events], time[events], side="right")
    right = total = 0.0
    for k, i in enumerate(events):
        behind = risk[events[same[k] - 1] + 1 :]
        right += np.count_nonzero(behind < risk[i])
        right += 0.5 * np.count_nonzero(behind == risk[i])
        total += len(behind)
    return float(right / total) if total else float("nan")


def has_fields(y):
    """Return whether `y` is a structured array or a data frame of times and events."""
    if getattr(getattr(y, "dtype", None), "names", None) is not None:
        return True
    return {"event", "time"} == {str(name) for name in getattr(y, "columns", ())}


def kaplan_meier(event, time):
    """Return the corners of the Kaplan-Meier estimate, from time zero on.

    Parameters
    ----------
    event : ndarray of bool of shape (n,)
        Whether the event was seen.
    time : ndarray of shape (n,)
        Times.

    Returns
    -------
    x, share : ndarray
        The share without event over time, a step function.
    """
    times = np.unique(time[event])
    at_risk = np.array([(time >= t).sum() for t in times])
    falls = np.array([(event & (time == t)).sum() for t in times])
    share = np.cumprod(1.0 - falls / at_risk) if len(times) else np.empty(0)
    x = np.concatenate([[0.0], np.repeat(times, 2), [time.max()]])
    before = np.concatenate([[1.0], share])
    return x, np.repeat(before, 2)


def log_rank(event, time, group):
    r"""Test whether groups have equal hazards (the log-rank test).

    With :math:`d_j` events among :math:`n_j` at risk at the time :math:`t_j`, and
    :math:`n_{kj}` of group :math:`k` at risk, :math:`O_k - E_k = \sum_j (d_{kj} - d_j
    n_{kj} / n_j)` has the covariance of the hypergeometric distribution.

    Parameters
    ----------
    event : ndarray of bool of shape (n,)
        Whether the event was seen.
    time : ndarray of shape (n,)
        Times.
    group : ndarray of shape (n,)
        Two or more groups.

    Returns
    -------
    statistic, p : float
        Chi-squared with one degree of freedom less than there are groups; NaN where
        fewer than two groups are compared.
    """
    names, codes = np.unique(group, return_inverse=True)
    k = len(names)
    excess, covariance = np.zeros(k), np.zeros((k, k))
    for t in np.unique(time[event]):
        n = np.bincount(codes[time >= t], minlength=k).astype(np.float64)
        d = np.bincount(codes[event & (time == t)], minlength=k).astype(np.float64)
        total, events = n.sum(), d.sum()
        share = n / total
        excess += d - events * share
        if total > 1:
            scale = events * (total - events) / (total - 1)
            covariance += scale * (np.diag(share) - np.outer(share, share))
    if k < 2 or not covariance.any():
        return float("nan"), float("nan")
    solved = np.linalg.pinv(covariance[1:, 1:]) @ excess[1:]
    statistic = float(excess[1:] @ solved)
    return statistic, float(chdtrc(k - 1, statistic))
