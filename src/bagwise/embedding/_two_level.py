"""TLC: count the instances of a bag in the nodes of a tree, classify the counts."""

from numbers import Integral

import numpy as np
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.tree import DecisionTreeClassifier

from bagwise._compat import HasMethods, Interval
from bagwise.bags.segments import bag_matrix, repeat
from bagwise.compose.embedded import EmbeddedClassifier
from bagwise.compose.forests import in_tree_units, tree_units


class TwoLevelClassifier(EmbeddedClassifier):
    r"""Fit a tree to instances, and a classifier to the counts in its nodes.

    First level: a decision tree on the instances, with the label of the bag and the
    weight :math:`1/|B|`. A bag is then described by how many of its instances pass each
    node :math:`v` ([1]_),

    .. math:: \phi_v(B) = \#\{x \in B : x \text{ passes } v\},

    and the second level learns from those counts.

    Parameters
    ----------
    estimator : classifier, default=None
        The second level; by default 100 boosted stumps with learning rate 0.3.
    min_samples_leaf : int, default=2
        Minimum number of instances in a leaf of the tree.
    max_depth : int, default=None
        Depth of the tree.
    random_state : int or RandomState, default=None
        Ties of the tree, and the default second level.
    pos_label : label, default=None
        The positive class of two; ``classes_[1]`` by default.

    Attributes
    ----------
    tree_ : DecisionTreeClassifier
        The first level, on columns minus `column_shift_` and divided by
        `column_scale_`.
    column_shift_, column_scale_ : ndarray of shape (n_features,)
        Units in which trees of single precision can split the columns, whatever their
        scale and offset.
    estimator_ : classifier
        The second level.

    Notes
    -----
    The tree is grown on the same bags, so its leaves are nearly pure on them and the
    second level overfits; a forest as `estimator` is often better. Counts change when
    instances are repeated. Costs one tree on `n_instances` rows. A bag of weight two is
    not the same as a bag that is given twice, because `min_samples_leaf` counts
    instances without weights.

    Differs from [1]_: the second level boosts scikit-learn's stumps, not LogitBoost.

    References
    ----------
    .. [1] Weidmann, N., Frank, E. and Pfahringer, B., "A two-level learning method for
       generalized multi-instance problems", ECML, 2003.
       :doi:`10.1007/978-3-540-39857-8_42`

    Examples
    --------
    >>> from bagwise.datasets import make_bags
    >>> from bagwise.embedding import TwoLevelClassifier
    >>> X, y = make_bags(random_state=0)
    >>> TwoLevelClassifier(random_state=0).fit(X, y).score(X, y) > 0.8
    True
    """

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit", "predict"]), None],
        "min_samples_leaf": [Interval(Integral, 1, None, closed="left")],
        "max_depth": [Interval(Integral, 1, None, closed="left"), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator=None,
        *,
        min_samples_leaf=2,
        max_depth=None,
        random_state=None,
        pos_label=None,
    ):
        self.estimator = estimator
        self.min_samples_leaf = min_samples_leaf
        self.max_depth = max_depth
        self.random_state = random_state
        self.pos_label = pos_label

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.scale_sensitive = "no"
        tags.input_tags.sparse = True
        tags.input_tags.respects_standard_assumption = False
        return tags

    def _default_estimator(self, sparse):
        return GradientBoostingClassifier(
            n_estimators=100,
            max_depth=1,
            learning_rate=0.3,
            random_state=self.random_state,
        )

    def _fit_rows(self, X, y, weight):
        self.tree_ = DecisionTreeClassifier(
            criterion="entropy",
            min_samples_leaf=self.min_samples_leaf,
            max_depth=self.max_depth,
            random_state=self.random_state,
        )
        share = repeat(weight / X.sizes, X.offsets)
        self.column_shift_, self.column_scale_ = tree_units(X.data)
        self.tree_.fit(self._units(X), repeat(y, X.offsets), sample_weight=share)
        return self._rows(X)

    def _units(self, X):
        return in_tree_units(X.data, self.column_shift_, self.column_scale_)

    def _rows(self, X):
        counts = bag_matrix(X.offsets) @ self.tree_.decision_path(self._units(X))
        # Decision paths have 64-bit indices, which trees do not accept.
        counts.indices = counts.indices.astype(np.int32)
        counts.indptr = counts.indptr.astype(np.int32)
        return counts
