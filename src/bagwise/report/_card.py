"""The card of a model: what it is, how good it is, and for what it is not meant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bagwise.comparison.clinical import calibration_line, operating_point
from bagwise.comparison.evaluate import METRICS
from bagwise.comparison.inference import Interval
from bagwise.inspection import assumption_line
from bagwise.io.record import ModelRecord, require_record
from bagwise.report._document import Document, PageTable, Section
from bagwise.report._evaluation import SHARES, subgroup_table

__all__ = ["model_card"]

FEW = 50  # with fewer bags, or groups of bags, little can be concluded
MOST_NAMES = 60  # maximum number of columns that are listed
VERSIONS = ("bagwise", "python", "numpy", "scipy", "scikit-learn", "numba", "joblib")
TASKS = {
    "multilabel": "several labels",
    "regression": "a value",
    "survival": "a risk (times until an event)",
}


def model_card(model: Any, evaluations: Sequence[dict[str, Any]] = ()) -> Document:
    """Return the card of a model.

    Parameters
    ----------
    model : estimator
        A fitted model with a training record.
    evaluations : sequence of dict
        Results of `Evaluation.to_dict` on other data.
    """
    record = require_record(model, "a model card")
    about = record.about
    facts = [
        _fact("Predicts", _target(about), "per bag"),
        _fact("Method", about.get("method", type(model).__name__)),
        _fact("Training bags", f"{about.get('n_bags', 0):,}", about.get("data", "")),
    ]
    if about.get("positive"):
        facts.append(_fact("Positive class", about["positive"]))
    facts += _main(about, evaluations)
    sections = [
        _data(about),
        _method(about),
        _figures(about),
        *_held_out(record),
        *(section for found in evaluations for section in _evaluation(found)),
        Section("Limits", items=_limits(record, evaluations)),
        _versions(about),
        _use(record),
    ]
    title = f"{about.get('method', type(model).__name__)} on {about.get('data', '')}"
    return Document(title, "Model card", _lead(about), facts, sections)


def _fact(name: str, value: Any, detail: str = "") -> dict[str, Any]:
    return {"name": name, "value": value, "detail": detail}


def _metric(name: Any, part: Any) -> str:
    """Write a figure of a metric with its interval."""
    show = METRICS[name].show if name in METRICS else "{:.3g}".format
    if not isinstance(part, dict) or not _number(part.get("mean")):
        return ""
    text = show(part["mean"])
    if _number(part.get("low")) and _number(part.get("high")):
        text += f" [{show(part['low'])}, {show(part['high'])}]"
    return text


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and bool(np.isfinite(value))


def _title(name: str) -> str:
    return METRICS[name].title if name in METRICS else name


def _figure_of(about: dict[str, Any]) -> dict[str, Any]:
    rows = about.get("figures") or []
    return next((row for row in rows if row["name"] == about.get("metric")), {})


def _main(
    about: dict[str, Any], evaluations: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the main figure in boxes: of cross-validation, and of other data."""
    name, found = about.get("metric"), []
    row = _figure_of(about)
    text = _metric(name, row.get("corrected") or row)
    if text:
        detail = "cross-validated"
        if row.get("corrected"):
            detail += f", corrected for selection among {row['candidates']} methods"
        found.append(_fact(_title(str(name)), text, detail))
    for one in evaluations:
        same = [row for row in one["figures"] if row["name"] == name]
        if same:
            detail = f"on {one['n_bags']} other bags ({one['data']})"
            found.append(_fact(_title(str(name)), _metric(name, same[0]), detail))
    return found


def _target(about: dict[str, Any]) -> str:
    if about.get("classes"):
        return f"one of {len(about['classes'])} classes"
    return TASKS.get(about.get("task", ""), "not recorded")


def _lead(about: dict[str, Any]) -> str:
    text = f"Predicts {_target(about)} for a bag"
    if about.get("positive"):
        text = f"Predicts whether a bag is {about['positive']}"
    n, d = about.get("n_instances", 0), about.get("n_features", 0)
    text += f" from {d:,} columns of its instances."
    return f"{text} Fitted to {about.get('n_bags', 0):,} bags with {n:,} instances."


# What was fitted ----------------------------------------------------------------------


