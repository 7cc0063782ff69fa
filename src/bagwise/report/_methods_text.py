"""The methods section of a paper, written from what a comparison recorded."""

from __future__ import annotations

import importlib
import inspect
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bagwise._version import __version__
from bagwise.comparison.comparison import Comparison
from bagwise.comparison.evaluate import METRICS
from bagwise.comparison.texts import latex_text

__all__ = ["MethodsText", "methods_text", "reference_of"]


@dataclass(frozen=True)
class MethodsText:
    """The paragraph of a methods section, with its references.

    Attributes
    ----------
    text : str
        The paragraph.
    bibtex : str
        BibTeX entries of what it cites.
    """

    text: str
    bibtex: str


@dataclass(frozen=True)
class Reference:
    """One entry of a bibliography."""

    authors: tuple[str, ...]
    title: str
    where: str
    year: str
    doi: str = ""
    kind: str = field(default="misc", compare=False)

    @property
    def key(self) -> str:
        """Surname of the first author, year and first long word of the title."""
        words = re.findall(r"[a-z]+", _ascii(self.title).lower())
        word = next((w for w in words if len(w) > 3), "")
        name = re.sub(r"[^a-z]", "", _ascii(self.surnames[0]).lower())
        return f"{name}{self.year}{word}"

    @property
    def surnames(self) -> list[str]:
        """The surnames of the authors."""
        return [name.partition(",")[0] for name in self.authors]

    @property
    def short(self) -> str:
        """Authors and year, as in a text."""
        names = self.surnames
        who = " and ".join(names) if len(names) < 3 else f"{names[0]} et al."
        return f"{who}, {self.year}"

    def bibtex(self) -> str:
        """Return the entry."""
        place = {"article": "journal", "inproceedings": "booktitle"}
        entries = {
            "author": " and ".join(
                f"{{{name}}}" if " developers" in name else name
                for name in self.authors
            ),
            "title": f"{{{self.title}}}",
            place.get(self.kind, "howpublished"): self.where,
            "year": self.year,
            "doi": self.doi,
        }
        lines = [f"  {name} = {{{v}}}" for name, v in entries.items() if v]
        return f"@{self.kind}{{{self.key},\n" + ",\n".join(lines) + "\n}"


BAGWISE = Reference(
    ("The bagwise developers",),
    f"bagwise: multi-instance learning with scikit-learn's API, version {__version__}",
    "Python package",
    "2026",
)
VARMA = Reference(
    ("Varma, S.", "Simon, R."),
    "Bias in error estimation when using cross-validation for model selection",
    "BMC Bioinformatics 7, 91",
    "2006",
    "10.1186/1471-2105-7-91",
    "article",
)
HOLM = Reference(
    ("Holm, S.",),
    "A simple sequentially rejective multiple test procedure",
    "Scandinavian Journal of Statistics 6, 65-70",
    "1979",
    "",
    "article",
)
TSAMARDINOS = Reference(
    ("Tsamardinos, I.", "Greasidou, E.", "Borboudakis, G."),
    "Bootstrapping the out-of-sample predictions for efficient and accurate"
    " cross-validation",
    "Machine Learning 107, 1895-1922",
    "2018",
    "10.1007/s10994-018-5714-4",
    "article",
)
SKLEARN = Reference(
    ("Pedregosa, F.", "Varoquaux, G.", "Gramfort, A.", "Michel, V.", "others"),
    "Scikit-learn: machine learning in Python",
    "Journal of Machine Learning Research 12, 2825-2830",
    "2011",
    "",
    "article",
)


