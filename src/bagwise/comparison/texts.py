"""Results as tables for papers, Markdown and LaTeX, and as sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from markupsafe import Markup

from bagwise.bags.notebook import interval, table
from bagwise.comparison.evaluate import METRICS

__all__ = [
    "disagreement",
    "latex_table",
    "latex_text",
    "markdown_table",
    "markdown_text",
    "plain_results",
    "ranking_html",
    "ranking_table",
    "require_pandas",
]

_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    **{character: "\\" + character for character in "&%$#_{}"},
}


def markdown_text(text: Any) -> str:
    """Return text on one line in which Markdown and HTML have no meaning."""
    words = " ".join(str(text).split())
    for character in "\\`*_[]<>|#":
        if character in words:
            words = words.replace(character, "\\" + character)
    return words


def latex_text(text: Any) -> str:
    """Return text on one line in which LaTeX has no meaning."""
    return "".join(_LATEX.get(c, c) for c in " ".join(str(text).split()))


def markdown_table(head: Sequence[Any], rows: Sequence[Sequence[Any]]) -> list[str]:
    """Return the lines of a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(markdown_text(cell) for cell in line)} |" for line in lines]


def latex_table(
    head: Sequence[Any],
    rows: Sequence[Sequence[Any]],
    *,
    caption: str,
    label: str,
) -> str:
    r"""Return a LaTeX table; it needs ``\usepackage{booktabs}``.

    Parameters
    ----------
    head : sequence of str
        Names of the columns; the first one is aligned to the left.
    rows : sequence of sequence
        The cells.
    caption, label : str
        Caption, and the name for references.
    """

    def line(cells: Sequence[Any]) -> str:
        return f"{' & '.join(latex_text(cell) for cell in cells)} \\\\"

    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{latex_text(caption)}}}",
            rf"\label{{{label}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}",
            r"\toprule",
            line(head),
            r"\midrule",
            *map(line, rows),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def ranking_table(comparison: Any) -> tuple[list[str], list[list[str]], str]:
    """Return head, rows and caption of the ranking of a comparison."""
    metric = METRICS[comparison.metric]
    grouped = comparison.has_group_figures and comparison.metric != "group_auroc"
    first = [METRICS["group_auroc"].title] if grouped else []
    head = ["Method", *first, metric.title, "Difference from the best", "p (Holm)"]
    rows = []
    for row in comparison.ranking:
        group = []
        if grouped:
            show = METRICS["group_auroc"].show
            ends = row.group_low, row.group_high
            group = [_interval(show, row.group_auroc, *ends)]
        own = _interval(metric.show, row.mean, row.low, row.high)
        worse = -1.0 if metric.higher else 1.0
        low, high = sorted((worse * row.effect_low, worse * row.effect_high))
        effect = _interval(metric.show, worse * row.effect, low, high)
        p = "" if np.isnan(row.p_holm) else f"{row.p_holm:.3f}"
        p = "< 0.001" if p == "0.000" else p
        rows.append([row.method, *group, own, effect, p])
    units = "groups of bags" if comparison.problem.groups is not None else "bags"
    caption = (
        f"{metric.title} of {len(comparison.ranking)} methods on"
        f" {comparison.problem.name} ({len(comparison.problem.X)} bags,"
        f" {comparison.protocol_text}), with 95% intervals. Tests against the best"
        f" method: paired t tests over {units}, adjusted by Holm's procedure."
    )
    if comparison.winner is not None:
        corrected = comparison.winner.corrected
        found = _interval(
            metric.show, corrected.mean, corrected.low, corrected.high, always=True
        )
        caption += (
            f" Corrected for its selection as the best, {comparison.best} has {found}."
        )
    return head, rows, caption


def _interval(
    show: Any, mean: float, low: float, high: float, *, always: bool = False
) -> str:
    if np.isnan(mean):
        return "not defined" if always else ""
    ends = "" if np.isnan(low) else f" [{show(low)}, {show(high)}]"
    return f"{show(mean)}{ends}"


def ranking_html(comparison: Any) -> str:
    """Return the ranking as an HTML table, with intervals on a common axis."""
    metric = METRICS[comparison.metric]
    ends = [v for row in comparison.ranking for v in (row.low, row.mean, row.high)]
    known = [value for value in ends if np.isfinite(value)] or [0.0]
    axis = (min(known), max(known))
    rows = []
    for row in comparison.ranking:
        text = ""
        if np.isfinite(row.low):
            text = f"{metric.show(row.low)} to {metric.show(row.high)}"
        rows.append(
            [
                row.rank,
                row.method,
                metric.show(row.mean),
                text,
                interval(row.low, row.mean, row.high, axis, f"95% interval {text}"),
                "" if np.isnan(row.p_holm) else f"{row.p_holm:.3f}",
                f"{row.fit_time:.3g}",
            ]
        )
    header = ["", "method", metric.title, "95% interval"]
    header += [f"{metric.show(axis[0])} to {metric.show(axis[1])}", "p (Holm)"]
    ranking = table([*header, "fit, s"], rows)
    title = Markup("<p><b>{}</b>: {}</p>{}")
    return str(title.format(comparison.problem.name, comparison.summary(), ranking))


def plain_results(comparison: Any) -> dict[str, Any]:
    """Return ranking, failures, choices and provenance as plain values."""
    return {
        "data": comparison.problem.name,
        "metric": comparison.metric,
        "protocol": comparison.protocol.to_dict(),
        "ranking": [
            {**row.to_dict(), "grid_ends": comparison.grid_ends(row.method)}
            for row in comparison.ranking
        ],
        "winner": comparison.winner and asdict(comparison.winner),
        "group_winner": comparison.group_winner and asdict(comparison.group_winner),
        "cautions": comparison.cautions,
        "failures": [
            {k: row[k] for k in ("method", "repeat", "fold", "error")}
            for row in comparison.failures
        ],
        "choices": [
            {"method": c.method.name, "chosen": c.chosen, "reason": c.reason}
            for c in comparison.choices
        ],
        "provenance": comparison.provenance,
        "files": {name: str(path) for name, path in comparison.paths.items()},
    }


def disagreement(checks: Sequence[Any]) -> dict[str, Any]:
    """Describe how often two kinds of members of a stack disagree.

    Parameters
    ----------
    checks : sequence of array-like of shape (4,)
        For each fold: the share of held-out bags on which they disagree; how often
        members that respect the standard assumption, and the others, are right there;
        and whether the share is large.

    Returns
    -------
    dict
        "share", "warn" (whether it is large in half of the folds or more) and "text".
    """
    share, own, others, warned = map(float, np.mean(np.asarray(checks), axis=0))
    warn = warned >= 0.5
    text = (
        "members that respect the standard assumption and the others disagree on"
        f" {100 * share:.0f}% of held-out bags"
    )
    if warn and others > own:
        text += (
            f", and the others are correct more often ({others:.2f} against {own:.2f}):"
            " properties other than single positive instances separate the classes. If "
            "they may not do so on new bags, set assumption='standard' of "
            "BagClassifier, which restricts the model to members that respect the "
            "assumption"
        )
    elif warn:
        text += (
            f", and the former are correct more often ({own:.2f} against {others:.2f}):"
            " assumption='standard' of BagClassifier restricts the model to them"
        )
    return {"share": share, "warn": warn, "text": text}


def require_pandas(rows: str) -> Any:
    """Return pandas, or say which list of dicts has the same content as a frame."""
    try:
        import pandas
    except ImportError:
        raise ImportError(
            f"data frames need pandas (pip install pandas); {rows} has the same as a"
            " list of dicts"
        ) from None
    return pandas