def _data(about: dict[str, Any]) -> Section:
    rows: list[list[Any]] = [["Data", about.get("data", "")]]
    rows.append(["Bags", f"{about.get('n_bags', 0):,}"])
    if about.get("n_groups"):
        rows.append(["Groups (kept whole in splits)", f"{about['n_groups']:,}"])
    rows.append(["Instances", f"{about.get('n_instances', 0):,}"])
    if about.get("sizes"):
        low, middle, high = about["sizes"]
        rows.append(["Instances per bag", f"{low:g} to {high:g}, median {middle:g}"])
    if about.get("classes"):
        pairs = zip(about["classes"], about["class_counts"], strict=True)
        rows.append(["Bags by class", ", ".join(f"{c}: {n:,}" for c, n in pairs)])
    if about.get("values"):
        low, middle, high = about["values"]
        rows.append(["Values", f"{low:.4g} to {high:.4g}, median {middle:.4g}"])
    if about.get("times"):
        low, _, high = about["times"]
        rows.append(["Events", f"{about['events']:,} of {about['n_bags']:,} bags"])
        rows.append(["Times", f"{low:.4g} to {high:.4g}"])
    names = about.get("features")
    if names:
        more = f" and {len(names) - MOST_NAMES:,} more"
        shown = ", ".join(map(str, names[:MOST_NAMES]))
        rows.append(["Columns", shown + (more if len(names) > MOST_NAMES else "")])
    else:
        rows.append(["Columns", f"{about.get('n_features', 0):,} without names"])
    gaps = about.get("impute")
    rows.append(["Missing values", f"filled by the {gaps}" if gaps else "refused"])
    rows.append(["Hash of the data", about.get("data_hash", "")])
    return Section("Training data", tables=[PageTable(["", ""], rows, numbers=False)])


def _method(about: dict[str, Any]) -> Section:
    params = about.get("params") or {}
    chosen = ", ".join(f"{name} = {value}" for name, value in params.items())
    said = about.get("assumption") or assumption_line(str(about.get("method")))
    rows = [
        ["Method", about.get("method", "")],
        ["Class", about.get("class", "")],
        ["Paper", about.get("paper", "")],
        ["Chosen parameters", chosen or "the defaults"],
        ["Scaling of columns", about.get("scale", "none")],
        ["Measured assumption", said],
        ["Protocol", about.get("protocol", "")],
    ]
    tuning = (about.get("provenance") or {}).get("tuning")
    if tuning:
        rows.append(["Tuning", tuning])
    rows = [row for row in rows if row[1]]
    table = PageTable(["", ""], rows, numbers=False)
    return Section("Method and protocol", tables=[table])


# How good it is -----------------------------------------------------------------------


def _figures(about: dict[str, Any]) -> Section:
    rows = about.get("figures") or []
    if not rows:
        text = (
            "None: the model was fitted to all bags without cross-validation, and its"
            " figures are not known."
        )
        return Section("Figures", [text])
    unit = "groups of bags" if about.get("n_groups") else "bags"
    texts = [
        f"Held-out predictions: {about.get('protocol', '')}. 95% intervals; their unit"
        f" is {unit}."
    ]
    corrected = any(row.get("corrected") for row in rows)
    head = ["Metric", "Cross-validated"] + (["Corrected"] if corrected else [])
    if corrected:
        texts.append(
            "The method was selected as the best of several by its own figure;"
            " corrected is the figure without the bias of this selection."
        )
    cells = []
    for row in rows:
        cells.append([_title(row["name"]), _metric(row["name"], row)])
        if corrected:
            cells[-1].append(_metric(row["name"], row.get("corrected")))
    return Section("Figures", texts, tables=[PageTable(head, cells)])


def _held_out(record: ModelRecord) -> list[Section]:
    """Return the operating point of held-out training bags, of two classes."""
    held = record.held_out
    if (
        "label" not in held
        or held["truth"].ndim > 1
        or not record.about.get("positive")
    ):
        return []
    truth, groups = held["truth"], held.get("group")
    found = operating_point(truth, held["label"], groups, fixed=False)
    found.pop("accuracy")  # reported with the metrics, over all repeats
    rows = [[SHARES[name], _interval(one)] for name, one in found.items()]
    if "probability" in held:
        line = calibration_line(
            truth, held["probability"], groups, values_are="probability"
        )
        rows.append(["Calibration slope (ideal: 1)", _interval(line["slope"], 2)])
        rows.append(["Calibration intercept (0)", _interval(line["intercept"], 2)])
    text = (
        f"Of {len(truth):,} held-out training bags, with the threshold of each fold."
        " Predictive values depend on the share of positive bags, which is"
        f" {np.mean(truth == 1):.0%} here."
    )
    table = PageTable(["", "Share [95% interval]"], rows)
    return [Section("Operating point and calibration", [text], tables=[table])]


