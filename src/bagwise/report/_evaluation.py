"""The page of `bagwise.evaluate`, and its plots."""

from __future__ import annotations

from typing import Any

import numpy as np

from bagwise.comparison.evaluate import METRICS
from bagwise.comparison.evaluation import Evaluation
from bagwise.inspection.pictures import plot_text
from bagwise.report._document import Document, Figure, PageTable, Section, as_svg
from bagwise.report.view import p_value

__all__ = ["evaluation_page", "plot_calibration", "subgroup_table"]

INK, SOFT, ACCENT, BLUE, GREEN = "#1f2328", "#8a9099", "#b4451f", "#2166a5", "#3a7d44"
SIZE = (4.6, 3.9)
ENDS = ("low", "high")
SHARES = {
    "sensitivity": "Sensitivity",
    "specificity": "Specificity",
    "ppv": "Positive predictive value",
    "npv": "Negative predictive value",
    "accuracy": "Accuracy",
}


def evaluation_page(found: Evaluation) -> Document:
    """Return the page of an evaluation.

    Parameters
    ----------
    found : Evaluation
        What `bagwise.evaluate` returns.
    """
    about = found.about
    facts = [_fact("Bags", f"{found.n_bags:,}")]
    if found.n_groups is not None:
        facts.append(
            _fact("Groups", f"{found.n_groups:,}", "the unit of the intervals")
        )
    if found.positive is not None:
        facts.append(_fact("Positive class", found.positive))
    if about.get("method"):
        trained = f"fitted to {about.get('n_bags')} bags of {about.get('data')}"
        facts.append(_fact("Model", about["method"], trained))
    sections = [_figures(found)]
    for make in (_operating, _curves, _subgroups, _risks, _against):
        section = make(found)
        if section is not None:
            sections.append(section)
    kicker = "External validation of a fixed model"
    return Document(found.data, kicker, found.summary(), facts, sections)


def _fact(name: str, value: Any, detail: str = "") -> dict[str, Any]:
    return {"name": name, "value": value, "detail": detail}


def _show(name: str, part: Any) -> str:
    """Write a figure with its interval."""
    if not part or part.get("mean") is None or not np.isfinite(part["mean"]):
        return ""
    show = METRICS[name].show
    if any(part.get(end) is None or not np.isfinite(part[end]) for end in ENDS):
        return show(part["mean"])
    return f"{show(part['mean'])} [{show(part['low'])}, {show(part['high'])}]"


def _figures(found: Evaluation) -> Section:
    rows = []
    for row in found.figures:
        name = row["name"]
        expected = _show(name, row.get("expected"))
        rows.append([row["title"], _show(name, row), expected, row.get("text", "")])
    texts = ["Figures of the fixed model on these bags, with 95% intervals."]
    if any(row[2] for row in rows):
        texts.append(
            "Expected is the figure of the cross-validation in training; of a method"
            " that was selected as the best of several, corrected for the selection."
        )
    head = ["Metric", "These bags", "Expected", "Comparison"]
    table = PageTable(head, rows, last_number=False)
    return Section("Figures", [*texts, *found.notes], tables=[table])


def _operating(found: Evaluation) -> Section | None:
    point = found.operating
    if point is None:
        if not found.confusion or len(found.classes) > 20:
            return None
        rows = [[n, *r] for n, r in zip(found.classes, found.confusion, strict=True)]
        table = PageTable(["True class", *found.classes], rows)
        return Section("Predicted classes", ["Bags by true class."], tables=[table])
    what = f"Threshold: {point['how']}."
    if point["threshold"] is not None:
        what = f"Threshold: {point['on']} {point['threshold']:.4g} ({point['how']})."
    shares = [
        [SHARES[name], _show("accuracy", one)] for name, one in point["shares"].items()
    ]
    counts = point["counts"]
    other, positive = found.classes
    matrix = [
        [f"true {positive}", counts["true positive"], counts["false negative"]],
        [f"true {other}", counts["false positive"], counts["true negative"]],
    ]
    tables = [
        PageTable(["", "Share [95% interval]"], shares),
        PageTable(["Bags", f"predicted {positive}", f"predicted {other}"], matrix),
    ]
    return Section("Operating point", [what], tables=tables)


def _curves(found: Evaluation) -> Section | None:
    figures = []
    if found.curve is not None and found.task == "classification":
        area = _show("auroc", _find(found, "auroc"))
        caption = f"True against false positive rate at all thresholds. AUROC {area}."
        figures.append(Figure("ROC curve", as_svg(_plot_roc(found)), caption))
    if found.calibration is not None:
        title, caption = "Calibration", _calibration_text(found)
        if found.task == "regression":
            title = "True against predicted values"
        figures.append(Figure(title, as_svg(plot_calibration(found)), caption))
    if found.decision is not None:
        caption = (
            "Net benefit of acting on bags above a threshold of the probability,"
            " against acting on all bags and on none. The threshold is also the odds at"
            " which a false alarm is worth a missed case."
        )
        plot = as_svg(_plot_decision(found))
        figures.append(Figure("Decision curve", plot, caption))
    return Section("Curves", figures=figures) if figures else None


