"""Harrell's concordance index: numbers in, a number out."""

import numpy as np


def concordance(event, time, risk):
    """Return the share of comparable pairs that are in the right order.

    A pair is comparable when the event of one came while the other was still watched:
    its time is shorter, or equal and the other has no event. It counts one when the
    risk of the first is higher and one half when both are equal.

    Parameters
    ----------
    event : ndarray of bool
        Whether the event was seen; otherwise the time is that of the last look.
    time, risk : ndarray of float
        Times, and what is to be high where events come early.

    Returns
    -------
    float
        Between 0 and 1, one half for a constant; NaN when no pair can be compared.

    Notes
    -----
    Costs O(number of events * n).
    """
    # Of equal times, events come first: what stands behind is comparable, apart from
    # other events of the same time.
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
