import io

import numpy as np
import pytest
from cases import build, of
from report_helpers import make_comparison
from sklearn.metrics import average_precision_score, roc_auc_score

from bagwise.report import (
    plot_confusion,
    plot_key_instances,
    plot_precision_recall,
    plot_ranking,
    plot_roc,
)


def test_the_ranking_has_a_line_for_every_method_that_finished():
    comparison = make_comparison()
    finished = [row.method for row in comparison.ranking if row.n_folds]
    ax = plot_ranking(comparison)
    assert [label.get_text() for label in ax.get_yticklabels()] == finished[::-1]
    shown = [text.get_text() for text in ax.get_legend().get_texts()]
    verdicts = [row.verdict for row in comparison.ranking if row.n_folds]
    assert shown == list(dict.fromkeys(verdicts))
    low, high = ax.get_ylim()
    assert low < 0
    assert high > len(finished) - 1


def test_legends_say_what_their_numbers_are():
    y = np.arange(60) % 2
    comparison = build(y, {"a": of(2)})
    folds = [(y[a["test"]], a["score"]) for a in comparison.arrays.values()]
    whole = [np.concatenate(values) for values in zip(*folds, strict=True)]
    area = np.mean([roc_auc_score(*fold) for fold in folds])
    for plot, title, value in (
        (plot_roc, "AUROC", area),
        (plot_precision_recall, "Average precision", average_precision_score(*whole)),
    ):
        legend = plot(comparison).get_legend()
        assert legend.get_title().get_text() == title
        assert legend.get_texts()[0].get_text() == f"a ({value:.3f})"


def test_roc_curves_rise_from_corner_to_corner():
    curve = plot_roc(make_comparison()).lines[1].get_ydata()
    assert curve[0] == 0
    assert curve[-1] == 1
    assert (np.diff(curve) >= 0).all()


@pytest.mark.parametrize("images", [False, True])
def test_key_instances_are_drawn_for_some_bags(images):
    comparison = make_comparison(images)
    figure = plot_key_instances(comparison, 3)
    assert len(figure.axes) >= 3
    problem = comparison.problem
    name = problem.classes[problem.positive]
    assert f"scores for class {name}, out of fold" in figure.get_suptitle()


def test_names_that_look_like_formulas_are_drawn_as_they_are():
    labels = [r"$\b$" if i % 2 else "$a$" for i in range(40)]
    comparison = build(labels, {r"$\frac$": of(2), "SVM, $5 a fit": of(2)})
    for plot in (plot_ranking, plot_roc, plot_confusion):
        plot(comparison).figure.savefig(io.BytesIO())
    shown = [text.get_text() for text in plot_ranking(comparison).get_yticklabels()]
    assert r"\$\frac\$" in shown
