"""Re-run the tables of papers, and report which figures were reached."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from bagwise.comparison.description import DataRef, Run, run_key
from bagwise.comparison.problem import Problem, as_problem
from bagwise.comparison.runner import Event, Listener, run_all
from bagwise.comparison.store import Store
from studies.optimism import OptimisticScores
from studies.pages import table_page, write_table
from studies.paper_sets import is_simulated, simulate
from studies.rows import csv_rows
from studies.schemes import MAX_REPEATS
from studies.tables import Cell, Table, load_table
from studies.verdicts import Measured, measure

__all__ = ["RESULTS", "Reproduction", "reproduce"]

RESULTS = Path(__file__).parent / "results"


@dataclass
class Reproduction:
    """A re-run table.

    Parameters
    ----------
    table : Table
        The published one.
    cells : list of Measured
        All cells, measured or not.
    repeats : int
        Number of repeats of the protocol.
    failures : list of dict
        Rows of runs that failed.
    paths : dict of str to Path
        The files.
    """

    table: Table
    cells: list[Measured]
    repeats: int
    failures: list[dict[str, Any]] = field(default_factory=list)
    paths: dict[str, Path] = field(default_factory=dict)

    def command(self, repeats: int | None = None) -> str:
        """Return the command that re-runs the table.

        Parameters
        ----------
        repeats : int, optional
            Number of repeats; by default that of this re-run.

        Returns
        -------
        str
            The command.
        """
        times = self.repeats if repeats is None else max(1, repeats)
        return f"python -m studies reproduce {self.table.name} --repeats {times}"

    def counts(self) -> dict[str, int]:
        """Return how many cells have each verdict."""
        verdicts = ("reached", "not reached", "not comparable", "not run")
        found = [cell.verdict for cell in self.cells]
        return {verdict: found.count(verdict) for verdict in verdicts}

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict per cell, as in the CSV file."""
        return csv_rows(self.table, self.cells, self.command)

    def to_markdown(self) -> str:
        """Return the page of measured and published figures as Markdown."""
        return table_page(self.rows())

    def write(self, folder: str | os.PathLike[str]) -> dict[str, Path]:
        """Write ``<table>.csv`` and ``<table>.md`` into a folder.

        Parameters
        ----------
        folder : path
            Made when absent.

        Returns
        -------
        dict of str to Path
            The two files, as "csv" and "markdown".
        """
        self.paths = write_table(self.rows(), Path(folder))
        return self.paths


def reproduce(
    table: str | Table,
    *,
    repeats: int | None = None,
    datasets: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    folds: int | None = None,
    seed: int = 0,
    n_jobs: int = 1,
    store: str | os.PathLike[str] = "papers.sqlite",
    out: str | os.PathLike[str] | None = RESULTS,
    time_limit: float | None = None,
    retry_failed: bool = False,
    run: bool = True,
    progress: bool | Listener = True,
    optimistic: bool | Literal["only"] = False,
) -> Reproduction:
    """Re-run a published table under its protocol.

    Parameters
    ----------
    table : str or Table
        A name that `list_tables` gives.
    repeats : int, optional
        How often the protocol is repeated; once by default, papers often do it ten
        times. More repeats later add to those already in the store.
    datasets, methods : sequence of str, optional
        Columns and rows to run, by their labels, data sets or names of methods; all by
        default. The other cells show what the store has.
    folds : int, optional
        Only this many runs of every repeat, to estimate what a table costs.
    seed : int, default=0
        Random seed of splits, simulated data and methods.
    n_jobs : int, default=1
        Worker processes.
    store : path, default="papers.sqlite"
        SQLite file of the runs; what is in it is not run again. Tables that measure
        the same thing share their runs. The scores of `optimistic` are kept next to it.
    out : path or None, default="studies/results"
        Folder for the CSV file and the page of the table.
    time_limit : float, optional
        Seconds per run.
    retry_failed : bool, default=False
        Whether failed runs are tried again.
    run : bool, default=True
        Whether missing runs are carried out; if not, the page shows what the store has.
    progress : bool or callable, default=True
        A progress bar on the terminal (lines in a log), or a function called after each
        run.
    optimistic : bool or "only", default=False
        Whether to run the same cells once more with parameters chosen on the reported
        folds, as many papers did: a figure that nested tuning does not reach and this
        does is explained by optimism. "only" runs nothing else, and adds these figures
        to those that are in `out` already.

    Returns
    -------
    Reproduction
        All cells, with verdicts by `RULE`.
    """
    chosen = load_table(table) if isinstance(table, str) else table
    times = 1 if repeats is None else int(repeats)
    if not 1 <= times <= MAX_REPEATS:
        raise ValueError(f"repeats must be between 1 and {MAX_REPEATS}, got {times}")
    wanted = _choose(chosen, datasets, methods)
    path = Path(store)
    source = _Data(seed)
    # The store may hold more repeats than are requested; they are reported, too.
    plans = {id(cell): _Plan(cell, source, seed, times) for cell in chosen.cells}
    scores = OptimisticScores(path.with_suffix(".optimistic.jsonl"))
    with Store(path) as db:
        if run:
            todo = _todo(chosen, wanted, plans, times, folds)
            if optimistic != "only":
                with _listener(progress, chosen.name) as listener:
                    run_all(
                        [one for _, one in todo],
                        source.problems,
                        db,
                        n_jobs=n_jobs,
                        time_limit=time_limit,
                        retry_failed=retry_failed,
                        on_event=listener,
                    )
            if optimistic:
                tuned = [(one, cell.scoring) for cell, one in todo if cell.scoring]
                scores.run(
                    tuned,
                    source.problems,
                    n_jobs=n_jobs,
                    on_done=_log_optimistic if progress else None,
                )
        found, failures = _collect(chosen, plans, db, source, scores)
    result = Reproduction(chosen, found, times, failures)
    if out is not None:
        result.write(out)
    return result


