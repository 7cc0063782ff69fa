"""One cell of the study: coverage, width, size and power over its data sets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import stats

from bagwise.comparison import contributions, difference, interval
from studies.inference.data_sets import TRUTHS, DataSet, data_set
from studies.inference.generators import DEVELOPMENT, VERIFICATION
from studies.inference.learners import LEARNERS
from studies.inference.real import REAL

METRICS = ("accuracy", "auroc")
MEASURED = [
    *("truth", "bias", "coverage", "coverage_before", "width", "width_before"),
    *("size", "size_before", "power", "power_before"),
]
ERRORS = {"coverage_error": "coverage", "size_error": "size"}
COLUMNS = [
    *("generator", "learner", "n", "repeats", "metric", "simulated", "sets"),
    *MEASURED,
    *ERRORS,
]
SEEDS = {"development": 1_000_003, "verification": 2_000_003, "real": 3_000_017}


def measure(
    kind: str, learner: str, n: int, sets: int, number: int
) -> Iterator[dict[str, Any]]:
    """Yield a row for each metric and number of repeats of one round of a cell."""
    named = (("development", DEVELOPMENT), ("verification", VERIFICATION))
    family = next((name for name, group in named if kind in group), "real")
    of_kind = list({**DEVELOPMENT, **VERIFICATION, **REAL}).index(kind)
    key = [SEEDS[family], of_kind, list(LEARNERS).index(learner), n, number]
    rng = np.random.default_rng(key)
    # The default of `compare`, and one partition only.
    repeats = (1, 2) if n < 200 else (1,)
    notes: dict[tuple[int, str], list[list[float]]] = {}
    for _ in range(sets):
        found = data_set(kind, learner, n, rng, max(repeats))
        if found is None:
            continue
        for metric in METRICS:
            for r in repeats:
                notes.setdefault((r, metric), []).append(one(found, metric, r))
    for (r, metric), values in notes.items():
        head = (kind, learner, n, r, metric, sets, len(values))
        means = np.nanmean(values, axis=0).round(4)
        row = dict(zip(COLUMNS, (*head, *means), strict=False))
        yield row | simulation_errors(row)


def simulation_errors(row: dict[str, Any]) -> dict[str, float]:
    """Return the standard errors of shares that come from so few data sets.

    One set inside and one outside are added, so that the error of 100% is not zero.
    """
    n = float(row["sets"])
    errors = {}
    for name, of in ERRORS.items():
        share = (n * float(row[of]) + 1.0) / (n + 2.0)
        errors[name] = round(float(np.sqrt(share * (1.0 - share) / n)), 4)
    return errors


def merged(old: dict[str, Any] | None, new: dict[str, Any]) -> dict[str, Any]:
    """Return the row of two rounds."""
    if old is None:
        return new
    a, b = float(old["sets"]), float(new["sets"])
    row = {**new, "sets": int(a + b)}
    row["simulated"] = int(old["simulated"]) + new["simulated"]
    for name in MEASURED:
        row[name] = round((a * float(old[name]) + b * float(new[name])) / (a + b), 4)
    return row | simulation_errors(row)


def one(found: DataSet, metric: str, repeats: int) -> list[float]:
    """Return what is noted about one data set.

    Where new bags are the rest of a finite population, an error has the variance of
    that on an infinite one, divided by `DataSet.rest`. Coverage accounts for it.
    """
    parts = [figure(found, metric, method, repeats) for method in range(3)]
    truth = float(found.truth[:repeats, TRUTHS.index(metric)].mean())
    now, value = interval(parts[0]), parts[0].value
    target = value + np.sqrt(found.rest) * (truth - value)
    by_fold = [_by_fold(found, metric, method, repeats) for method in range(3)]
    before = _corrected(by_fold[0])
    ends = np.clip([before[0] - before[1], before[0] + before[1]], 0.0, 1.0)
    tests = [difference(parts[0], parts[k]).p < 0.05 for k in (1, 2)]
    gaps = [_corrected(by_fold[0] - by_fold[k]) for k in (1, 2)]
    old = [abs(mean) > half for mean, half in gaps]
    return [
        *(truth, value - truth),
        *(now.low <= target <= now.high, ends[0] <= target <= ends[1]),
        *(now.high - now.low, ends[1] - ends[0]),
        *(tests[0], old[0], tests[1], old[1]),
    ]


def figure(found: DataSet, metric: str, method: int, repeats: int) -> Any:
    """Return the contributions of a method, as `compare` computes them."""
    n, n_splits = len(found.y), int(found.fold.max()) + 1
    scores = found.scores[method, :repeats].ravel()
    repeat = np.repeat(np.arange(repeats), n)
    rows = {
        "truth": np.tile(found.y, repeats),
        "label": (scores > 0).astype(np.int64),
        "score": scores,
    }
    return contributions(
        metric,
        rows,
        np.tile(np.arange(n), repeats),
        run=found.fold[:repeats].ravel() + n_splits * repeat,
        repeat=repeat,
        groups=None if found.groups is None else np.tile(found.groups, repeats),
    )


def _by_fold(found: DataSet, metric: str, method: int, repeats: int) -> Any:
    """Return the figure of each fold; those without a class have no area."""
    values = []
    for fold, scores in zip(
        found.fold[:repeats], found.scores[method, :repeats], strict=True
    ):
        for k in range(int(fold.max()) + 1):
            y, own = found.y[fold == k], scores[fold == k]
            if metric == "accuracy":
                values.append(float(np.mean((own > 0) == y)))
            elif 0 < y.sum() < len(y):
                pairs = np.sign(own[y == 1][:, None] - own[y == 0])
                values.append(float(pairs.mean() / 2 + 0.5))
    return np.array(values)


def _corrected(values: Any) -> tuple[float, float]:
    """Return mean and half width of the corrected t interval (Nadeau, Bengio 2003)."""
    if len(values) < 2:
        return float("nan"), float("nan")
    share = 1.0 / len(values) + 0.25
    error = np.sqrt(share * np.var(values, ddof=1))
    return float(np.mean(values)), float(stats.t.ppf(0.975, len(values) - 1) * error)


def summary(rows: list[dict[str, Any]]) -> str:
    """Return a line for each metric and number of repeats."""
    lines = []
    for r in ("1", "2"):
        for metric in METRICS:
            own = [x for x in rows if x["repeats"] == r and x["metric"] == metric]
            if own:
                lines.append(f"{metric}, {r} repeats, {_summary(own)}")
    return "\n".join(lines)


def _summary(rows: list[dict[str, Any]]) -> str:
    values = {name: np.array([float(row[name]) for row in rows]) for name in MEASURED}
    n = np.array([int(row["n"]) for row in rows])
    inside = np.mean((values["coverage"] >= 0.93) & (values["coverage"] <= 0.98))
    ratio = (values["width"] / values["width_before"])[n >= 60]
    some = (values["power_before"] >= 0.1) & (values["power_before"] <= 0.5)
    power = (values["power"] / np.maximum(values["power_before"], 1e-9))[some]
    return (
        f"{len(rows)} cells: coverage {values['coverage'].mean():.3f}"
        f" ({values['coverage'].min():.3f} to {values['coverage'].max():.3f},"
        f" {inside:.0%} of cells within .93 to .98),"
        f" size {values['size'].mean():.3f} (at most {values['size'].max():.3f}),"
        f" width from 60 bags {ratio.mean():.2f} of that before,"
        f" power {power.mean():.2f} times that before in {len(power)} cells"
    )
