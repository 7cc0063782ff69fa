"""The shared threshold against brute force."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from bagwise.base import best_threshold
from bagwise.compose import WrapperMI
from bagwise.datasets import make_bags

scored = st.lists(
    st.tuples(st.integers(-3, 3), st.booleans(), st.integers(1, 3)),
    min_size=1,
    max_size=12,
)


@given(scored)
def test_no_cut_is_better(rows):
    score, positive, weight = (np.array(c) for c in zip(*rows, strict=True))
    cut = best_threshold(score, positive, weight)
    assert cut not in score

    def accuracy(c):
        return weight[(score > c) == positive].sum()

    candidates = np.concatenate([score - 0.5, score + 0.5])
    assert accuracy(cut) == max(accuracy(c) for c in candidates)


@pytest.mark.parametrize("threshold", ["train", "cv"])
def test_the_cut_moves_decisions_and_instance_scores(threshold):
    X, y = make_bags(40, bag_size=(6, 12), random_state=0)
    base = LogisticRegression(C=0.1)
    plain = WrapperMI(base).fit(X, y)
    moved = WrapperMI(base, threshold=threshold).fit(X, y)
    shift = plain.decision_function(X) - moved.decision_function(X)
    np.testing.assert_allclose(shift, moved.threshold_, atol=1e-12)
    shift = plain.instance_scores(X).values - moved.instance_scores(X).values
    np.testing.assert_allclose(shift, moved.threshold_, atol=1e-12)
    assert moved.threshold_ != 0
    if threshold == "train":  # the best cut of these very scores
        scores = plain.decision_function(X)
        best = max(((scores > c) == (y == 1)).mean() for c in scores)
        assert moved.score(X, y) >= best