def methods_text(comparison: Comparison, *, format: str = "text") -> MethodsText:
    r"""Return the paragraph of a methods section that describes a comparison.

    Parameters
    ----------
    comparison : Comparison
        The results.
    format : {"text", "markdown", "latex"}, default="text"
        How references are cited: by authors and year, as ``[@key]`` (for pandoc), or as
        ``\cite{key}``.

    Returns
    -------
    MethodsText
        The paragraph and BibTeX entries. It describes the comparison. The authors have
        to add which data were collected and why.
    """
    forms: dict[str, Callable[[list[Reference]], str]] = {
        "text": lambda refs: f" ({'; '.join(ref.short for ref in refs)})",
        "markdown": lambda refs: f" [{'; '.join('@' + ref.key for ref in refs)}]",
        "latex": lambda refs: rf"~\cite{{{','.join(ref.key for ref in refs)}}}",
    }
    if format not in forms:
        raise ValueError(f"format is {', '.join(forms)}; got {format!r}")
    used: dict[Reference, None] = {}
    escape: Callable[[Any], str] = latex_text if format == "latex" else str

    def cite(*references: Reference) -> str:
        used.update(dict.fromkeys(references))
        return forms[format](list(references))

    parts = [
        _compared(comparison, cite, escape),
        _protocol(comparison, cite, escape),
        _inference(comparison, cite, escape),
        _software(comparison, cite, escape),
    ]
    entries = [ref.bibtex() for ref in sorted(used, key=lambda ref: ref.key)]
    return MethodsText(" ".join(parts) + "\n", "\n\n".join(entries) + "\n")


def _compared(found: Comparison, cite: Any, escape: Any) -> str:
    X, problem = found.problem.X, found.problem
    text = (
        f"Multi-instance methods were compared on {len(X):,} bags"
        f" ({X.n_instances:,} instances, {X.n_features:,} features;"
        f" {int(X.sizes.min()):,} to {int(X.sizes.max()):,} instances per bag, median"
        f" {np.median(X.sizes):g})"
    )
    if problem.groups is not None:
        text += f" of {len(np.unique(problem.groups.astype(str))):,} groups"
    if problem.task == "classification":
        labels, counts = np.unique(problem.y, return_counts=True)
        pairs = [f"{escape(a)} ({n:,})" for a, n in zip(labels, counts, strict=True)]
        text += f" with the labels {_listed(pairs)}"
        if problem.positive is not None:
            text += f"; {escape(labels[problem.positive])} was the positive class"
    elif problem.task == "regression":
        low, middle, high = np.quantile(problem.y, [0, 0.5, 1])
        text += f" with values from {low:.3g} to {high:.3g} (median {middle:.3g})"
    elif problem.task == "survival":
        text += f" with {int(problem.y['event'].sum()):,} observed events"
    names = []
    for method in found.methods:
        reference = reference_of(method)
        name = escape(method.name)
        names.append(name + cite(reference) if reference else name)
    return f"{text}. The methods were {_listed(names)}."


def _protocol(found: Comparison, cite: Any, escape: Any) -> str:
    text = f"Bags were split by {escape(found.protocol_text)}"
    if found.problem.groups is not None:
        text += ", with all bags of a group in the same fold"
    if found.tuning:
        n = found.tuning.get("n_splits")
        text += (
            f". Parameters were chosen by an inner {n}-fold cross-validation inside"
            f" each training set{cite(VARMA)}"
        )
        scoring = str(found.tuning.get("scoring") or "").removeprefix("neg_")
        text += f" that maximized {escape(_scoring(scoring))}" if scoring else ""
    else:
        text += ". Methods were used with fixed parameters"
    if any(method.scale != "none" for method in found.methods):
        text += ". Instances were scaled with the training set only"
    if found.impute:
        text += (
            f". Missing values were replaced by the {found.impute.replace('_', ' ')}"
        )
        text += " of the training set"
    if found.calibrate:
        text += (
            ". Probabilities were calibrated by a sigmoid on out-of-fold predictions of"
            " the training set"
        )
    if found.failures:
        text += f". Of all runs, {len(found.failures)} failed"
    return f"{text}."


def _scoring(name: str) -> str:
    own = next((m.in_text for m in METRICS.values() if m.scoring == name), None)
    return own or name.replace("_", " ")


def _inference(found: Comparison, cite: Any, escape: Any) -> str:
    metric = METRICS[found.metric]
    unit = "group of bags" if found.problem.groups is not None else "bag"
    text = (
        f"The {metric.in_text} of all test bags is reported with 95% confidence"
        f" intervals whose unit is the {unit} and which include the variance from"
        " overlapping training sets"
    )
    text = text.replace("%", r"\%") if escape is latex_text else text
    if len(found.methods) > 1:
        text += (
            f". Methods were compared with the best one by paired t tests over {unit}s,"
            if unit == "bag"
            else ". Methods were compared with the best one by paired t tests over"
            " groups of bags,"
        )
        text += f" adjusted by Holm's procedure{cite(HOLM)}"
    if found.winner is not None:
        text += (
            ". The figure of the best method was corrected for its selection among"
            f" {len(found.winner.shares)} methods by a bootstrap of the out-of-fold"
            f" predictions{cite(TSAMARDINOS)}"
        )
    return text + "."


