"""The page on rounding speaks of every classifier."""

import csv
from pathlib import Path

from sklearn.base import is_classifier
from sklearn.utils import get_tags

from bagwise.testing import all_estimators, make_instance

TABLE = Path(__file__).parent.parent / "docs" / "guide" / "rounding.csv"


def test_every_classifier_is_measured():
    with TABLE.open(encoding="utf-8", newline="") as file:
        rows = {row["method"]: row for row in csv.DictReader(file)}
    known = set()
    for name, cls in all_estimators():
        one = make_instance(cls)
        if is_classifier(one) and not get_tags(one).input_tags.two_d_array:
            known.add(name)
    # Where torch is not installed its networks are not found, and stay in the table.
    assert known <= set(rows), "python benchmarks/rounding.py --write NAME measures one"
    assert set(rows) - known <= {"AttentionBagClassifier"}
    assert all(float(row["labels"]) <= 0.02 for row in rows.values())
