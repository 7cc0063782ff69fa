import numpy as np
import pytest
from report_helpers import make_comparison

from bagwise.report import plot_key_instances, plot_ranking, plot_roc


def test_the_ranking_has_a_line_for_every_method_that_finished():
    comparison = make_comparison()
    finished = [row.method for row in comparison.ranking if row.n_folds]
    ax = plot_ranking(comparison)
    assert [label.get_text() for label in ax.get_yticklabels()] == finished[::-1]


def test_roc_curves_rise_from_corner_to_corner():
    curve = plot_roc(make_comparison()).lines[1].get_ydata()
    assert curve[0] == 0
    assert curve[-1] == 1
    assert (np.diff(curve) >= 0).all()


@pytest.mark.parametrize("images", [False, True])
def test_key_instances_are_drawn_for_some_bags(images):
    assert len(plot_key_instances(make_comparison(images), 3).axes) >= 3
