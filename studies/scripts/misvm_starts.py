"""Starts of MI-SVM: objective, AUROC and time of each.

Every start is fitted on the same folds: three generators, bags whose instances are all
shifted, and five classic sets. A start determines the objective; the AUROC of held-out
bags also depends on the width of the kernel and on C.

    python studies/scripts/misvm_starts.py [--write]

With --write the table goes to studies/results/starts/README.md.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

from bagwise.bags import Bags
from bagwise.datasets import (
    fetch,
    make_bags,
    make_generalized_bags,
    make_key_instance_bags,
)
from bagwise.svm import MISVM

STARTS = ("auto", "feature_mean", "input_mean", "random")
RESULTS = Path(__file__).parents[1] / "results"
PAGE = RESULTS / "starts" / "README.md"

TEXT = """# Starts of MI-SVM

The effect of `MISVM(init=)` on three folds of each set, z-scored where dense. The
objective is the mean over folds, relative to that of `init="feature_mean"`, where lower
is better; the AUROC is that of held-out bags; the time is that of fitting, relative to
`init="feature_mean"`. `python studies/scripts/misvm_starts.py --write` makes this page.

{table}

{summary}

A start determines the objective only, and `auto` is never above `feature_mean` in these
rows. A lower objective does not always give a better ranking (see the rows with C =
100), which also depends on the width of the kernel and on C.
"""


def shifted_bags(n_bags=80, n_features=10, shift=0.7, seed=0):
    """Return bags in which every instance of a positive one is moved a little."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_bags) % 2
    bags = [rng.normal(size=(rng.integers(5, 25), n_features)) for _ in y]
    for bag, label in zip(bags, y, strict=True):
        bag[:, 0] += shift * label
    return Bags.from_list(bags), y


def problems():
    """Yield a name, bags, labels and the settings of the machine."""
    yield "make_bags", *make_bags(n_bags=80, random_state=0), {}
    yield "key instances", *make_key_instance_bags(n_bags=80, random_state=0), {}
    yield "generalized", *make_generalized_bags(80, random_state=0), {}
    yield "all shifted", *shifted_bags(), {}
    for name in ("musk1", "elephant", "fox"):
        yield name, *fetch(name, return_X_y=True), {"gamma": "auto"}
    for name in ("trec1", "newsgroups_sci.med"):
        yield name, *fetch(name, return_X_y=True), {"kernel": "linear"}


def measure(X, y, init, settings):
    """Mean objective, mean AUROC and CPU seconds of the fits over three folds."""
    objectives, areas, seconds = [], [], 0.0
    for train, test in StratifiedKFold(3, shuffle=True, random_state=0).split(y, y):
        inside, outside = X[train], X[test]
        if not X.is_sparse:
            mean, scale = inside.data.mean(axis=0), inside.data.std(axis=0)
            scale[scale == 0] = 1.0
            inside = inside.with_data((inside.data - mean) / scale)
            outside = outside.with_data((outside.data - mean) / scale)
        model = MISVM(init=init, random_state=0, **settings)
        begin = time.process_time()
        model.fit(inside, y[train])
        seconds += time.process_time() - begin
        objectives.append(model.objective_)
        areas.append(roc_auc_score(y[test], model.decision_function(outside)))
    return np.mean(objectives), np.mean(areas), seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the results page")
    write = parser.parse_args().write
    MISVM().fit(*make_bags(random_state=0))  # compile
    head = ["set", "C"]
    head += [f"{what}: {init}" for what in ("objective", "AUROC") for init in STARTS]
    lines = ["| " + " | ".join([*head, "time: auto"]) + " |"]
    lines.append("|" + "---|" * (len(head) + 1))
    print(lines[0])
    values, areas, ratios = [], [], []
    for name, X, y, settings in problems():
        for C in (1.0, 100.0):
            found = [measure(X, y, init, {"C": C, **settings}) for init in STARTS]
            reference = found[1]
            cells = [f"{value / reference[0]:.3f}" for value, _, _ in found]
            cells += [f"{area:.3f}" for _, area, _ in found]
            ratio = found[0][2] / reference[2]
            lines.append(
                "| " + " | ".join([name, f"{C:g}", *cells, f"{ratio:.2f}"]) + " |"
            )
            print(lines[-1], flush=True)
            values.append([value / reference[0] for value, _, _ in found])
            areas.append([area for _, area, _ in found])
            ratios.append((found[0][2], reference[2]))
    values, areas, ratios = np.array(values), np.array(areas), np.array(ratios)
    names = ", ".join(
        f"`{init}` {value:.3f} (worst {worst:.2f}, AUROC {area:.3f})"
        for init, value, worst, area in zip(
            STARTS,
            np.exp(np.log(values).mean(axis=0)),
            values.max(axis=0),
            areas.mean(axis=0),
            strict=True,
        )
    )
    total = ratios[:, 0].sum() / ratios[:, 1].sum()
    summary = (
        f"Geometric means of the relative objective: {names}. The two starts of `auto` "
        f"take {total:.2f} times the time of one over all sets."
    )
    print(summary)
    if write:
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        PAGE.write_text(
            TEXT.format(table="\n".join(lines), summary=summary), encoding="utf-8"
        )


if __name__ == "__main__":
    main()
