import numpy as np
import pytest

from bagwise.base.survival import survival_target
from bagwise.metrics import concordance_index


def by_pairs(y, risk):
    right = total = 0.0
    for i in range(len(y)):
        for j in range(len(y)):
            later = y["time"][j] > y["time"][i]
            later |= y["time"][j] == y["time"][i] and not y["event"][j]
            if i != j and y["event"][i] and later:
                total += 1
                right += (risk[i] > risk[j]) + 0.5 * (risk[i] == risk[j])
    return right / total


@pytest.mark.parametrize("seed", range(5))
def test_against_all_pairs_with_ties(seed):
    rng = np.random.default_rng(seed)
    y = survival_target(rng.random(40) < 0.6, rng.integers(1, 12, size=40))
    risk = rng.integers(0, 8, size=40).astype(float)
    assert concordance_index(y, risk) == pytest.approx(by_pairs(y, risk))
    assert concordance_index(y, -risk) == pytest.approx(1 - by_pairs(y, risk))
    assert concordance_index(y, np.zeros(40)) == 0.5
    order = rng.permutation(40)
    assert concordance_index(y[order], risk[order]) == pytest.approx(by_pairs(y, risk))


def test_against_scikit_survival():
    metrics = pytest.importorskip("sksurv.metrics", reason="needs bagwise[survival]")
    rng = np.random.default_rng(7)
    y = survival_target(rng.random(60) < 0.5, rng.integers(1, 20, size=60))
    risk = rng.integers(0, 9, size=60).astype(float)
    known = metrics.concordance_index_censored(y["event"], y["time"], risk)[0]
    assert concordance_index(y, risk) == pytest.approx(known)


def test_no_pair_and_bad_shapes():
    y = survival_target([False, True], [1.0, 2.0])
    assert np.isnan(concordance_index(y, [0.0, 1.0]))
    with pytest.raises(ValueError, match="risk has shape"):
        concordance_index(y, [0.0])
    with pytest.raises(ValueError, match="one length"):
        survival_target([True], [1.0, 2.0])
