"""Reports: one HTML file that opens offline."""

from bagwise.report._context import report_context
from bagwise.report._render import render_report, write_report

__all__ = ["render_report", "report_context", "write_report"]
