"""HTML for notebooks: valid markup, true numbers, names as text."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from bagwise import Bags, Ragged
from bagwise.bags.notebook import dots, histogram, interval, table

EVIL = "<script>alert(1)</script>&\"'"


class Tree(HTMLParser):
    """Collects the texts by tag, and fails where a tag is closed in the wrong order."""

    VOID = ("br", "rect", "circle", "path")

    def __init__(self, html):
        super().__init__()
        self.open, self.texts, self.tags = [], {}, []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.setdefault(self.open[-1] if self.open else "", []).append(data)


@pytest.fixture
def bags():
    rows = np.arange(24.0).reshape(12, 2)
    return Bags(
        rows,
        [0, 1, 3, 6, 8, 9, 12],
        ids=[EVIL, "b", "c", "d", "e", "f"],
        groups=["p", "p", "q", "q", "r", "r"],
        feature_names=[EVIL, "v"],
    )


def test_bags_show_their_numbers_and_the_first_bags(bags):
    tree = Tree(bags._repr_html_())
    cells = tree.texts["td"]
    assert cells[:3] == [EVIL, "1", "p"]
    assert cells[-1] == "and 1 more"
    assert tree.texts["th"] == ["bag", "instances", "group"]
    text = "".join(tree.texts["p"])
    assert "6 bags, 12 instances, 2 features, float64, 3 groups" in text
    assert f"features: {EVIL}, v" in text
    assert "script" not in tree.tags


@pytest.mark.parametrize("values", [np.arange(12), np.arange(12) / 7, ["x"] * 12])
def test_ragged_values_of_any_type(bags, values):
    html = Ragged(values, bags.offsets)._repr_html_()
    cells = Tree(html).texts["td"]
    first = values[0] if isinstance(values[0], str) else f"{values[0]:.4g}"
    assert cells[:3] == ["0", "1", first]
    assert ("<svg" in html) == (not isinstance(values[0], str))


def test_columns_of_ragged_values_and_missing_ones(bags):
    tree = Tree(Ragged(np.full((12, 3), np.nan), bags.offsets)._repr_html_())
    assert "3 values per instance" in "".join(tree.texts["p"])
    assert "svg" not in tree.tags


def test_heights_of_a_histogram_are_counts():
    values = np.repeat([2, 3, 5], [4, 8, 1])
    bars = re.findall(r"<rect x='([\d.]+)' y='[\d.]+' width='[\d.]+' height='([\d.]+)'",
                      histogram(values, "label"))  # fmt: skip
    places, heights = np.array(bars, dtype=float).T
    np.testing.assert_allclose(heights / heights.max(), [0.5, 1.0, 0.125])
    np.testing.assert_allclose(places, [0, 60, 180])  # four bars: 2, 3, 4 and 5
    many = histogram(np.linspace(0, 1, 1000), "label")
    assert many.count("<rect") == 24


def test_dots_and_intervals_lie_on_the_common_axis():
    found = re.findall(
        r"cx='([\d.]+)' cy='8' r='([\d.]+)'", dots([0, 5, 10], 0, 10, "", 1)
    )
    np.testing.assert_allclose([float(x) for x, _ in found], [5, 80, 155])
    assert [float(r) for _, r in found] == [2.5, 4.5, 2.5]
    bar = interval(0.2, 0.5, 0.7, (0.0, 1.0), "")
    left, width = re.search(r"rect x='([\d.]+)' y='6.5' width='([\d.]+)'", bar).groups()
    assert (float(left), float(width)) == (35.0, 75.0)
    assert "rect" not in interval(np.nan, 0.5, np.nan, (0.0, 1.0), "")
    assert interval(np.nan, np.nan, np.nan, (0.0, 1.0), "") == ""


def test_cells_are_escaped():
    tree = Tree(table([EVIL], [[EVIL], [3]]))
    assert tree.texts == {"th": [EVIL], "td": [EVIL, "3"]}