def _software(found: Comparison, cite: Any, escape: Any) -> str:
    about = found.provenance
    version = about.get("bagwise", __version__)
    text = f"Computations used bagwise {escape(version)}{cite(BAGWISE)}"
    if about.get("scikit-learn"):
        text += f" and scikit-learn {escape(about['scikit-learn'])}{cite(SKLEARN)}"
    if about.get("python"):
        text += f" with Python {escape(about['python'])}"
    return f"{text}; the random seed was {found.random_state}."


def _listed(names: Sequence[str]) -> str:
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def reference_of(method: Any) -> Reference | None:
    """Return the paper of a method: complete if the docstring of its class has it."""
    short = _short_reference(method.paper)
    if short is None:
        return None
    words = _words(short.title)
    for text in _references_in(method.path):
        full = _full_reference(text)
        same = full and full.surnames[0][:4] == short.surnames[0][:4]
        if full and len(words & _words(full.title)) >= 0.8 * len(words):
            return full
        if full and same and words <= _words(full.title):
            return full
    return short


def _short_reference(text: str) -> Reference | None:
    """Read "Ray and Craven, Supervised versus ..., ICML 2005"."""
    found = re.fullmatch(r"(.*\S)\s+(\d{4})", " ".join(text.split()))
    if found is None:
        return None
    parts, year = found.group(1).rstrip(",").split(", "), found.group(2)
    pair = r"[A-Z][\w-]* and [A-Z][\w-]*"  # not a title that contains "and"
    last = next((k for k, part in enumerate(parts) if re.fullmatch(pair, part)), 0)
    names = ", ".join(parts[: last + 1]).replace(" and ", ", ").split(", ")
    rest = parts[last + 1 :]
    where = rest.pop() if len(rest) > 1 else ""
    return Reference(tuple(names), ", ".join(rest), where, year, kind=_kind(where))


def _full_reference(text: str) -> Reference | None:
    """Read an entry of the references of a docstring."""
    found = re.match(r'(?P<who>.+?),? "(?P<title>.+?),?",? ?(?P<rest>.*)', text)
    if found is None:
        return None
    doi = re.search(r":doi:`(.+?)`", text)
    rest = re.sub(r":\w+:`.+?`", "", found["rest"]).strip(" .,")
    years = re.findall(r"\b(?:19|20)\d{2}\b", rest)
    if not years:
        return None
    before, _, after = rest.rpartition(years[-1])
    where = f"{before.rstrip(' ,')}{after}".strip(" .,")
    names = re.findall(
        r"([^,]+?), ((?:[A-Z]\.[- ]?)+)(?:, | and |$|, and )", found["who"] + ", "
    )
    who = tuple(f"{a.strip().removeprefix('and ')}, {b.strip()}" for a, b in names)
    if not who:
        return None
    return Reference(
        who, found["title"], where, years[-1], doi[1] if doi else "", _kind(where)
    )


def _kind(where: str) -> str:
    meetings = r"\b(ICML|NIPS|NeurIPS|IJCAI|AAAI|ICCV|CVPR|PAKDD|ECML|ICDM|UAI)\b"
    if re.search(meetings + "|Conference|Proceedings|Workshop", where):
        return "inproceedings"
    if not where or re.search(r"thesis|[Rr]eport|[Ww]orking paper|arXiv", where):
        return "misc"
    return "article"


def _references_in(path: str) -> list[str]:
    """Return the references in the docstring of a class of bagwise."""
    module, _, name = path.rpartition(".")
    if not module.startswith("bagwise."):
        return []
    try:
        text = inspect.getdoc(getattr(importlib.import_module(module), name)) or ""
    except (ImportError, AttributeError):
        return []
    section = re.search(
        r"^References\n-+\n(.*?)(?=^\S[^\n]*\n-+\n|\Z)", text, re.M | re.S
    )
    entries = re.split(r"^\.\. \[\w+\]", section[1] if section else "", flags=re.M)
    return [" ".join(entry.split()) for entry in entries if entry.strip()]


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", _ascii(text).lower()))


def _ascii(text: str) -> str:
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
