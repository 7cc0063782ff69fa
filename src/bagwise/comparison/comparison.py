"""What `compare` returns: rankings, frames and files."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise.comparison._search import widen_note
from bagwise.comparison.catalog import Method
from bagwise.comparison.choose import Choice
from bagwise.comparison.evaluate import METRICS, GroupCounts
from bagwise.comparison.inference import MARGIN, Interval, Winner
from bagwise.comparison.problem import Problem
from bagwise.comparison.protocols import Protocol
from bagwise.comparison.ranking import (
    RankRow,
    cautions,
    figure_interval,
    figure_of,
    group_counts,
    rank_methods,
    select_method,
)
from bagwise.comparison.record import attach_comparison
from bagwise.comparison.run_one import single_thread
from bagwise.comparison.store import COLUMNS, saved_parts, write_described
from bagwise.comparison.texts import (
    disagreement,
    latex_table,
    markdown_table,
    plain_results,
    ranking_html,
    ranking_table,
    require_pandas,
)
from bagwise.comparison.tuning import OF_TUNING, TunedModel, fit_method
from bagwise.io import save
from bagwise.io.csv_files import write_csv

__all__ = ["Comparison"]

CSV_COLUMNS = [name for name in COLUMNS if name not in ("description", "traceback")]


@dataclass(eq=False)
class Comparison:
    """Results of several methods on one data set.

    Made by :func:`bagwise.compare`; in a notebook it shows its ranking.
    :mod:`bagwise.report` turns it into a page and into plots.

    Attributes
    ----------
    problem : Problem
        The data.
    methods : list of Method
        What was compared.
    rows : list of dict
        One row per run, failed ones included.
    metric : str
        What decides the ranking.
    protocol : Protocol
        How bags were split.
    tuning : dict or None
        The inner cross-validation; None without tuning.
    random_state : int
        Random seed of splits and methods.
    choices : list of Choice
        Why each method was selected or not.
    metric_reason, grid : str
        Why the metric was chosen, and the name of the grids.
    arrays : dict of dict of ndarray
        By the key of a run: its test bags, scores, labels, instance scores.
    paths : dict of str to Path
        What was written.
    provenance : dict
        Versions, data hash, command, random seed and so on.
    calibrate : bool
        Whether every method was calibrated inside its training folds.
    impute : str or None
        How missing values were filled, inside training folds.
    conformal : dict or None
        The miscoverage `alpha` of prediction sets of the model, and whether it holds
        `per_class`.
    margin : float
        Differences up to this do not matter in practice.
    opened : bool
        Whether it was read by `open`, without the features of the instances.
    """

    problem: Problem
    methods: list[Method]
    rows: list[dict[str, Any]]
    metric: str
    protocol: Protocol
    tuning: dict[str, Any] | None
    random_state: int
    choices: list[Choice] = field(default_factory=list)
    provenance: dict[str, Any] = field(default_factory=dict)
    metric_reason: str = ""
    grid: str = "default"
    arrays: dict[str, dict[str, NDArray[Any]]] = field(default_factory=dict)
    paths: dict[str, Path] = field(default_factory=dict)
    calibrate: bool = False
    impute: str | None = None
    conformal: dict[str, Any] | None = None
    margin: float = MARGIN
    opened: bool = False

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        store: str | os.PathLike[str] | None = None,
    ) -> Comparison:
        """Read the results of `compare` from its folder, without the instances.

        Rankings, tables and figures are those of the comparison. The features of the
        instances are not stored, so that no model can be fitted.

        Parameters
        ----------
        path : path
            The folder that `compare(out=...)` or ``bagwise compare`` has written.
        store : path, optional
            The store of the runs, if it is not in this folder.

        Returns
        -------
        Comparison
            The results.
        """
        return cls(**saved_parts(path, store), opened=True)

    def runs(self, method: str) -> list[dict[str, Any]]:
        """Return the finished rows of a method, in the order of folds.

        Parameters
        ----------
        method : str
            Name of a method.

        Returns
        -------
        list of dict
            One row per fold.
        """
        found = [r for r in self.rows if r["method"] == method and r["status"] == "ok"]
        return sorted(found, key=lambda row: (row["repeat"], row["fold"]))

    @property
    def failures(self) -> list[dict[str, Any]]:
        """The rows of failed runs, with their tracebacks."""
        return [row for row in self.rows if row["status"] != "ok"]

    @property
    def protocol_text(self) -> str:
        """How bags were split, with the number of folds that all methods finished."""
        text = self.protocol.describe()
        n_folds = len(self.protocol.folds(len(self.problem.y), self.problem.units))
        if not self.n_left:
            return text
        ended: dict[tuple[int, int], int] = {}
        for row in self.rows:
            fold = row["repeat"], row["fold"]
            ended[fold] = ended.get(fold, 0) + 1
        n_full = sum(n == len(self.methods) for n in ended.values())
        return f"{n_full} of {n_folds} folds of {text}"

    @property
    def n_left(self) -> int:
        """Number of runs that did not end within a time budget."""
        folds = self.protocol.folds(len(self.problem.y), self.problem.units)
        return len(folds) * len(self.methods) - len(self.rows)

    @cached_property
    def ranking(self) -> list[RankRow]:
        """Methods from best to worst, with intervals and tests against the best."""
        return rank_methods(self)

    @cached_property
    def winner(self) -> Winner | None:
        """The best method with its figure corrected for having been selected.

        None with fewer than two methods that have finished, or too few bags.
        """
        return select_method(self)

    @cached_property
    def group_winner(self) -> Winner | None:
        """The best method with its AUROC per group, corrected for the selection.

        None where `winner` is, with too few groups for figures per group, and where
        copies of bags join groups.
        """
        if not self.has_group_figures or self.problem.copies is not None:
            return None
        return select_method(self, "group_auroc")

    @cached_property
    def cautions(self) -> list[str]:
        """Sentences on how wide intervals are, and how many bags a test would need."""
        return cautions(self)

    @property
    def best(self) -> str:
        """Name of the method that ranks first."""
        if not self.ranking or self.ranking[0].n_folds == 0:
            raise RuntimeError(
                "no method finished; the reasons are in Comparison.failures"
            )
        return self.ranking[0].method

    @property
    def frame(self) -> Any:
        """All runs as a pandas data frame, one row per fold."""
        pandas = require_pandas("Comparison.rows")
        names = [name for name in COLUMNS if name != "description"]
        return pandas.DataFrame([{n: row[n] for n in names} for row in self.rows])

    @property
    def ranking_frame(self) -> Any:
        """The ranking as a pandas data frame; figures per group come first."""
        frame = require_pandas("Comparison.rows").DataFrame(
            [row.to_dict() for row in self.ranking]
        )
        if self.has_group_figures:
            first = ["method", "group_auroc", "group_low", "group_high"]
            frame = frame[["rank", *first, *frame.columns.drop(["rank", *first])]]
        return frame.set_index("rank")

    def to_markdown(self) -> str:
        """Return the ranking as a Markdown table.

        Returns
        -------
        str
            The table.
        """
        return "\n".join(markdown_table(*ranking_table(self)[:2])) + "\n"

    def to_latex(self, *, caption: str = "", label: str = "tab:ranking") -> str:
        r"""Return the ranking as a LaTeX table (needs ``\usepackage{booktabs}``).

        Parameters
        ----------
        caption : str, default=""
            The caption; if empty, what was measured and how.
        label : str, default="tab:ranking"
            Name for references.

        Returns
        -------
        str
            The table.
        """
        head, rows, about = ranking_table(self)
        return latex_table(head, rows, caption=caption or about, label=label)

    def fit_best(self, method: str | None = None) -> TunedModel:
        """Tune and fit a method on all bags.

        Parameters
        ----------
        method : str, optional
            Name of a method; the one that ranks first by default.

        Returns
        -------
        TunedModel
            The pipeline and the chosen parameters. The pipeline has a training record
            for :func:`bagwise.evaluate` and others (`training_record_`).
        """
        if self.opened:
            raise ValueError(
                "an opened comparison holds no instances to fit: load model.bagwise"
            )
        name = self.best if method is None else method
        entry = next(m for m in self.methods if m.name == name)
        with single_thread():
            fitted = fit_method(
                entry.spec(),
                self.problem.X,
                self.problem.y,
                scale=entry.scale,
                impute=self.impute,
                grid=entry.grid_of(self.grid),
                tuning=entry.tuning_of(self.grid, self.tuning),
                random_state=self.random_state,
                calibrate=self.calibrate,
                pos_label=self.problem.pos_label,
                sample_weight=self.problem.sample_weight,
            )
        attach_comparison(self, entry, fitted)
        return fitted

    @property
    def unweighted(self) -> list[str]:
        """Names of the methods that cannot take the weights of the bags."""
        if self.problem.sample_weight is None:
            return []
        return [method.name for method in self.methods if not method.weights]

    @property
    def unconverged(self) -> list[str]:
        """Methods that did not converge, with the number of their fits.

        Fits of candidates for tuning do not count: what was chosen is fitted again.
        """
        told = []
        for method in self.methods:
            rows = [row["notes"] for row in self.runs(method.name)]
            n = sum(any(map(_is_unconverged, notes)) for notes in rows)
            if n:
                told.append(
                    f"{method.name} did not converge in {n} of {len(rows)} fits"
                )
        return told

    def grid_ends(self, method: str, share: float = 0.0) -> list[str]:
        """Describe which parameters were chosen at an end of their grid.

        Parameters
        ----------
        method : str
            Name of a method.
        share : float, default=0.0
            Ends that were chosen in less than this share of the folds are left out.

        Returns
        -------
        list of str
            One sentence for each parameter and end; empty where the grid was wide
            enough.
        """
        ends = [row.get("grid_ends") or {} for row in self.runs(method)]
        return widen_note(ends, share)

    def disagreement(self, method: str) -> dict[str, Any]:
        """Describe how often members with different assumptions disagree.

        On held-out training bags, see `BagClassifier.assumption_check_`.

        Parameters
        ----------
        method : str
            Name of a method.

        Returns
        -------
        dict
            "share" of the bags on which they disagree, "warn" (whether it is large) and
            "text"; empty for methods that are not such a stack.
        """
        rows = [self.arrays.get(row["key"], {}) for row in self.runs(method)]
        found = [row["assumption_check"] for row in rows if "assumption_check" in row]
        return disagreement(found) if found else {}

    def write_csv(self, path: str | os.PathLike[str], *, escape: bool = True) -> Path:
        """Write one row per run.

        Parameters
        ----------
        path : path
            The CSV file.
        escape : bool, default=True
            Whether text that a spreadsheet would take for a formula (it begins with
            ``=``, ``+``, ``-`` or ``@``) gets an apostrophe in front.

        Returns
        -------
        Path
            The same path.
        """
        path = Path(path)
        with path.open("w", newline="", encoding="utf-8") as file:
            rows = ([_cell(row[name]) for name in CSV_COLUMNS] for row in self.rows)
            write_csv(file, CSV_COLUMNS, rows, escape=escape)
        return path

    def write(
        self,
        folder: str | os.PathLike[str],
        store: str | os.PathLike[str] | None = None,
    ) -> dict[str, Path]:
        """Write the table of all runs and the refitted best model into a folder.

        Parameters
        ----------
        folder : path
            Created if it does not exist.
        store : path, optional
            The store of the runs. With it, `open` can read the results again.

        Returns
        -------
        dict of str to Path
            What was written, as in `paths`.
        """
        out = Path(folder)
        out.mkdir(parents=True, exist_ok=True)
        self.paths["results"] = self.write_csv(out / "results.csv")
        if self.ranking and self.ranking[0].n_folds:
            self.provenance |= self._write_best(out / "model.bagwise")
        if store is not None:
            self.paths["comparison"] = write_described(self, out, Path(store))
        return self.paths

    def _write_best(self, path: Path) -> dict[str, Any]:
        """Refit the best method and save it; return what to add to the provenance.

        If that fails, the results of all runs are not lost.
        """
        try:
            fitted = self.fit_best()
            found: dict[str, Any] = {"best_params": fitted.params}
            if fitted.notes:
                found["refit"] = "; ".join(fitted.notes)
            save(fitted.model, path)
        except Exception as error:
            name = self.ranking[0].method
            text = f"{name} could not be refitted and saved: {error or type(error)}"
            warnings.warn(text, UserWarning, stacklevel=4)
            return {"model": f"not written: {text}"}
        self.paths["model"] = path
        return found

    # Display ---------------------------------------------------------------------

    def summary(self) -> str:
        """Summarize the result in one or two sentences.

        Returns
        -------
        str
            The text.
        """
        finished = [row for row in self.ranking if row.n_folds]
        if not finished:
            why = [
                text
                for n, text in (
                    (len(self.failures), f"{len(self.failures)} runs failed"),
                    (self.n_left, f"{self.n_left} runs have not ended"),
                )
                if n
            ]
            return f"No method finished: {', '.join(why)}."
        first, *rest = finished
        tied = [row for row in rest if row.rank == first.rank]
        others = [row for row in rest if row.rank != first.rank]
        title = METRICS[self.metric].in_text
        if tied:
            names = ", ".join(row.method for row in [first, *tied[:-1]])
            text = f"{names} and {tied[-1].method} share the first place"
        else:
            text = f"{first.method} ranks first"
        groups = self._of_groups(first)
        text += f".{groups} Per bag: " if groups else ": "
        text += f"{title} {self._first_figure(first)}."
        best = "them" if tied else "it"
        different = "not significantly different"
        for verdict, told in (
            ("equivalent", f"is equivalent to {best} in practice"),
            (different, f"is {different} from {best}"),
            ("worse", "is significantly worse"),
            ("untested", "is not tested"),
        ):
            these = [row.method for row in others if row.verdict == verdict]
            if len(these) == 1:
                text += f" {these[0]} {told}."
            elif these and len(these) == len(others) and verdict == different:
                none = "Neither" if len(these) == 2 else "None"
                text += f" {none} of the {len(these)} other methods is significantly"
                text += f" different from {best}."
            elif these:
                told = told.replace("is ", "are ", 1)
                all_ = "Both" if len(these) == 2 else f"All {len(these)}"
                who = all_ if len(these) == len(others) else len(these)
                text += f" {who} other methods {told}."
        if self.failures:
            n = len(self.failures)
            text += f" {n} runs failed." if n > 1 else " One run failed."
        if self.n_left:
            text += f" {self.n_left} runs have not ended."
        return text

    def _first_figure(self, first: RankRow) -> str:
        """Return the figure of the best method, corrected for selecting it, as text."""
        show = METRICS[self.metric].show
        text, by = _shown(first, show), self.protocol_text
        if self.winner is not None:
            own, n = _shown(self.winner.corrected, show), len(self.winner.shares)
            own += f", corrected for its selection among {n} methods"
            return f"{own} ({text} without the correction), by {by}"
        few = "" if first.reliable else "; intervals from so few bags are unreliable"
        return f"{text} by {by}{few}"

    def _of_groups(self, row: RankRow) -> str:
        """Return the AUROC of groups (such as patients), if enough of them count."""
        counts = self.group_counts
        if counts is None or np.isnan(row.group_auroc) or self.metric == "group_auroc":
            return ""
        which = f"{counts.n} groups"
        if counts.counted < counts.n:
            which = f"{counts.counted} of {which}, those with bags of one class"
        show = METRICS["group_auroc"].show
        text = _shown(self.group_interval(row.method), show)
        if self.group_winner is not None:
            own = _shown(self.group_winner.corrected, show)
            text = f"{own}, corrected for its selection ({text} without the correction)"
        return f" Per group ({which}): AUROC {text}."

    @property
    def has_group_figures(self) -> bool:
        """Whether there are enough groups for figures per group."""
        return self.group_counts is not None and self.group_counts.enough

    def group_interval(self, method: str) -> Interval:
        """Return the area under the ROC curve of groups with its 95% interval.

        Parameters
        ----------
        method : str
            The method.

        Returns
        -------
        Interval
            `mean`, `low` and `high`; NaN where too few groups count.
        """
        if not self.has_group_figures:
            return Interval(np.nan, np.nan, np.nan)
        return figure_interval(figure_of(self, method, "group_auroc"), "group_auroc")

    @cached_property
    def group_counts(self) -> GroupCounts | None:
        """How many groups of test bags count; None without groups or classes."""
        return group_counts(self)

    def __repr__(self) -> str:
        """Show the ranking as text."""
        show = METRICS[self.metric].show
        lines = [f"Comparison on {self.problem.name}: {self.summary()}"]
        for row in self.ranking:
            lines.append(f"{row.rank:>3}  {row.method:<24} {_shown(row, show)}")
        return "\n".join([*lines, *self.cautions])

    def _repr_html_(self) -> str:
        """Return the ranking as an HTML table, with intervals on a common axis."""
        return ranking_html(self)

    def to_json(self) -> dict[str, Any]:
        """Return ranking, failures, choices and provenance as values for `json`.

        Returns
        -------
        dict
            Plain values.
        """
        return plain_results(self)


def _shown(found: RankRow | Interval, show: Callable[[float], str]) -> str:
    """Return a figure with its interval as text."""
    ends = "" if np.isnan(found.low) else f" [{show(found.low)}, {show(found.high)}]"
    return f"{show(found.mean)}{ends}"


def _cell(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict | list) else value


def _is_unconverged(note: str) -> bool:
    kind = note.startswith("ConvergenceWarning")
    return kind and not note.endswith(OF_TUNING)
