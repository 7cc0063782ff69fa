"""Pages and plots of results; a page is one HTML file that opens offline."""

from bagwise.report._context import report_context
from bagwise.report._plots import (
    plot_confusion,
    plot_key_instances,
    plot_precision_recall,
    plot_ranking,
    plot_roc,
)
from bagwise.report._render import render_report, write_report

__all__ = [
    "plot_confusion",
    "plot_key_instances",
    "plot_precision_recall",
    "plot_ranking",
    "plot_roc",
    "render_report",
    "report_context",
    "write_report",
]
