"""False alarms and power of the shift check over simulated draws.

Each draw simulates reference bags and new bags, without a shift or with one, and tests
them with `check_shift` at a level of 5%::

    python studies/scripts/shift_check.py --draws 400 --out studies/results/use

Cells that the table holds already are not computed again. The figures are in
``studies/results/use/README.md``.
"""

import argparse
import csv
from pathlib import Path

import numpy as np

from bagwise import Bags
from bagwise.inspection import check_shift

N_REFERENCE = 120
# Name, columns, new bags, bags per group.
DESIGNS = {
    "5 columns": (5, 40, 1),
    "5 columns, 15 new bags": (5, 15, 1),
    "50 columns": (50, 40, 1),
    "5 columns, groups of 4": (5, 40, 4),
    "5 columns, skewed": (5, 40, 1),
}
KINDS = ("one column", "all columns", "spread", "one instance", "bag size")
SIZES = (0.25, 0.5, 1.0, 1.5)
COLUMNS = ["design", "kind", "size", "draws", "alarms", "error"]


def simulate(rng, design, n, kind=None, size=0.0):
    """Return bags; a shift is in units of the standard deviation of bag means."""
    d, _, per_group = DESIGNS[design]
    groups = np.arange(n) // per_group
    center = rng.normal(size=(n, d))
    if per_group > 1:
        center = 0.5 * center + 0.87 * rng.normal(size=(groups.max() + 1, d))[groups]
    if "skewed" in design:
        center = np.exp(center) / 2.16
    if kind == "one column":
        center[:, 0] += size
    elif kind == "all columns":
        center += size / np.sqrt(d)
    elif kind == "spread":
        center *= 1.0 + size
    sizes = rng.integers(4, 11, n)
    if kind == "bag size":
        sizes = np.maximum(1, np.round(sizes * (1.0 + size / 3))).astype(int)
    data = np.repeat(center, sizes, axis=0) + rng.normal(size=(sizes.sum(), d))
    offsets = np.append(0, np.cumsum(sizes))
    if kind == "one instance":
        data[offsets[:-1], 0] += 4 * size
    return Bags(data, offsets, groups=groups if per_group > 1 else None)


def alarms(design, kind, size, draws):
    """Return how often the check finds a difference."""
    n_new, found = DESIGNS[design][1], []
    for seed in range(draws):
        rng = np.random.default_rng([seed, len(design)])
        reference = simulate(rng, design, N_REFERENCE)
        new = simulate(rng, design, n_new, kind, size)
        found.append(check_shift(reference, new, random_state=seed).shifted)
    return float(np.mean(found))


def plot(rows, path):
    """Plot the rate of alarms against the size of the shift."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.2 * len(DESIGNS) / 1.4, 3.2), layout="tight")
    axes = figure.subplots(1, len(DESIGNS), sharey=True)
    for ax, design in zip(axes, DESIGNS, strict=True):
        own = [row for row in rows if row["design"] == design]
        start = next(float(r["alarms"]) for r in own if r["kind"] == "none")
        for kind in KINDS:
            line = [start, *(float(r["alarms"]) for r in own if r["kind"] == kind)]
            ax.plot([0, *SIZES], line, "o-", markersize=3, label=kind)
        ax.axhline(0.05, color="#adb5bd", linestyle="--", linewidth=1)
        ax.set_title(design, fontsize=9)
        ax.set_xlabel("Size of the shift")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("Rate of alarms at 5%")
    axes[0].legend(fontsize=7, frameon=False)
    figure.savefig(path, metadata={"Date": None})


def main():
    """Compute the cells that are missing, and write table and figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--power-draws", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path("shift"))
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    table, known = args.out / "shift.csv", {}
    if table.exists():
        with table.open(newline="") as file:
            read = csv.DictReader(file)
            known = {(r["design"], r["kind"], float(r["size"])): r for r in read}
    cells = [(design, "none", 0.0) for design in DESIGNS]
    cells += [(d, kind, size) for d in DESIGNS for kind in KINDS for size in SIZES]
    rows = []
    for cell in cells:
        draws = args.draws if cell[1] == "none" else args.power_draws
        row = known.get(cell)
        if row is None or int(row["draws"]) < draws:
            rate = alarms(*cell, draws)
            error = np.sqrt(rate * (1 - rate) / draws)
            values = [*cell, draws, f"{rate:.4f}", f"{error:.4f}"]
            row = dict(zip(COLUMNS, values, strict=True))
            print(row, flush=True)
        rows.append(row)
        with table.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    plot(rows, args.out / "shift.svg")


if __name__ == "__main__":
    main()
