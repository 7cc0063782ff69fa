"""The page on rounding speaks of every classifier and regressor."""

import csv
from pathlib import Path

from sklearn.base import is_classifier, is_regressor
from sklearn.utils import get_tags

from bagwise.testing import all_estimators, make_instance

TABLE = Path(__file__).parent.parent / "docs" / "guide" / "rounding.csv"


def test_every_method_is_measured():
    with TABLE.open(encoding="utf-8", newline="") as file:
        rows = {row["method"]: row for row in csv.DictReader(file)}
    known = set()
    for name, cls in all_estimators():
        one = make_instance(cls)
        fits = is_classifier(one) or is_regressor(one)
        if fits and not get_tags(one).input_tags.two_d_array:
            known.add(name)
    # Where torch is not installed its networks are not found, and stay in the table.
    assert known <= set(rows), "python benchmarks/rounding.py --write NAME measures one"
    assert set(rows) - known <= {"AttentionBagClassifier", "AttentionBagRegressor"}
    labels = [row["labels"] for row in rows.values() if row["labels"] != "--"]
    assert all(float(share) <= 0.02 for share in labels)
    assert len(labels) > 30
