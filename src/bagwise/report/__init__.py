"""Reports and plots of comparisons; a report is one HTML file that opens offline."""

from bagwise.report._methods_text import methods_text
from bagwise.report._page import write_report
from bagwise.report._paper import write_figure
from bagwise.report._plots import (
    plot_confusion,
    plot_key_instances,
    plot_precision_recall,
    plot_ranking,
    plot_roc,
)

__all__ = [
    "methods_text",
    "plot_confusion",
    "plot_key_instances",
    "plot_precision_recall",
    "plot_ranking",
    "plot_roc",
    "write_figure",
    "write_report",
]
