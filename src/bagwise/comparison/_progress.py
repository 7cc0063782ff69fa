"""Live display of a comparison: per method, what is done, how good, how long still."""

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

from bagwise.comparison._evaluate import METRICS
from bagwise.comparison._many_runs import Event

__all__ = ["LiveProgress"]


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
        Where to draw; standard error by default. Nothing is drawn off a terminal.
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
        self._live = Live(
            get_renderable=self.table,
            console=self.console,
            refresh_per_second=4,
            transient=True,
        )

    def __call__(self, event: Event) -> None:
        """Take note of a finished run."""
        name = event.run.method
        self.done[name] += 1
        if event.outcome is None:
            return
        if event.outcome.status != "ok":
            self.failed[name] += 1
            return
        value = event.outcome.metrics.get(self.metric)
        if value is not None:
            self.values[name].append(value)
        self.cost[name].append(sum(event.outcome.times.values()))

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
            value = f"{means[name]:.3f}" if name in means else ""
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
        known = [self.seconds_left(name) for name in self.methods]
        text = f"{done}/{total} runs, {_duration(spent)} elapsed"
        if done < total and all(k is not None for k in known):
            left = sum(k for k in known if k is not None) / self.n_workers
            text += f", about {_duration(left)} left"
        return text

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
