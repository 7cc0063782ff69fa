"""Tables of the page on networks: the study ``neural`` and the leaderboard."""

from __future__ import annotations

from collections import defaultdict
from statistics import mean

import measured

SETS = ("musk1", "musk2", "elephant", "fox", "tiger")
NETWORKS = {"gated": "network, gated attention", "mean": "network, mean pooling"}
N_CLASSIC = 3


def classic() -> list[list[str]]:
    """Return accuracies on the five classic sets: networks, then the best others."""
    found = _means("classic", lambda row: (row["method"], row["data"]))
    rows = [
        [name, [found[key, one] for one in SETS if (key, one) in found]]
        for key, name in NETWORKS.items()
    ]
    others = sorted(measured.leaderboard().items(), key=lambda e: -e[1]["Mean"])
    rows += [[name, [row[s] for s in SETS]] for name, row in others[:N_CLASSIC]]
    return [
        [name, *(f"{v:.3f}" for v in values), f"{mean(values):.3f}"]
        for name, values in rows
        if len(values) == len(SETS)
    ]


def images() -> list[list[str]]:
    """Return accuracies on bags of images by the number of training bags."""
    found = _means("images", lambda row: (row["data"], row["method"], row["size"]))
    rows = []
    for data in ("moved digits", "digits"):
        sizes = sorted({size for d, _, size in found if d == data}, key=float)
        names = {name for d, name, _ in found if d == data}
        classics = [name for name in names if not name.startswith("network")]
        for name, members in (
            ("network with an encoder", ["network, image encoder"]),
            ("network without one", ["network"]),
            ("best classic method", classics),
        ):
            best = (max(found[data, m, size] for m in members) for size in sizes)
            rows.append([data, name, *(f"{v:.2f}" for v in best)])
    return rows


def _means(part: str, key) -> dict[tuple, float]:
    values = defaultdict(list)
    for row in measured.neural():
        if row["part"] == part and row["figure"] == "accuracy":
            values[key(row)].append(float(row["value"]))
    return {name: mean(found) for name, found in values.items()}