def _find(found: Evaluation, name: str) -> dict[str, Any]:
    return next((row for row in found.figures if row["name"] == name), {})


def _calibration_text(found: Evaluation) -> str:
    parts = found.calibration or {}
    texts = []
    for name, ideal in (("slope", 1), ("intercept", 0)):
        one = parts.get(name)
        if one and np.isfinite(one["mean"]):
            ends = ""
            if np.isfinite(one["low"]):
                ends = f" [{one['low']:.2f}, {one['high']:.2f}]"
            texts.append(f"{name} {one['mean']:.2f}{ends} (ideal: {ideal})")
    text = f"Calibration {', '.join(texts)}." if texts else ""
    if parts.get("bins"):
        text += (
            f" Observed frequency against the probability of {parts['of']}, in bins of"
            " about equal count; bars are 95% intervals."
        )
    return text.strip()


def _axes(size: tuple[float, float] = SIZE) -> Any:
    from matplotlib.figure import Figure as MplFigure

    ax = MplFigure(figsize=size, layout="tight").subplots()
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=8)
    ax.grid(alpha=0.25)
    return ax


def _plot_roc(found: Evaluation) -> Any:
    ax = _axes()
    ax.plot(found.curve["x"], found.curve["y"], color=ACCENT)  # type: ignore[index]
    ax.plot([0, 1], [0, 1], color=SOFT, linewidth=1, linestyle="--")
    if found.operating is not None:
        shares = found.operating["shares"]
        x, y = 1 - shares["specificity"]["mean"], shares["sensitivity"]["mean"]
        ax.plot([x], [y], "o", color=INK, label="operating point")
        ax.legend(loc="lower right", fontsize=8, frameon=False)
    ax.set_xlabel("False positive rate")
    ax.set_ylabel("True positive rate")
    return ax.figure


def plot_calibration(found: Evaluation, ax: Any = None) -> Any:
    """Plot the calibration of probabilities, or true against predicted values.

    Parameters
    ----------
    found : Evaluation
        What `bagwise.evaluate` returns.
    ax : matplotlib axes, optional
        Axes to plot on.
    """
    ax = _axes() if ax is None else ax
    if found.task == "regression":
        x, y = np.array(found.curve["x"]), np.array(found.curve["y"])  # type: ignore[index]
        ends = [min(x.min(), y.min()), max(x.max(), y.max())]
        ax.plot(x, y, "o", color=BLUE, markersize=3, alpha=0.6)
        ax.set_xlabel("Predicted value")
        ax.set_ylabel("True value")
    else:
        draw_bins(ax, (found.calibration or {}).get("bins", []), ACCENT)
        ends = [0.0, 1.0]
        ax.set_xlabel("Predicted probability")
        ax.set_ylabel("Observed frequency")
    ax.plot(ends, ends, color=SOFT, linewidth=1, linestyle="--")
    return ax.figure


def draw_bins(
    ax: Any, bins: list[dict[str, float]], color: str, label: Any = None
) -> None:
    """Plot observed against predicted frequencies with their intervals."""
    x = [b["predicted"] for b in bins]
    y = np.array([b["observed"] for b in bins])
    below = y - [b["low"] for b in bins]
    above = np.array([b["high"] for b in bins]) - y
    bars = np.maximum([below, above], 0.0)
    ax.errorbar(x, y, yerr=bars, fmt="o-", color=color, markersize=4, label=label)


def _plot_decision(found: Evaluation) -> Any:
    ax, curve = _axes(), found.decision or {}
    t = np.array(curve["threshold"])
    ax.plot(t, curve["model"], color=ACCENT, label="model")
    ax.plot(t, curve["all"], color=BLUE, label="act on all")
    ax.axhline(0.0, color=SOFT, linewidth=1, label="act on none")
    top = max(curve["model"][0], curve["all"][0], 0.05)
    ax.set_ylim(-0.3 * top, 1.1 * top)
    ax.set_xlabel("Threshold of the probability")
    ax.set_ylabel("Net benefit")
    ax.legend(fontsize=8, frameon=False)
    return ax.figure


# Subgroups, risks, another model ------------------------------------------------------


def subgroup_table(subgroups: list[dict[str, Any]]) -> PageTable:
    """Return the table of subgroups.

    Parameters
    ----------
    subgroups : list of dict
        As in `Evaluation`.
    """
    metrics = [name for name in subgroups[0] if name in METRICS]
    head = ["Subgroup", "Bags", *(METRICS[name].title for name in metrics)]
    rows = []
    for row in subgroups:
        bags = str(row["n_bags"])
        if "n_positive" in row:
            bags += f" ({row['n_positive']} positive)"
        cells = [_show(name, row[name]) for name in metrics]
        rows.append([f"{row['by']} = {row['level']}", bags, *cells])
    return PageTable(head, rows)


