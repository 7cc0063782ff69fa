"""Files of a re-run table (CSV and Markdown), and the page over all tables."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from studies.rows import Row, keep_earlier, read_rows
from studies.tables import list_tables, load_table
from studies.verdicts import RULE, cause_of

__all__ = ["table_page", "write_results_page", "write_table"]

MARKS = {
    "reached": "reached",
    "not reached": "**not reached**",
    "not comparable": "not comparable",
    "not run": "not run",
}


def write_table(rows: Sequence[Row], folder: Path) -> dict[str, Path]:
    """Write the CSV file and the Markdown page of a table.

    A cell that has not been run keeps the figures of the existing file, so that a table
    can be re-run row by row. Such cells are marked, and the page gives the day of their
    measurement.
    """
    name = rows[0]["table"]
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{name}.csv"
    if target.exists():
        rows = keep_earlier(rows, read_rows(target))
    scratch = target.with_name(target.name + ".part")
    with scratch.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    scratch.replace(target)
    page = folder / f"{name}.md"
    page.write_text(table_page(rows), encoding="utf-8")
    return {"csv": target, "markdown": page}


# Markdown ----------------------------------------------------------------------


def table_page(rows: Sequence[Row], *, level: int = 1, rule: bool = True) -> str:
    """Return a table as Markdown: measured next to published, then the reasons.

    Parameters
    ----------
    rows : sequence of dict
        Rows of the CSV file of one table.
    level : int
        Depth of its heading.
    rule : bool
        Whether the rule of the verdicts is repeated.
    """
    first = rows[0]
    lines = [
        f"{'#' * level} {first['table']}: {first['title']}",
        "",
        f"{first['paper']}, {first['where']}.",
        "",
        _protocol_line(rows),
        "",
    ]
    if rule:
        lines += [RULE, ""]
    lines += _grid(rows)
    lines += ["", *_behind(rows), *_reasons(rows), *_thresholds(rows), *_narrow(rows)]
    lines += _kept(rows)
    if first["table_note"]:
        lines += ["", str(first["table_note"])]
    lines += ["", f"{_origin(rows)} {_cost_line(rows)}", ""]
    return "\n".join(lines)


def _origin(rows: Sequence[Row]) -> str:
    """Name the command that runs the table; cells may be from several runs."""
    most = max(rows, key=lambda row: int(row["repeats"]))
    return (
        f"`{most['command']}` runs the whole table. Cells may be from several runs,"
        " some of them of a part of the table (columns `command` and `finished` of the"
        " CSV file)."
    )


def _protocol_line(rows: Sequence[Row]) -> str:
    ran = [row for row in rows if row["dataset"]]
    kinds = list(dict.fromkeys(str(row["protocol"]) for row in ran))
    done = [int(row["repeats"]) for row in ran if row["measured"] != ""]
    paper = sorted({int(row["paper_repeats"]) for row in ran})
    times = _span(done) if done else "0"
    extra = "; ".join(dict.fromkeys(_figure_name(row) for row in rows))
    third = "optimistic / " if _has_optimistic(rows) else ""
    what = (
        " Optimistic: the best values of the grid on the reported folds (-: not run, or"
        " nothing is tuned)."
        if third
        else ""
    )
    return (
        f"Protocol: {'; '.join(kinds)}. Repeats: {times} (paper: {_span(paper)})."
        f" Figures: {extra}. Each cell: measured ± standard error / {third}published,"
        f" verdict.{what}"
    )


def _has_optimistic(rows: Sequence[Row]) -> bool:
    """Return whether a table has figures by which values can be chosen."""
    return any(row["metric"] in ("accuracy", "auroc") for row in rows)


def _figure_name(row: Row) -> str:
    name = str(row["metric"]).replace("_", " ")
    name = {"ari": "adjusted Rand index", "auroc": "AUROC"}.get(name, name)
    lower = row["lower_is_better"] == "true"
    if name == "seconds":
        return "seconds, smaller is better"
    if lower:
        name = f"error, 1 - {name}, smaller is better"
    return f"{name} in percent" if row["unit"] == "percent" else name


def _span(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low} to {high}"


def _grid(rows: Sequence[Row]) -> list[str]:
    columns = list(dict.fromkeys(str(row["column"]) for row in rows))
    labels = list(dict.fromkeys(str(row["row"]) for row in rows))
    cells = {(row["row"], row["column"]): row for row in rows}
    lines = ["| | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for label in labels:
        shown = [_entry(cells[label, column]) for column in columns]
        lines.append(f"| {label} | " + " | ".join(shown) + " |")
    return lines


def _entry(row: Row) -> str:
    digits = {"percent": 1, "seconds": 3}.get(str(row["unit"]), 3)
    measured = "-"
    if row["measured"] != "":
        measured = f"{float(row['measured']):.{digits}f}"
        if row["std_error"] != "":
            measured += f" ± {float(row['std_error']):.{digits}f}"
            measured += "" if row.get("error_of") else "\\*"
    published = "-" if row["published"] == "" else f"{float(row['published']):g}"
    if _has_optimistic([row]):
        looked = str(row.get("optimistic") or "")
        third = f"{float(looked):.{digits}f}" if looked else "-"
        published = f"{third} / {published}"
    verdict = MARKS[str(row["verdict"])]
    if row["behind"] == "true" and row["verdict"] in ("reached", "not reached"):
        verdict += f" ({float(row['difference']):+.{digits}f})"
    if row.get("cause"):
        verdict += f": {row['cause']}"
    return f"{measured} / {published}<br>{verdict}"


def _behind(rows: Sequence[Row]) -> list[str]:
    """Name the rows that are worse in every column, which no single verdict shows."""
    found = []
    for label in dict.fromkeys(str(row["row"]) for row in rows):
        judged = [
            row
            for row in rows
            if row["row"] == label and row["verdict"] in ("reached", "not reached")
        ]
        if len(judged) > 2 and all(row["behind"] == "true" for row in judged):
            mean = sum(float(row["difference"]) for row in judged) / len(judged)
            found.append(f"{label} ({mean:+.3g} on average, {len(judged)} columns)")
    if not found:
        return []
    return ["- Worse in every column, with any verdict: " + "; ".join(found) + "."]


def _reasons(rows: Sequence[Row]) -> list[str]:
    """Return a list of why cells were not reached, compared or run.

    Only measured reasons count; a known difference from the paper is a remark.
    """
    grouped: dict[str, list[str]] = {}
    remarks: dict[str, list[str]] = {}
    for row in rows:
        where = f"{row['row']} on {row['column']}"
        verdict = str(row["verdict"])
        if verdict == "not reached":
            gap, reason = f"{float(row['difference']):+.3g}", _optimism(row)
            if row.get("optimistic"):
                seen = float(row["optimistic"]) - float(row["published"])
                gap += f", optimistic {seen:+.3g}"
            grouped.setdefault(f"not reached{reason}", []).append(f"{where} ({gap})")
            if row["note"] and not row.get("cause"):
                remarks.setdefault(str(row["note"]), []).append(where)
        elif verdict != "reached" and row["reason"]:
            grouped.setdefault(f"{verdict}: {row['reason']}", []).append(where)
    return [
        f"- {reason[0].upper()}{reason[1:].rstrip('.')} — {_some(where, 20)}."
        for reason, where in grouped.items()
    ] + [
        f"- Remark: {note.rstrip('.')} — {_some(where)}."
        for note, where in remarks.items()
    ]


def _optimism(row: Row) -> str:
    """Describe what the optimistic figure shows about a difference."""
    if row.get("cause"):
        return f": {row['cause']}"
    if row.get("optimistic"):
        return ", nor with the best values on the reported folds"
    if row["tuning"] == "none" or not _has_optimistic([row]):
        return "; nothing is tuned, so that optimism is not the reason"
    return "; the best values on the reported folds were not computed"


def _thresholds(rows: Sequence[Row]) -> list[str]:
    """List the differences that a threshold can and cannot explain."""
    reached: list[str] = []
    missed: list[str] = []
    for row in rows:
        if row["verdict"] != "not reached" or not row.get("best_threshold"):
            continue
        best, published = float(row["best_threshold"]), float(row["published"])
        text = f"{row['row']} on {row['column']} ({best:.3g} / {published:g})"
        (reached if _reaches_at_best_threshold(row) else missed).append(text)
    parts = {
        "- Reached at the best threshold of the test scores, which may be the"
        " reason": reached,
        "- Not reached at the best threshold of the test scores: no threshold closes"
        " the difference": missed,
    }
    return [f"{text} — {_some(names, 20)}." for text, names in parts.items() if names]


def _narrow(rows: Sequence[Row]) -> list[str]:
    """Name the cells whose values were chosen at the end of a grid."""
    grouped: dict[str, list[str]] = {}
    for row in rows:
        for note in filter(None, str(row.get("grid_ends") or "").split("; ")):
            where, _, _ = note.partition(" in ")
            count = note.partition(" in ")[2].partition(" folds")[0]
            place = f"{row['row']} on {row['column']} ({count})"
            grouped.setdefault(where, []).append(place)
    return [
        f"- The grid may be too narrow, {where} — {_some(names)}."
        for where, names in grouped.items()
    ]


def _kept(rows: Sequence[Row]) -> list[str]:
    """Name the cells whose figures are from an earlier run."""
    grouped: dict[str, list[str]] = {}
    for row in rows:
        if row.get("kept"):
            where = f"{row['row']} on {row['column']}"
            grouped.setdefault(str(row["kept"]), []).append(where)
    return [
        f"- Measured on {version} — {_some(where)}."
        for version, where in grouped.items()
    ]


def _some(names: Sequence[str], limit: int = 6) -> str:
    more = len(names) - limit
    return "; ".join(names[:limit]) + (f" and {more} more" if more > 0 else "")


def _cost(rows: Sequence[Row]) -> tuple[float, int]:
    """Return processor minutes of one repeat, and how many cells are unknown."""
    costs = [row["cpu_seconds_per_repeat"] for row in rows if _can_run(row)]
    known = [float(cost) for cost in costs if cost != ""]
    return sum(known) / 60.0, len(costs) - len(known)


def _can_run(row: Row) -> bool:
    return bool(row["method"] and row["dataset"]) and row["skipped"] == ""


def _cost_line(rows: Sequence[Row]) -> str:
    minutes, unknown = _cost(rows)
    spent = sum(float(row["cpu_seconds"]) for row in rows) / 60.0
    rest = f" ({unknown} cells have not been timed)" if unknown else ""
    return (
        f"One repeat costs about {minutes:.1f} processor minutes{rest};"
        f" the figures shown took {spent:.1f}."
    )


# Page of all tables ------------------------------------------------------------------


def write_results_page(folder: str | os.PathLike[str]) -> Path:
    """Write ``README.md`` over the CSV files of a folder.

    Parameters
    ----------
    folder : path
        Where `reproduce` wrote its tables.

    Returns
    -------
    Path
        The page.
    """
    folder = Path(folder)
    tables = {path.stem: read_rows(path) for path in sorted(folder.glob("*.csv"))}
    # Other studies store their results in the same folder.
    tables = {name: rows for name, rows in tables.items() if "verdict" in rows[0]}
    if not tables:
        raise FileNotFoundError(f"no CSV files of tables in {folder}")
    page = folder / "README.md"
    page.write_text(results_page(tables), encoding="utf-8")
    return page


def results_page(tables: Mapping[str, Sequence[Row]]) -> str:
    """Return the page over all tables."""
    lines = [
        "# The papers' tables",
        "",
        "This page is made from the CSV files next to it by `studies.pages`. Every"
        " figure in them comes from a run of `python -m studies reproduce`, some cells"
        " from later runs than others; the files give for each cell when and how often"
        " it was run.",
        "",
        RULE,
        "",
        "| table | of | reached | (equal or better) | not reached | not comparable |"
        " not run | repeats | minutes per repeat |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    order = [name for name in list_tables() if name in tables]
    order += [name for name in tables if name not in order]
    lines += [_summary(name, tables[name]) for name in order]
    for name in list_tables():
        if name not in tables:
            table = load_table(name)
            lines.append(f"| {name} | {table.where} | | | | | all | 0 | |")
    total = sum(_cost(tables[name])[0] for name in order)
    unknown = sum(_cost(tables[name])[1] for name in order)
    lines += [
        "",
        "Minutes of one processor core for one repeat of all cells; some tables share"
        f" runs. Sum: {total:.0f} minutes"
        + (f", and {unknown} cells not timed yet." if unknown else "."),
        "",
    ]
    every = [row for name in order for row in tables[name]]
    lines += _verdicts(every) + _gaps(every)
    for name in order:
        lines += [table_page(tables[name], level=2, rule=False)]
    return "\n".join(lines)


def _gaps(rows: Sequence[Row]) -> list[str]:
    """Return a table of all figures that were not reached, with the reason."""
    behind = [row for row in rows if row["verdict"] == "not reached"]
    if not behind:
        return []
    lines = [
        "## What was not reached, and why",
        "",
        "| table | cell | published | measured | optimistic | best threshold |"
        " reason |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in behind:
        figures = [row["published"], row["measured"]]
        figures += [row.get("optimistic") or "", row.get("best_threshold") or ""]
        shown = [f"{float(figure):.3g}" if figure != "" else "-" for figure in figures]
        cells = [
            row["table"],
            f"{row['row']} on {row['column']}",
            *shown,
            reason_of(row, rows),
        ]
        lines.append(f"| {' | '.join(str(cell) for cell in cells)} |")
    return [*lines, ""]


REASONS = """Reached: see the rule above. Optimism: the best values of the grid on the
reported folds reach the figure, by the same rule. Another name (scaling, kernel,
intercept and so on): a variant of the row that differs in this reaches it, by the same
rule. Threshold: the best thresholds of the test folds reach it, so that the threshold
may be the reason. Quoted: none of these, but the paper seems to quote the figure from
another paper, with other folds and grids. Open: none of these."""


def _verdicts(rows: Sequence[Row]) -> list[str]:
    """Return one table of all cells that can be judged, row by row."""
    lines = [
        "## Every cell in one table",
        "",
        *REASONS.splitlines(),
        "",
        "| table | row | cells |",
        "|---|---|---|",
    ]
    found: dict[tuple[str, str], list[str]] = {}
    counts: dict[str, int] = {}
    for row in rows:
        if row["verdict"] not in ("reached", "not reached"):
            continue
        reason = "reached" if row["verdict"] == "reached" else reason_of(row, rows)
        counts[reason] = counts.get(reason, 0) + 1
        shown = reason if reason == "reached" else f"**{reason}**"
        cells = found.setdefault((str(row["table"]), str(row["row"])), [])
        cells.append(f"{row['column']}: {shown}")
    for (table, label), cells in found.items():
        lines.append(f"| {table} | {label} | {', '.join(cells)} |")
    total = ", ".join(f"{count} {reason}" for reason, count in counts.items())
    return [*lines, "", f"Together: {total}.", ""] if found else []


def reason_of(row: Row, rows: Sequence[Row]) -> str:
    """Return the reason of a gap in words; `rows` has the variants of the row."""
    if row.get("cause"):
        return str(row["cause"])
    found: dict[str, None] = {}
    for other in rows:
        base, _, reason = str(other.get("explains") or "").partition(": ")
        same = all(other[key] == row[key] for key in ("table", "column"))
        if base == row["row"] and same and _closes(row, other):
            found[reason] = None
    if found:
        return " or ".join(found)
    if _reaches_at_best_threshold(row):
        return "threshold"
    return "quoted" if row.get("quoted") else "open"


def _closes(row: Row, variant: Row) -> bool:
    """Return whether a variant reaches the figure and closes half of the gap."""
    if variant["measured"] == "" or variant["std_error"] == "":
        return False
    return bool(
        cause_of(
            float(row["published"]),
            float(row["measured"]),
            float(variant["measured"]),
            float(variant["std_error"]),
            lower_is_better=row["lower_is_better"] == "true",
        )
    )


def _reaches_at_best_threshold(row: Row) -> bool:
    # Older files do not have this column.
    if not row.get("best_threshold"):
        return False
    best, published = float(row["best_threshold"]), float(row["published"])
    return best <= published if row["lower_is_better"] == "true" else best >= published


def _summary(name: str, rows: Sequence[Row]) -> str:
    counts = [sum(row["verdict"] == verdict for row in rows) for verdict in MARKS]
    done = [int(row["repeats"]) for row in rows if row["measured"] != ""]
    minutes, unknown = _cost(rows)
    cost = f"{minutes:.1f}" + (" +" if unknown else "")
    times = _span(done) if done else "0"
    ahead = [row["verdict"] == "reached" and row["behind"] == "false" for row in rows]
    counts.insert(1, sum(ahead))
    shown = " | ".join(str(count) for count in counts)
    anchor = f"[{name}]({name}.md)"
    return f"| {anchor} | {rows[0]['where']} | {shown} | {times} | {cost} |"