class _Data:
    """The problems of a table, loaded once."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.known: dict[tuple[str, int], DataRef | str] = {}
        self.problems: dict[str, Problem] = {}

    def get(self, cell: Cell, draw: int) -> DataRef | str:
        """Return the reference, or why there is none."""
        redraw = cell.scheme.redraw
        key = (cell.dataset, draw if redraw else 0)
        if key not in self.known:
            try:
                self.known[key] = self._load(*key, redraw=redraw)
            except (FileNotFoundError, ConnectionError) as error:
                self.known[key] = " ".join(str(error).split())
        return self.known[key]

    def _load(self, name: str, draw: int, *, redraw: bool) -> DataRef:
        if redraw:
            state = MAX_REPEATS * 1000 * self.seed + draw
            problem = as_problem(simulate(name, seed=state))
        else:
            problem = as_problem(simulate(name) if is_simulated(name) else name)
        ref = DataRef(problem.name, problem.hash())
        self.problems[ref.hash] = problem
        return ref


@dataclass
class _Plan:
    """The runs of one cell: ``runs[repeat]`` is a list."""

    cell: Cell
    source: _Data
    seed: int
    least: int
    runs: list[list[Run]] = field(init=False)
    missing: str = field(init=False, default="")

    def __post_init__(self) -> None:
        self.runs = []
        if not self.cell.runnable:
            return
        scheme = self.cell.scheme
        most = self.least if scheme.every_draw_is_loaded else scheme.max_repeats
        for repeat in range(most):
            runs = []
            for number in range(scheme.n_runs):
                run = self._run(repeat, number)
                if isinstance(run, str):
                    self.missing = run
                    return
                runs.append(run)
            self.runs.append(runs)

    def _run(self, repeat: int, number: int) -> Run | str:
        cell, method = self.cell, self.cell.method
        assert method is not None
        place = cell.scheme.place(repeat, number)
        data = self.source.get(cell, place.draw)
        if isinstance(data, str):
            return data
        return Run(
            method.name,
            method.spec(),
            data,
            cell.scheme.protocol(cell.dataset),
            place.repeat,
            place.fold,
            self.seed,
            method.scale,
            method.grid,
            cell.tuning,
        )


def _todo(
    table: Table,
    wanted: set[int],
    plans: dict[int, _Plan],
    repeats: int,
    folds: int | None,
) -> list[tuple[Cell, Run]]:
    """Return the requested runs, one repeat after the other, column by column."""
    order = {label: place for place, label in enumerate(table.columns)}
    cells = sorted(table.cells, key=lambda cell: order[cell.column])
    runs: list[tuple[Cell, Run]] = []
    for repeat in range(repeats):
        for cell in cells:
            plan = plans[id(cell)]
            if id(cell) in wanted and repeat < len(plan.runs):
                runs += [(cell, run) for run in plan.runs[repeat][:folds]]
    return runs


def _collect(
    table: Table,
    plans: dict[int, _Plan],
    db: Store,
    source: _Data,
    scores: OptimisticScores,
) -> tuple[list[Measured], list[dict[str, Any]]]:
    found, failures = [], []
    for cell in table.cells:
        plan = plans[id(cell)]
        keys = [[run_key(run) for run in runs] for runs in plan.runs]
        rows = {row["key"]: row for row in db.rows([k for part in keys for k in part])}
        failures += [row for row in rows.values() if row["status"] == "failed"]
        arrays = {
            key: db.arrays(key) for key, row in rows.items() if row["status"] == "ok"
        }
        found.append(
            measure(
                cell,
                keys,
                rows,
                arrays,
                source.problems,
                missing=plan.missing,
                on_test=_scores_on_test(plan, scores),
            )
        )
    unique = {row["key"]: row for row in failures}
    return found, list(unique.values())


def _scores_on_test(plan: _Plan, scores: OptimisticScores) -> list[Any]:
    """Return the scores of all candidates, one array per fold of whole repeats."""
    found: list[Any] = []
    for part in plan.runs if plan.cell.scoring else []:
        repeat = [scores.get(run, plan.cell.scoring) for run in part]
        if all(one is not None for one in repeat):
            found += repeat
    return found


def _choose(
    table: Table, datasets: Sequence[str] | None, methods: Sequence[str] | None
) -> set[int]:
    """Return the ids of the cells that are requested."""
    columns = {name: {name, name.lower()} for name in table.columns}
    rows = {name: {name, name.lower()} for name in table.rows}
    for cell in table.cells:
        columns[cell.column].add(cell.dataset)
        if cell.method is not None:
            rows[cell.row] |= {cell.method.name, cell.method.name.lower()}
    keep_columns = _named(datasets, columns, "data set", table.name)
    keep_rows = _named(methods, rows, "method", table.name)
    return {
        id(cell)
        for cell in table.cells
        if cell.column in keep_columns and cell.row in keep_rows
    }


def _named(
    wanted: Sequence[str] | None, known: dict[str, set[str]], what: str, table: str
) -> set[str]:
    if wanted is None:
        return set(known)
    keep: set[str] = set()
    everything = set().union(*known.values())
    for name in _whole([wanted] if isinstance(wanted, str) else wanted, everything):
        found = {
            label for label, names in known.items() if {name, name.lower()} & names
        }
        if not found:
            raise ValueError(
                f"{table} has no {what} {name!r}; it has: {', '.join(known)}"
            )
        keep |= found
    return keep


def _whole(wanted: Sequence[str], names: set[str]) -> Iterator[str]:
    """Yield names; those that contain commas may have been split at them."""
    at = 0
    while at < len(wanted):
        for end in range(len(wanted), at, -1):
            name = ", ".join(wanted[at:end])
            if end == at + 1 or {name, name.lower()} & names:
                break
        yield name
        at = end


@contextlib.contextmanager
def _listener(
    progress: bool | Listener, title: str
) -> Iterator[Callable[[Event], None] | None]:
    if callable(progress) or not progress:
        yield progress if callable(progress) else None
        return
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    if not console.is_terminal:
        yield _log
        return
    with Progress(console=console) as bar:
        task = bar.add_task(title, total=None)

        def show(event: Event) -> None:
            label = f"{title}: {event.run.method} on {event.run.data.name}"
            bar.update(
                task,
                total=event.n_total,
                completed=event.n_done,
                description=label,
            )

        yield show


def _log_optimistic(run: Run, n_done: int, n_total: int) -> None:
    print(
        f"{n_done}/{n_total} all candidates of {run.method} on {run.data.name}, repeat"
        f" {run.repeat + 1}, fold {run.fold + 1}",
        file=sys.stderr,
        flush=True,
    )


def _log(event: Event) -> None:
    if event.cached:
        return
    run, row = event.run, event.row
    times = (row[f"{what}_time"] or 0.0 for what in ("fit", "tune", "predict"))
    value = row["accuracy"]
    text = row["error"] if value is None else f"{value:.3f}"
    print(
        f"{event.n_done}/{event.n_total} {run.method} on {run.data.name}, repeat"
        f" {run.repeat + 1}, fold {run.fold + 1}: {text} ({sum(times):.1f} s)",
        file=sys.stderr,
        flush=True,
    )