def _interval(one: Interval, digits: int = 3) -> str:
    if not np.isfinite(one.mean):
        return "not defined"
    text = f"{one.mean:.{digits}f}"
    if np.isfinite(one.low):
        text += f" [{one.low:.{digits}f}, {one.high:.{digits}f}]"
    return text


def _evaluation(found: dict[str, Any]) -> list[Section]:
    head = ["Metric", "These bags", "Comparison with cross-validation"]
    rows = [
        [_title(row["name"]), _metric(row["name"], row), row.get("text") or ""]
        for row in found["figures"]
    ]
    title = f"Evaluation on {found['data']}"
    table = PageTable(head, rows, last_number=False)
    sections = [Section(title, [found["text"], *found["notes"]], tables=[table])]
    if found.get("subgroups"):
        text = "95% intervals, not adjusted for the number of subgroups."
        table = subgroup_table(found["subgroups"])
        sections.append(
            Section(f"Subgroups of {found['data']}", [text], tables=[table])
        )
    return sections


# Limits and use -----------------------------------------------------------------------


def _limits(record: ModelRecord, evaluations: Sequence[dict[str, Any]]) -> list[str]:
    """Return what follows from the record for the use of the model."""
    about = record.about
    found = []
    if not evaluations:
        found.append(
            "Not evaluated on other data than those of training (bagwise evaluate):"
            " figures on data of another origin may be lower."
        )
    if not any(one.get("subgroups") for one in evaluations):
        found.append("Subgroups were not compared (bagwise evaluate --by).")
    n = about.get("n_groups") or about.get("n_bags") or 0
    unit = "groups of bags" if about.get("n_groups") else "bags"
    if n < FEW:
        found.append(f"Fitted to only {n} {unit}: figures and model are uncertain.")
    if not about.get("n_groups"):
        found.append(
            "Bags were taken as independent. If several belong to one patient or batch,"
            " the figures are too high and the intervals too narrow."
        )
    counts = about.get("class_counts")
    if counts and min(counts) < FEW // 2:
        rare = about["classes"][int(np.argmin(counts))]
        found.append(f"Only {min(counts)} training bags are of class {rare}.")
    if counts and about.get("positive"):
        found.append(
            "Probabilities and predictive values hold for the share of positive bags"
            " in training."
        )
    if ": no," in str(about.get("assumption", "")):
        found.append(
            "The method does not respect the standard assumption (a bag is positive if"
            " and only if one of its instances is): it may use properties of a bag"
            " that do not make a single instance positive."
        )
    if about.get("sizes"):
        low, _, high = about["sizes"]
        found.append(
            f"Training bags have {low:g} to {high:g} instances; larger and smaller bags"
            " are extrapolation. `bagwise check` compares new data with the training"
            " data."
        )
    if not (about.get("conformal") and record.held_out):
        found.append("No coverage of prediction sets was stored with the model.")
    found.append("No statement about cause and effect follows from a prediction.")
    return found


def _versions(about: dict[str, Any]) -> Section:
    source = about.get("provenance") or {}
    rows = [[name, source[name]] for name in VERSIONS if source.get(name)]
    for name in ("platform", "random_state", "started", "command"):
        if source.get(name) is not None:
            rows.append([name.replace("_", " "), source[name]])
    return Section("Versions", tables=[PageTable(["", ""], rows, numbers=False)])


def _use(record: ModelRecord) -> Section:
    sets = bool(record.held_out) and record.about.get("task") != "survival"
    lines = [
        "import bagwise",
        "",
        'model = bagwise.load("model.bagwise")',
        'X, _ = bagwise.read_bags("new.csv", bag="bag")',
        "model.predict(X)",
    ]
    more = " --prediction-sets" if sets else ""
    shell = [
        f"bagwise predict model.bagwise new.csv --bag bag{more}",
        "bagwise check new.csv --bag bag --reference model.bagwise",
        "bagwise evaluate model.bagwise labeled.csv --bag bag --label label",
    ]
    text = (
        "A model file holds numbers and names of classes of bagwise and scikit-learn;"
        " loading it runs no code from it."
    )
    return Section("How to load", [text], code=["\n".join(lines), "\n".join(shell)])
