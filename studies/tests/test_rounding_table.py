"""The table on rounding in the guide: hardly any label changes."""

import csv
from pathlib import Path

TABLE = Path(__file__).parents[2] / "docs" / "guide" / "rounding.csv"


def test_rounding_changes_few_labels():
    with TABLE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    labels = [row["labels"] for row in rows if row["labels"] != "--"]
    assert all(float(share) <= 0.02 for share in labels)
    assert len(labels) > 30
