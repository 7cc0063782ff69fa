"""The table of growth is complete for every method that is in it."""

import csv
from pathlib import Path

TABLE = Path(__file__).parents[1] / "results" / "growth" / "growth.csv"
AXES = ("bags", "instances", "features")


def rows():
    with TABLE.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_every_method_is_there_once_for_each_axis():
    there = [(row["method"], row["axis"]) for row in rows()]
    assert len(there) == len(set(there))
    assert set(there) == {(name, axis) for name, _ in there for axis in AXES}


def test_rows_have_an_exponent_or_say_why_not():
    for row in rows():
        assert row["exponent"] or row["note"], row


def test_docstrings_promise_what_was_measured():
    broken = [(r["method"], r["axis"]) for r in rows() if r["within"] == "no"]
    assert broken == []
