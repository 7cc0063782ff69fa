"""The runner's worker processes live beside joblib's own."""

from joblib import Parallel, delayed

from bagwise.comparison import compare
from bagwise.datasets import make_bags


def test_joblib_works_after_a_comparison():
    X, y = make_bags(12, random_state=0)
    compare(X, y, methods=["SimpleMI"], grid="none", n_jobs=2, progress=False)
    assert Parallel(n_jobs=2)(delayed(abs)(-i) for i in range(4)) == [0, 1, 2, 3]
