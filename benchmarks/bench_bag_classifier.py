"""What `BagClassifier` costs: against its parts, and as the data grow."""

import resource
import sys
import tempfile
import time

import numpy as np
from _timing import show

from bagwise import BagClassifier, Bags
from bagwise.base import bag_folds
from bagwise.datasets import fetch, make_bags
from bagwise.ensemble._members import Classes, Clock, fit_members
from bagwise.ensemble._plan import Size, default_members, make_plan
from bagwise.ensemble._views import DefaultViews


def cpu(function):
    """Return the processor seconds of one call, and its result."""
    start = time.process_time()
    result = function()
    return time.process_time() - start, result


def make_views(X, names, plan):
    return DefaultViews(X, names, plan, n_jobs=None, random_state=0)


def fit_member(member, views, folds, y):
    """All fits of one member on given views, as the stack does them."""
    fit_members(
        [member],
        views,
        Classes(y, 2),
        folds,
        np.ones(len(y)),
        0,
        n_jobs=None,
        clock=Clock(None),
        track=list,
    )


def parts(name, X, y):
    """Compare the whole with the sum of its parts, with and without sharing."""
    model = BagClassifier(random_state=0, time_budget=None)
    whole, _ = cpu(lambda: model.fit(X, y))
    folds = bag_folds(X, y, 5)
    plan = make_plan(Size.of(X))
    members = default_members(plan)
    shared, views = cpu(lambda: make_views(X, {m.view for m in members}, plan))
    fits = {m.name: cpu(lambda m=m: fit_member(m, views, folds, y))[0] for m in members}
    # Alone, a member would make its own view of every training fold and of all bags.
    alone = 0.0
    for m in members:
        views_of_folds = 0.0
        for train, test in folds:
            seconds, part = cpu(
                lambda train=train, m=m: make_views(X[train], {m.view}, plan)
            )
            views_of_folds += seconds
            views_of_folds += cpu(lambda test=test, part=part: part.of(X[test]))[0]
        views_of_folds += cpu(lambda m=m: make_views(X, {m.view}, plan))[0]
        alone += views_of_folds + fits[m.name]
    work = shared + sum(fits.values())
    rows = [
        ("whole / (views once + fits of all members)", f"{whole / work:.2f}x", "1.3x"),
        ("members alone / whole: what sharing saves", f"{alone / whole:.2f}x", ""),
        ("whole, processor seconds", f"{whole:.1f} s", "10 s on 200 bags of 7"),
    ]
    rows += [(f"  fits of {k}", f"{v:.2f} s", "") for k, v in fits.items()]
    show(f"{name}: {X!r}", rows)


def growth(sizes):
    """Grow the bags, with 20 features and 3 to 11 instances each."""
    show_sizes(
        "Growth (20 features, 3 to 11 instances a bag), processor seconds",
        [make_bags(n, n_features=20, bag_size=(3, 11), random_state=0) for n in sizes],
    )


def large(n_bags, size, n_features):
    """Few large bags, as slides have them, on a memory map in single precision."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        shape = (n_bags * size, n_features)
        path = f"{folder}/rows.npy"
        rows = np.lib.format.open_memmap(path, "w+", np.float32, shape)
        y = np.arange(n_bags) % 2
        shift = rng.normal(size=n_features) / np.sqrt(n_features)
        for i in range(n_bags):
            part = rng.normal(size=(size, n_features))
            part[: size // 20] += 6.0 * y[i] * shift
            rows[i * size : (i + 1) * size] = part
        rows.flush()
        X = Bags(np.load(path, mmap_mode="r"), np.arange(n_bags + 1) * size)
        show_sizes("Large bags, single precision, memory-mapped", [(X, y)])


def show_sizes(title, problems):
    rows = []
    for X, y in problems:
        model = BagClassifier(random_state=0, time_budget=None)
        start = time.perf_counter()
        seconds, _ = cpu(lambda m=model, X=X, y=y: m.fit(X, y))
        wall = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        guess = model.plan_["estimated_seconds"]
        what = (
            f"{len(X)} bags, {X.n_instances} x {X.n_features}, "
            f"{len(model.members_)} members"
        )
        note = f"wall {wall:.0f} s, peak {peak:.1f} GB so far, estimated {guess:.0f} s"
        rows.append((what, f"{seconds:.1f} s", note))
    show(title, rows)


def main():
    quick = "--quick" in sys.argv
    try:
        data = fetch("elephant")
        parts("Elephant", data.X, data.y)
    except (OSError, ValueError) as error:
        print(f"Elephant is not at hand: {error}")
    X, y = make_bags(200, n_features=50, bag_size=(7, 7), random_state=0)
    parts("200 bags of 7", X, y)
    growth([200] if quick else [50, 200, 1_000, 5_000, 20_000])
    if not quick:
        large(42, 500, 512)
    if "--slides" in sys.argv:
        large(400, 5_000, 1_024)


if __name__ == "__main__":
    main()
