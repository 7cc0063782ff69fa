"""The report: a context of plain values, and the HTML page that is made from it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from bagwise.comparison.choose import excluded, time_note
from bagwise.comparison.comparison import Comparison
from bagwise.comparison.evaluate import METRICS
from bagwise.comparison.evaluation import Evaluation
from bagwise.comparison.ranking import explain_test
from bagwise.report import _tables as tables
from bagwise.report._bags import browser_context
from bagwise.report._card import model_card
from bagwise.report._curves import (
    class_counts,
    class_figures,
    curves,
    risk_groups,
    threshold_warning,
    value_figures,
)
from bagwise.report._evaluation import evaluation_page
from bagwise.report.view import View, plain


def write_report(
    comparison: Comparison | Evaluation | Any,
    path: str | os.PathLike[str],
    *,
    evaluations: Sequence[dict[str, Any]] = (),
) -> Path:
    """Write the report of a comparison or of an evaluation, or the card of a model.

    Parameters
    ----------
    comparison : Comparison, Evaluation or estimator
        Result of `bagwise.compare` or `bagwise.evaluate`, or a fitted model with a
        training record (of `compare` or `fit`).
    path : path
        The file; missing folders are created. It is written completely or not at all.
        The suffix ``.md`` gives Markdown without figures (not for a comparison).
    evaluations : sequence of dict
        Results of `Evaluation.to_dict` for the card of a model.

    Returns
    -------
    Path
        The file: one page that opens offline.
    """
    path = Path(path)
    markdown = path.suffix == ".md"
    if isinstance(comparison, Comparison):
        if markdown:
            raise ValueError(
                "the report of a comparison is an HTML page; Comparison.to_markdown"
                " returns its ranking"
            )
        text = render_report(report_context(comparison))
    else:
        if isinstance(comparison, Evaluation):
            page = evaluation_page(comparison)
        else:
            page = model_card(comparison, evaluations)
        text = page.markdown() if markdown else page.html()
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(path.name + ".part")
    scratch.write_text(text, encoding="utf-8")
    scratch.replace(path)
    return path


def report_context(comparison: Comparison) -> dict[str, Any]:
    """Return everything the report shows.

    Parameters
    ----------
    comparison : Comparison
        The results.

    Returns
    -------
    dict
        Strings, numbers, lists and dicts, which the template lays out; ``["data"]`` is
        for the script of the page.
    """
    metric = METRICS[comparison.metric]
    view = View(comparison)
    return {
        "title": comparison.problem.name,
        "summary": comparison.summary(),
        "metric": metric.title,
        "metric_text": _in_text(metric.title),
        "metric_reason": comparison.metric_reason,
        "left": comparison.n_left,
        "weights": comparison.provenance.get("weights", ""),
        "dot": "over all test bags together",
        "finished": bool(view.finished),
        "facts": tables.facts(view),
        "classes": tables.class_table(view),
        "task": view.task,
        "positive": None if view.positive is None else view.names[view.positive],
        "ranking": tables.ranking_table(view),
        "effects": any(np.isfinite(row.effect) for row in comparison.ranking),
        "ranking_columns": tables.metric_columns(comparison),
        "axis": tables.metric_axis(comparison),
        "test_note": explain_test(comparison),
        "time_note": time_note(comparison.ranking),
        "warnings": _warnings(view),
        "cautions": comparison.cautions,
        "choices": [
            {"name": c.method.name, "chosen": c.chosen, "reason": c.reason}
            for c in comparison.choices
        ],
        "excluded": [
            c.method.name for c in excluded(comparison.choices, comparison.problem)
        ],
        "asked": all(choice.reason == "as asked" for choice in comparison.choices),
        "groups": tables.group_table(view),
        "group_column": comparison.has_group_figures
        and comparison.metric != "group_auroc",
        "stacks": tables.stack_tables(view),
        "explanations": tables.explanation_table(view),
        "types": tables.type_tables(view),
        "features": tables.feature_charts(view),
        "params": tables.params_table(comparison),
        "failures": [
            {
                "method": row["method"],
                "where": f"repeat {row['repeat'] + 1}, fold {row['fold'] + 1}",
                "error": row["error"],
                "traceback": row["traceback"],
            }
            for row in comparison.failures[:50]
        ],
        "n_failures": len(comparison.failures),
        "notes": tables.notes(comparison),
        "provenance": [
            {
                "name": key.replace("_", " "),
                "value": value if isinstance(value, str) else json.dumps(value),
            }
            for key, value in comparison.provenance.items()
        ],
        "references": [
            {"method": method.name, "paper": method.paper, "class": method.path}
            for method in comparison.methods
        ],
        "data": script_data(view),
    }


def _in_text(title: str) -> str:
    """Return a title in lower case for use in a sentence, except acronyms."""
    return title if title[1:2].isupper() or title[1:2].isdigit() else title.lower()


def _warnings(view: View) -> list[dict[str, str]]:
    """Return the methods whose labels are worse than their scores, and by how much."""
    found = {name: threshold_warning(view, name) for name in view.finished}
    return [{"method": name, "text": text} for name, text in found.items() if text]


def script_data(view: View) -> dict[str, Any]:
    """Return the values for the script, which the page contains as JSON."""
    comparison = view.comparison
    order = {row.method: number for number, row in enumerate(comparison.ranking)}
    methods = []
    for name in view.finished:
        row = comparison.ranking[order[name]]
        methods.append(
            {
                "name": name,
                "color": order[name],
                "mean": plain(row.mean, 6),
                "total": plain(row.fit_time + row.tune_time, 6),
                "probability": all(f.probability is not None for f in view.folds(name)),
            }
        )
    place, figures = {
        "regression": ("values", value_figures),
        "survival": ("risks", risk_groups),
    }.get(view.task, ("figures", class_figures))
    return {
        "task": view.task,
        "metric": METRICS[comparison.metric].title,
        "unit": METRICS[comparison.metric].high == 1.0,
        "classes": view.names,
        "counts": class_counts(view).tolist(),
        "n_bags": len(view.truth),
        "positive": view.positive,
        "methods": methods,
        "curves": curves(view) if place == "figures" else [],
        "figures": {},
        "values": {},
        "risks": {},
        place: {name: figures(view, name) for name in view.finished},
        "browser": browser_context(view),
    }


def render_report(context: dict[str, Any]) -> str:
    """Return the page for a context made by `report_context`.

    Everything that comes from data is escaped: by the template engine in the markup,
    and in the JSON by replacing the characters that could end a script element.

    Parameters
    ----------
    context : dict
        The values for the template.

    Returns
    -------
    str
        HTML.
    """
    folder = resources.files("bagwise.report") / "templates"
    read = {
        name: (folder / name).read_text(encoding="utf-8")
        for name in ("report.html", "report.css", "maps.js", "report.js")
    }
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.from_string(read["report.html"]).render(
        **{**context, "data": script_json(context["data"])},
        style=Markup(read["report.css"]),
        script=Markup(read["maps.js"] + read["report.js"]),
    )


def script_json(value: Any) -> Markup:
    """Return JSON that is safe inside a script element."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)
