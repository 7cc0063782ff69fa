"""What `BagClassifier` costs: against its parts, and as the data grow."""

import resource
import sys
import time

import numpy as np
from _timing import show

from bagwise import BagClassifier
from bagwise.datasets import fetch, make_bags
from bagwise.ensemble._bag_classifier import default_members
from bagwise.ensemble._stacking import _fit_member, _out_of_fold, take
from bagwise.ensemble._views import DefaultViews


def cpu(function):
    """Return the processor seconds of one call, and its result."""
    start = time.process_time()
    result = function()
    return time.process_time() - start, result


def make_views(X, names):
    return DefaultViews(
        X, names, max_prototypes=None, max_emd=40, n_jobs=None, random_state=0
    )


def fit_member(member, views, folds, t):
    """All fits of one member on given views, as the stack does them."""
    weight = np.ones(len(t))
    for train, test in folds:
        _out_of_fold(
            member,
            take(views.train, member.view, views.columns, train, train),
            take(views.train, member.view, views.columns, test, train),
            t[train],
            weight[train],
            0,
        )
    _fit_member(member, take(views.train, member.view, {}, None, None), t, weight, 0)


def parts(name, X, y):
    """Compare the whole with the sum of its parts, with and without sharing."""
    model = BagClassifier(random_state=0)
    whole, _ = cpu(lambda: model.fit(X, y))
    t = np.where(y == np.unique(y)[1], 1.0, -1.0)
    folds, _ = model._folds(t)
    members = default_members()
    shared, views = cpu(lambda: make_views(X, {m.view for m in members}))
    fits = {m.name: cpu(lambda m=m: fit_member(m, views, folds, t))[0] for m in members}
    # Alone, a member would make its own view of every training fold and of all bags.
    alone = 0.0
    for m in members:
        views_of_folds = 0.0
        for train, test in folds:
            seconds, part = cpu(lambda train=train, m=m: make_views(X[train], {m.view}))
            views_of_folds += seconds
            views_of_folds += cpu(lambda test=test, part=part: part.of(X[test]))[0]
        views_of_folds += cpu(lambda m=m: make_views(X, {m.view}))[0]
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
    rows = []
    for n_bags in sizes:
        X, y = make_bags(n_bags, n_features=20, bag_size=(3, 11), random_state=0)
        model = BagClassifier(random_state=0)
        start = time.perf_counter()
        seconds, _ = cpu(lambda m=model, X=X, y=y: m.fit(X, y))
        wall = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        guess = model.plan_["estimated_seconds"]
        what = (
            f"{n_bags} bags, {X.n_instances} instances, {len(model.members_)} members"
        )
        note = f"wall {wall:.0f} s, peak {peak:.1f} GB so far, estimated {guess:.0f} s"
        rows.append((what, f"{seconds:.1f} s", note))
    show("Growth (20 features, 3 to 11 instances a bag), processor seconds", rows)


def main():
    quick = "--quick" in sys.argv
    try:
        data = fetch("elephant")
        parts("Elephant", data.X, data.y)
    except (OSError, ValueError) as error:
        print(f"Elephant is not at hand: {error}")
    X, y = make_bags(200, n_features=50, bag_size=(7, 7), random_state=0)
    parts("200 bags of 7", X, y)
    growth([200] if quick else [200, 1_000, 5_000, 20_000])


if __name__ == "__main__":
    main()