def _subgroups(found: Evaluation) -> Section | None:
    if not found.subgroups:
        return None
    metric = next(name for name in found.subgroups[0] if name in METRICS)
    caption = (
        f"{METRICS[metric].title} of each subgroup with its 95% interval. The line is"
        " the figure of all bags."
    )
    plot = Figure("Subgroups", as_svg(_plot_subgroups(found, metric)), caption)
    text = (
        "Figures of each subgroup with 95% intervals. Of many subgroups, some differ by"
        " chance; intervals are not adjusted for their number."
    )
    table = subgroup_table(found.subgroups)
    return Section("Subgroups", [text], tables=[table], figures=[plot])


def _plot_subgroups(found: Evaluation, metric: str) -> Any:
    rows = found.subgroups[::-1]
    ax = _axes((5.2, 1.0 + 0.32 * len(rows)))
    for k, row in enumerate(rows):
        one = row[metric]
        if np.isfinite(one["low"]):
            ax.plot([one["low"], one["high"]], [k, k], color=BLUE, alpha=0.5)
        ax.plot([one["mean"]], [k], "o", color=BLUE, markersize=5)
    names = [plot_text(f"{row['by']} = {row['level']}", 28) for row in rows]
    ax.set_yticks(range(len(rows)), names)
    ax.set_ylim(-0.6, len(rows) - 0.4)
    mean = _find(found, metric).get("mean")
    if mean is not None:
        ax.axvline(mean, color=SOFT, linewidth=1, linestyle="--")
    ax.set_xlabel(METRICS[metric].title)
    return ax.figure


def _risks(found: Evaluation) -> Section | None:
    if found.risks is None:
        return None
    test = found.risks["log_rank"]
    text = (
        "Bags are divided by their predicted risk; the limits are thirds of the"
        " held-out risks in training where the model has them."
    )
    if np.isfinite(test["p"]):
        text += (
            f" Log-rank test of equal hazards: chi-squared {test['statistic']:.2f}, p"
            f" {_equals(test['p'])}. It takes bags as independent."
        )
    caption = (
        "Kaplan-Meier estimates of the share without event. Below: numbers at risk."
    )
    plot = Figure("Survival by predicted risk", as_svg(_plot_risks(found)), caption)
    return Section("Risk groups", [text], figures=[plot])


def _equals(p: float) -> str:
    shown = p_value(p)
    return shown if shown.startswith("<") else f"= {shown}"


def _plot_risks(found: Evaluation) -> Any:
    from matplotlib.figure import Figure as MplFigure

    risks = found.risks or {}
    curves, ticks = risks["curves"], risks["ticks"]
    figure = MplFigure(figsize=(5.6, 3.6 + 0.25 * len(curves)), layout="constrained")
    ax, below = figure.subplots(
        2, 1, height_ratios=[3.2, 0.28 * len(curves) + 0.15], sharex=True
    )
    colors = {"low risk": GREEN, "middle risk": BLUE, "high risk": ACCENT}
    for k, curve in enumerate(curves):
        color = colors[curve["name"]]
        label = f"{curve['name']} ({curve['events']} events, {curve['n']} bags)"
        ax.plot(curve["x"], curve["y"], color=color, label=label)
        for t, n in zip(ticks, curve["at_risk"], strict=True):
            below.text(t, -k, str(n), ha="center", va="center", fontsize=8, color=color)
    ax.set_ylim(0, 1.03)
    ax.set_ylabel("Share without event")
    ax.legend(fontsize=8, frameon=False, loc="upper right")
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(alpha=0.25)
    below.set_ylim(0.6 - len(curves), 0.6)
    names = [curve["name"] for curve in curves]
    below.set_yticks([-k for k in range(len(curves))], names, fontsize=8)
    below.set_xticks(ticks, [f"{t:.3g}" for t in ticks])
    below.tick_params(length=0, labelsize=8)
    below.spines[:].set_visible(False)
    below.set_xlabel("Time (numbers at risk above)", fontsize=9)
    return figure


def _against(found: Evaluation) -> Section | None:
    if found.against is None:
        return None
    rows = []
    for test in found.against["tests"]:
        show = METRICS[test["name"]].show
        effect = show(test["effect"])
        if np.isfinite(test["low"]):
            effect += f" [{show(test['low'])}, {show(test['high'])}]"
        other = _show(test["name"], test["other"])
        rows.append([test["title"], other, effect, p_value(test["p"])])
    name = found.against["method"]
    text = (
        f"The same bags predicted by {name}. Positive differences mean that the"
        " evaluated model is better; paired t tests, p values are not adjusted for the"
        " number of metrics."
    )
    table = PageTable(["Metric", "Other model", "Better by", "p"], rows)
    return Section("Comparison of two models", [text], tables=[table])
