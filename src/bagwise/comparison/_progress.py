"""Live display of a comparison: finished folds, results and time left per method."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from bagwise.comparison.evaluate import METRICS
from bagwise.comparison.runner import Event

__all__ = ["LiveProgress"]

LINE_SECONDS = 2.0


class LiveProgress:
    """A table that follows the runs; a context whose value is called with events.

    Parameters
    ----------
    methods : sequence of str
        Rows of the table.
    n_folds : int
        Runs per method.
    metric : str
        Shown as the mean over finished folds.
    n_workers : int
        Runs at once, for the estimate of the time left.
    console : Console, optional
        Where to draw; standard error by default. If it is no
        terminal, lines are written.
    """

    def __init__(
        self,
        methods: Sequence[str],
        n_folds: int,
        metric: str,
        *,
        n_workers: int = 1,
        console: Console | None = None,
    ) -> None:
        self.methods, self.n_folds, self.metric = list(methods), n_folds, metric
        self.n_workers = n_workers
        self.console = Console(stderr=True) if console is None else console
        self.done = dict.fromkeys(methods, 0)
        self.failed = dict.fromkeys(methods, 0)
        self.values: dict[str, list[float]] = {name: [] for name in methods}
        self.cost: dict[str, list[float]] = {name: [] for name in methods}
        self.started = time.monotonic()
        self.found = 0
        self._line = -LINE_SECONDS
        self._live = Live(
            get_renderable=self.table,
            console=self.console,
            refresh_per_second=4,
            transient=True,
        )

    def __call__(self, event: Event) -> None:
        """Take note of a finished run, or of one that the store has."""
        name, row = event.run.method, event.row
        self.done[name] += 1
        self.found += event.cached
        if row["status"] != "ok":
            self.failed[name] += 1
        elif row[self.metric] is not None:
            self.values[name].append(row[self.metric])
        if row["status"] == "ok" and not event.cached:
            times = (row[f"{what}_time"] for what in ("fit", "tune", "predict"))
            self.cost[name].append(sum(times))
        if not (event.cached or self.console.is_terminal):
            self._write_line(event)

    def _write_line(self, event: Event) -> None:
        """Write a line about a run into a log, at most one in `LINE_SECONDS`."""
        if self.found:
            self._print(f"{self.found} runs were in the store already")
            self.found = 0
        failed = event.row["status"] != "ok"
        last = event.n_done == event.n_total
        if not (failed or last) and time.monotonic() - self._line < LINE_SECONDS:
            return
        self._line = time.monotonic()
        run, value = event.run, event.row[self.metric]
        text = f"{event.n_done}/{event.n_total} {run.method}, "
        text += f"repeat {run.repeat + 1}, " if run.repeat else ""
        text += f"fold {run.fold + 1}: "
        if failed:
            text += f"failed, {event.row['error']}"
        elif value is not None:
            text += f"{METRICS[self.metric].title} {METRICS[self.metric].show(value)}"
        left = self._left()
        if left is not None and not last:
            text += f"; about {_duration(left)} left"
        self._print(text)

    def _print(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def seconds_left(self, name: str) -> float | None:
        """Estimate the work left for a method, None when nothing is known yet."""
        if not self.cost[name]:
            return None
        left = self.n_folds - self.done[name]
        return left * float(np.mean(self.cost[name]))

    def table(self) -> Table:
        """Draw the present state."""
        metric = METRICS[self.metric]
        best = max if metric.higher else min
        means = {name: float(np.mean(v)) for name, v in self.values.items() if v}
        top = best(means, key=lambda name: means[name]) if means else None
        table = Table(box=None, pad_edge=False, title_justify="left")
        for heading in ("Method", "", "Folds", metric.title, "Left"):
            table.add_column(
                heading, justify="right" if heading != "Method" else "left"
            )
        for name in self.methods:
            bar = ProgressBar(total=self.n_folds, completed=self.done[name], width=20)
            folds = f"{self.done[name]}/{self.n_folds}"
            if self.failed[name]:
                folds += f" ({self.failed[name]} failed)"
            value = metric.show(means[name]) if name in means else ""
            style = "bold green" if name == top else ""
            left = self.seconds_left(name)
            finished = self.done[name] >= self.n_folds
            text = "done" if finished else _duration(left)
            table.add_row(Text(name, style=style), bar, folds, Text(value, style), text)
        table.caption = self._caption()
        table.caption_justify = "left"
        return table

    def _caption(self) -> str:
        total = self.n_folds * len(self.methods)
        done = sum(self.done.values())
        spent = time.monotonic() - self.started
        text = f"{done}/{total} runs, {_duration(spent)} elapsed"
        left = self._left()
        if done < total and left is not None:
            text += f", about {_duration(left)} left"
        return text

    def _left(self) -> float | None:
        """Estimate the seconds until all is done; None while a method is unknown."""
        known = [
            self.seconds_left(name)
            for name in self.methods
            if self.done[name] < self.n_folds
        ]
        if any(seconds is None for seconds in known):
            return None
        return sum(s for s in known if s is not None) / self.n_workers

    def __enter__(self) -> LiveProgress:
        """Begin to draw."""
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Clear the display."""
        if self._live.is_started:
            self._live.stop()


def _duration(seconds: Any) -> str:
    if seconds is None:
        return ""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
