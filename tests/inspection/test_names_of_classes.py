"""Every plot of scores names the class for which they are high."""

import json

import numpy as np
import pytest

from bagwise import Bags
from bagwise.compose import SimpleMI, SimpleMIRegressor
from bagwise.inspection import (
    explain,
    faithfulness,
    feature_contributions,
    plot_bag_contributions,
    plot_feature_importance,
)
from bagwise.linear_model import MILogisticRegression


def bags():
    """Return ten bags with coordinates, and their labels."""
    rng = np.random.default_rng(0)
    y = np.arange(10) % 2
    data = rng.normal(size=(30, 2)) + 3 * np.repeat(y, 3)[:, None]
    coords = np.column_stack([np.arange(30) % 3, np.zeros(30)])
    return Bags(data, 3 * np.arange(11), coords=coords), y


def texts(found):
    """Return all texts of the figure of a plot."""
    from matplotlib.text import Text

    figure = getattr(found, "figure", None) or found
    return " ".join(t.get_text() for t in figure.findobj(Text))


def charts(model, X):
    """Return all plots of scores of a model."""
    found = explain(model, X)
    parts = feature_contributions(model, X)
    of_bags = feature_contributions(model, X, level="bag", n_permutations=2)
    faithful = faithfulness(model, X, model.instance_scores(X), n_points=3)
    return [
        found.plot(2),
        found.plot_heatmap(0),
        plot_feature_importance(parts),
        plot_bag_contributions(parts, 0),
        plot_bag_contributions(of_bags, 0),
        faithful.plot(),
    ]


@pytest.mark.parametrize("positive", ["active", "inactive"])
def test_charts_name_the_class(positive):
    X, y = bags()
    words = np.where(y == 1, "active", "inactive")
    model = MILogisticRegression(pos_label=positive, random_state=0).fit(X, words)
    other = {"active": "inactive", "inactive": "active"}[positive]
    for chart in charts(model, X):
        assert f" for class {positive}" in texts(chart)
        assert f" for class {other}" not in texts(chart)
    # The pos_label of the call has precedence over that of the model.
    assert f" for class {other}" in texts(explain(model, X, pos_label=other).plot(1))
    assert json.loads(explain(model, X).to_json())["pos_label"] == positive


def test_values_and_many_classes_name_none():
    X, y = bags()
    many = SimpleMI().fit(X, np.array(["a", "b", "c"])[np.arange(10) % 3])
    values = SimpleMIRegressor().fit(X, y + 0.1 * np.arange(10))
    for model in (many, values):
        found = explain(model, X)
        assert found.pos_label is None
        assert " for " not in texts(found.plot_heatmap(0))
        assert json.loads(found.to_json())["pos_label"] is None
