"""Winnow on boolean attributes and their complements, many of them alike."""

from bagwise._jit import njit

_LARGEST = 1e150  # weights are kept in the range of floats


@njit(nogil=True, shapes={"hit": "g", "present": "g", "absent": "g"})
def weighted_sum(hit, present, absent):
    """Sum for one bag: `present` where a box is hit, `absent` where it is not."""
    total = 0.0
    for g in range(hit.shape[0]):
        total += present[g] if hit[g] else absent[g]
    return total


@njit(nogil=True)
def _update(hit, present, absent, factor, multiplicity):
    for g in range(hit.shape[0]):
        side = present if hit[g] else absent
        new = side[g] * factor
        if 1.0 / _LARGEST < new / multiplicity[g] < _LARGEST:
            side[g] = new


@njit(nogil=True, shapes={"hits": "n g", "signs": "n", "present": "g", "absent": "g"})
def count_errors(hits, signs, present, absent, theta):
    """Number of bags on the wrong side of the threshold."""
    errors = 0
    for i in range(hits.shape[0]):
        positive = weighted_sum(hits[i], present, absent) > theta
        errors += positive != (signs[i] > 0.0)
    return errors


@njit(
    nogil=True,
    shapes={
        "hits": "n g",
        "signs": "n",
        "order": "m in n",
        "present": "g",
        "absent": "g",
        "multiplicity": "g",
    },
)
def winnow_pass(hits, signs, order, present, absent, multiplicity, theta, alpha):
    """Go through the bags once; the weights carry their multiplicity.

    On a missed positive bag the active weights are multiplied by alpha, on a false
    alarm divided. Every box has one active attribute: hit or not hit.
    """
    mistakes = 0
    for i in order:
        positive = weighted_sum(hits[i], present, absent) > theta
        if positive != (signs[i] > 0.0):
            mistakes += 1
            factor = 1.0 / alpha if positive else alpha
            _update(hits[i], present, absent, factor, multiplicity)
    return mistakes
