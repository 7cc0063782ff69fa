"""Members and weights of `BagClassifier` on few bags, on development sets.

Training sets of 20 to 120 bags are sampled from the development sets; up to 120 other
bags are test bags. The members' scores, out of fold (below 60 bags for three sets of
folds) and of test bags, and those of rivals on pooled statistics are computed once and
kept in a folder; every variant combines them again:

    python studies/scripts/bag_classifier_small.py --cache small --out FOLDER

Development sets: Musk1, Elephant, Fox, digit bags and generators, among
them wide rows: word counts and topics that are mostly zero, and dense columns of which
few matter or that show hidden factors.
Rivals: mean, standard deviation, minimum, maximum, median and size per bag, then 500
extremely randomized trees, histogram gradient boosting or logistic regression, all
untuned.
"""

import argparse
import warnings
from functools import cache
from pathlib import Path
from time import perf_counter

import numpy as np
from scipy.special import expit
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bagwise import Bags
from bagwise.base import bag_folds
from bagwise.datasets import (
    fetch,
    load_digit_bags,
    make_bags,
    make_generalized_bags,
)
from bagwise.ensemble import _members
from bagwise.ensemble._bag_classifier import _REPEATS
from bagwise.ensemble._combine import (
    Combination,
    PlattScale,
    logistic_stack,
    prior_weights,
    without_negligible,
)
from bagwise.ensemble._inputs import ClippedScaler, Made
from bagwise.ensemble._plan import Size, make_plan
from bagwise.ensemble._stack import Member, bag_scores, fit_member

CLASSIC = ["musk1", "elephant", "fox"]
SIZES, REPEATS, FOLDS, TIMES = (20, 45, 90, 30, 60, 120), 3, 5, 3
MOST_TEST, LEAST_TEST = 120, 30
RIVALS = ("pooled trees", "pooled boosting", "pooled logistic")


def word_counts(n_bags=200, n_words=3_000, seed=5):
    """Posts of threads as dense counts; words of a topic occur in positive threads."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_bags) % 2
    sizes = rng.integers(10, 40, n_bags)
    share = 1.0 / np.arange(1, n_words + 1)
    share /= share.sum()
    topic = rng.choice(np.arange(50, n_words // 2), 40, replace=False)
    parts = []
    for k in range(n_bags):
        rows = np.zeros((sizes[k], n_words))
        for row in rows:
            np.add.at(row, rng.choice(n_words, 9, p=share), 1.0)
        if y[k]:
            for j in rng.choice(sizes[k], 3, replace=False):
                np.add.at(rows[j], rng.choice(topic, 2), 1.0)
        parts.append(rows)
    return Bags.from_list(parts), y


def few_columns(n_bags=200, n_columns=600, seed=6):
    """Dense wide rows; three columns of a few instances separate the classes."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_bags) % 2
    X, _ = make_bags(n_bags, n_features=n_columns, bag_size=(5, 15), random_state=seed)
    rows = rng.standard_normal((X.n_instances, n_columns))
    rows += rng.standard_normal((X.n_instances, 20)) @ rng.standard_normal(
        (20, n_columns)
    )
    chosen = np.zeros(X.n_instances, dtype=bool)
    chosen[X.offsets[:-1]] = chosen[X.offsets[:-1] + 1] = True
    chosen &= np.repeat(y, X.sizes) == 1
    rows[np.ix_(chosen, [10, 200, 411])] += 9.0
    return Bags(rows, X.offsets), y


def topics(n_bags=220, n_words=2_000, seed=7):
    """Sparse counts in which an instance of a positive bag has a topic of its own."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_bags) % 2
    shares = rng.dirichlet(np.full(n_words, 0.02), 30)
    parts = []
    for k in range(n_bags):
        own = rng.integers(0, 25, rng.integers(6, 20))
        if y[k]:
            own[: 1 + rng.integers(2)] = rng.integers(25, 30)
        rows = [rng.multinomial(12, 0.5 * shares[j] + 0.5 / n_words) for j in own]
        parts.append(np.array(rows, dtype=float))
    return Bags.from_list(parts), y


def factors(n_bags=220, n_columns=400, seed=8):
    """Dense wide rows of ten factors; many columns show the factor that matters."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_bags) % 2
    sizes = rng.integers(5, 16, n_bags)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    hidden = rng.standard_normal((offsets[-1], 10))
    first = offsets[:-1][y == 1]
    hidden[first, 0] += 2.5
    hidden[first + 1, 0] += 2.5
    rows = hidden @ rng.standard_normal((10, n_columns))
    return Bags(rows + 3.0 * rng.standard_normal(rows.shape), offsets), y


def sets():
    """Return the development sets: name -> function that gives bags and labels."""
    found = {name: lambda name=name: fetch(name, return_X_y=True) for name in CLASSIC}
    found["digits"] = lambda: load_digit_bags(200, random_state=1, return_X_y=True)
    found["two concepts of three"] = lambda: make_generalized_bags(
        200, n_repulsion=1, random_state=3
    )
    found["weak witnesses"] = lambda: make_bags(
        200, n_features=10, bag_size=(6, 14), shift=2.5, random_state=4
    )
    found["word counts"] = word_counts
    found["topics"] = topics
    found["factors"] = factors
    found["few columns of many"] = few_columns
    return found


def pooled(X):
    """Return what a user without this library would make of bags."""
    rows = []
    for part in X:
        part = part.toarray() if hasattr(part, "toarray") else np.asarray(part)
        ops = (part.mean(0), part.std(0), part.min(0), part.max(0), np.median(part, 0))
        rows.append(np.concatenate([*ops, [len(part)]]).astype(np.float32))
    rows = np.stack(rows)
    return rows[:, np.ptp(rows, axis=0) > 0] if len(rows) > 1 else rows


def rival_models():
    """Return the rivals by name."""
    return {
        "pooled trees": ExtraTreesClassifier(500, random_state=0),
        "pooled boosting": HistGradientBoostingClassifier(random_state=0),
        "pooled logistic": make_pipeline(
            StandardScaler(), LogisticRegression(max_iter=2_000)
        ),
    }


def candidates(members):
    """Return members that are not in the stack, on the input of the trees."""
    source = next(m.input for m in members if m.name == "statistics trees")
    logistic = LogisticRegression(C=0.01, max_iter=1_000)
    found = [
        Member("more trees", ExtraTreesClassifier(500), source, native=True),
        Member("statistics logistic", make_pipeline(ClippedScaler(), logistic), source),
    ]
    known = {m.name for m in members}
    return [m for m in found if m.name not in known]


def record(X, y, train, test, rows):
    """Fit all members as the stack does, and the rivals, and keep their scores."""
    inside, target = X[train], y[train] == 1
    size = Size.of(inside)
    plan = make_plan(size)
    members = _members.classification_members(plan, size)
    members += candidates(members)
    made, others = Made(inside, fit=True), Made(X[test])
    weight = np.ones(len(train))
    n_folds = min(FOLDS, int(target.sum()), int((~target).sum()))
    times = TIMES if len(train) < 60 else 1
    oof = np.empty((times, len(train), len(members)))
    refit = np.empty((len(test), len(members)))
    for j, m in enumerate(members):
        scored = m.input.scored
        for time in range(len(oof)):
            codes = target.astype(int)
            for learn, held in bag_folds(inside, codes, n_folds, random_state=time):
                known = m.input.select(made.of(m.input), learn, learn)
                found = fit_member(m, known, [target[learn]], weight[learn], time)
                unknown = scored.select(made.of(scored), held, learn)
                oof[time, held, j] = bag_scores(found, unknown, 2)[:, 0]
        found = fit_member(m, made.of(m.input), [target], weight, 0)
        refit[:, j] = bag_scores(found, others.of(scored), 2)[:, 0]
    rivals = [
        model.fit(rows[train], target).predict_proba(rows[test])[:, 1]
        for model in rival_models().values()
    ]
    names = np.array([m.name for m in members])
    return {
        "names": names,
        "wide": size.is_wide,
        "sparse": size.is_wide_sparse,
        "y": target,
        "oof": oof,
        "refit": refit,
        "rivals": np.column_stack(rivals),
        "train": train,
        "test": test,
        "truth": y[test] == 1,
    }


def records(cache, only, stored):
    """Yield (set, size, record) of every training set, from the folder where kept."""
    for repeat in range(REPEATS):
        for n in SIZES:
            for name in sets():
                if only and name not in only:
                    continue
                path = cache / f"{name.replace(' ', '_')}-{n}-{repeat}.npz"
                if not path.exists():
                    if stored:
                        continue
                    made = _made(name)
                    if made is None or len(made[0]) < n + LEAST_TEST:
                        continue
                    X, y, rows = made
                    train, test = train_test_split(
                        np.arange(len(X)), train_size=n, stratify=y, random_state=repeat
                    )
                    test = test[:MOST_TEST]
                    start = perf_counter()
                    found = record(X, y, np.sort(train), np.sort(test), rows)
                    np.savez_compressed(path, **found)
                    print(path.name, f"{perf_counter() - start:.0f} s", flush=True)
                with np.load(path) as kept:
                    yield name, n, dict(kept)


@cache
def _made(name):
    X, y = sets()[name]()
    return X, np.asarray(y), pooled(X)


def parts(r, times=_REPEATS, left_out=(), added=()):
    """Return names of members, out-of-fold rows, labels, weights and test scores.

    Members of the stack and those in `added`; `times` repetitions of the folds.
    """
    names = r["names"]
    extra = {"two-stage boosting", "more trees", "statistics logistic"}
    extra -= {"statistics logistic"} if r["sparse"] else set()
    keep = ~np.isin(names, list((extra | set(left_out)) - set(added)))
    times = min(times, len(r["oof"]))
    rows = np.concatenate(r["oof"][:times][:, :, keep])
    y = np.tile(r["y"], times)
    return names[keep], rows, y, np.full(len(y), 1.0 / times), r["refit"][:, keep]


def shares(names, r, trees=4.0, sparse=32.0):
    """Return prior weights of members, before they are scaled."""
    most = sparse if r["sparse"] else trees
    chosen = ["statistics trees", "more trees"]
    chosen += ["statistics logistic"] if r["sparse"] else []
    return np.where(np.isin(names, chosen), most, 1.0).astype(float)


def present(r):
    """The stack as it is, without members of negligible weight."""
    names, oof, y, weight, refit = parts(r)
    prior = prior_weights(shares(names, r))
    found = [Combination.fit(oof, y, weight, prior=prior)]
    cost = np.where(np.char.startswith(names, "Wasserstein"), 10.0, 1.0)
    found = without_negligible(found, oof[:, :, None], [y], weight, cost, prior=prior)
    return found[0](refit)


def stack(r, slope=(1.0, 3.0), ridge=10.0, total=2.0, prior=None, **options):
    """Return decisions on test bags, by default those of the stack with all members.

    `slope` is the prior slope of Platt curves and the strength of its penalty; `total`
    the sum of prior weights.
    """
    kinds = {k: options.pop(k) for k in ("trees", "sparse") if k in options}
    names, oof, y, weight, refit = parts(r, **options)
    share = shares(names, r, **kinds)
    share *= total / share.sum()
    ridge = ridge(len(r["y"])) if callable(ridge) else ridge
    scales = [PlattScale.fit(c, y, weight, *slope) for c in oof.T]
    logits, others = (
        np.column_stack([s(c) for s, c in zip(scales, x.T, strict=True)])
        for x in (oof, refit)
    )
    fits = [
        logistic_stack(logits, y, weight, ridge=ridge, nonnegative=k, prior=share)
        for k in (True, False)
    ]
    return np.mean([others @ coef + constant for coef, constant in fits], axis=0)


def rescaled(r, strength):
    """The stack, with a last Platt curve on its own scores of held-out bags."""
    y, n = r["y"], len(r["y"])
    held = np.empty(n)
    n_folds = min(FOLDS, int(y.sum()), int((~y).sum()))
    for learn, test in StratifiedKFold(n_folds, shuffle=True, random_state=0).split(
        np.zeros(n), y
    ):
        part = {"names": r["names"], "sparse": r["sparse"], "y": y[learn]}
        part |= {"oof": r["oof"][:, learn], "refit": r["oof"][:, test].mean(axis=0)}
        held[test] = stack(part)
    spread = held.std() or 1.0
    scale = PlattScale.fit(held, y, np.ones(n), spread, strength)
    return scale(stack(r))


FIRST = {"slope": (0.0, 0.1), "times": 1, "left_out": ["statistics logistic"]}
LOGISTIC = ["statistics logistic"]
TRIES = {
    "as it is": present,
    "all members kept": stack,
    "before (one set of folds, slopes to 0)": lambda r: stack(r, sparse=4.0, **FIRST),
    "one set of folds": lambda r: stack(r, times=1),
    "three sets of folds": lambda r: stack(r, times=3),
    "slopes to 0, ridge 0.1": lambda r: stack(r, slope=(0.0, 0.1)),
    "slopes to 1, ridge 1": lambda r: stack(r, slope=(1.0, 1.0)),
    "slopes to 1, ridge 10": lambda r: stack(r, slope=(1.0, 10.0)),
    "slopes to 1, ridge 2": lambda r: stack(r, slope=(1.0, 2.0)),
    "slopes to 0.5, ridge 1": lambda r: stack(r, slope=(0.5, 1.0)),
    "sparse rows: trees 4 times others, no logistic": lambda r: stack(
        r, sparse=4.0, left_out=LOGISTIC
    ),
    "sparse rows: no logistic": lambda r: stack(r, left_out=LOGISTIC),
    "sparse rows: 4 times others": lambda r: stack(r, sparse=4.0),
    "sparse rows: 12 times others": lambda r: stack(r, sparse=12.0),
    "dense wide rows as sparse ones": lambda r: stack(
        dict(r, sparse=r["wide"] or r["sparse"])
    ),
    "logistic on statistics of all rows": lambda r: stack(r, added=LOGISTIC),
    "500 trees on statistics": lambda r: stack(
        r, added=["more trees"], left_out=["statistics trees"]
    ),
    "trees on statistics 8 times others": lambda r: stack(r, trees=8.0),
    "trees on statistics as others": lambda r: stack(r, trees=1.0, sparse=1.0),
    "weights: ridge 20": lambda r: stack(r, ridge=20.0),
    "weights: ridge 10 max(1, 45 / n)": lambda r: stack(
        r, ridge=lambda n: 10.0 * max(1.0, 45.0 / n)
    ),
    "sum of prior weights 1": lambda r: stack(r, total=1.0),
    "sum of prior weights 1.5": lambda r: stack(r, total=1.5),
    "last Platt curve, ridge 5": lambda r: rescaled(r, 5.0),
    "last Platt curve, ridge 20": lambda r: rescaled(r, 20.0),
}


def probabilities(decision):
    return np.clip(expit(decision), 1e-6, 1.0 - 1e-6)


def figures(decision, truth):
    """AUROC and log loss."""
    loss = log_loss(truth, probabilities(decision), labels=[False, True])
    return roc_auc_score(truth, decision), loss


def calibration_error(decision, truth, n_bins=10):
    """Mean difference of predicted and observed frequencies, in bins of equal size."""
    p = probabilities(decision)
    bins = np.array_split(np.argsort(p, kind="stable"), n_bins)
    return sum(abs(p[b].sum() - truth[b].sum()) for b in bins) / len(p)


def best_members(r):
    """Return test decisions of two members: best out of fold, and best on test bags.

    Both by log loss, with a Platt curve on out-of-fold scores.
    """
    _, oof, y, weight, refit = parts(r)
    scales = [PlattScale.fit(c, y, weight) for c in oof.T]
    seen = [s(c) for s, c in zip(scales, oof.T, strict=True)]
    new = [s(c) for s, c in zip(scales, refit.T, strict=True)]
    first = int(np.argmin([figures(d, y)[1] for d in seen]))
    last = int(np.argmin([figures(d, r["truth"])[1] for d in new]))
    return new[first], new[last]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, default=Path("small"))
    parser.add_argument("--out", type=Path, help="folder of the page")
    parser.add_argument("--stored", action="store_true", help="run nothing")
    parser.add_argument("--only", nargs="*", help="names of sets")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    arguments.cache.mkdir(parents=True, exist_ok=True)
    found = list(records(arguments.cache, arguments.only, arguments.stored))
    text = page(found)
    print(text)
    if arguments.out is not None:
        (arguments.out / "small.md").write_text(text, encoding="utf-8")


def page(found):
    """Return the figures as tables of Markdown."""
    table = np.array(
        [[figures(t(r), r["truth"]) for t in TRIES.values()] for _, _, r in found]
    )
    rivals = np.array(
        [[roc_auc_score(r["truth"], c) for c in r["rivals"].T] for _, _, r in found]
    )
    cells = sorted({(name, n) for name, n, _ in found})
    index = [
        [i for i, (name, n, _) in enumerate(found) if (name, n) == cell]
        for cell in cells
    ]
    lines = ["# BagClassifier on few bags", "", __doc__.strip(), ""]
    lines += [*variants(table, rivals, cells, index), ""]
    members = [member_areas(r) for _, _, r in found]
    lines += [*by_set(table[:, 0, 0], rivals, members, cells, index), ""]
    lines += calibration(found)
    return "\n".join(lines) + "\n"


def variants(table, rivals, cells, index):
    lines = ["Means over sets and sizes. Regret: AUROC of the best rival minus that of"]
    lines += [
        "the stack, the largest over the sets, for less than 60 bags and for 60 or"
    ]
    lines += ["more. Rank: mean rank of the stack among itself and the rivals.", ""]
    lines += ["| variant | AUROC | log loss | regret, < 60 bags | >= 60 bags | rank |"]
    lines += ["|---" * 6 + "|"]
    small = np.array([n < 60 for _, n in cells])
    for j, name in enumerate(TRIES):
        mine = np.array([table[rows, j, 0].mean() for rows in index])
        others = np.array([rivals[rows].mean(axis=0) for rows in index])
        lost = others.max(axis=1) - mine
        ends = [lost[part].max() if part.any() else np.nan for part in (small, ~small)]
        equal = (others == mine[:, None]).sum(axis=1)
        rank = 1.0 + (others > mine[:, None]).sum(axis=1) + 0.5 * equal
        auroc, loss = table[:, j].mean(axis=0)
        lines.append(f"| {name} | {auroc:.4f} | {loss:.4f} | {ends[0]:+.3f} | ")
        lines[-1] += f"{ends[1]:+.3f} | {rank.mean():.2f} |"
    return lines


def member_areas(r):
    """Return the AUROC of each member on the test bags."""
    names, *_, refit = parts(r)
    areas = [roc_auc_score(r["truth"], c) for c in refit.T]
    return dict(zip(names.tolist(), areas, strict=True))


def by_set(mine, rivals, members, cells, index):
    lines = ["AUROC, means over samples. The best member is chosen on the test bags,"]
    lines += ["which no method can do.", ""]
    lines += ["| set | bags | samples | stack | " + " | ".join(RIVALS)]
    lines[-1] += " | best member |"
    lines += ["|---" * (5 + len(RIVALS)) + "|"]
    for (name, n), rows in zip(cells, index, strict=True):
        means = [mine[rows].mean(), *rivals[rows].mean(axis=0)]
        known = members[rows[0]]
        best = max(known, key=lambda m, rows=rows: sum(members[i][m] for i in rows))
        means.append(np.mean([members[i][best] for i in rows]))
        lines.append(f"| {name} | {n} | {len(rows)} | ")
        lines[-1] += " | ".join(f"{v:.3f}" for v in means) + f" ({best}) |"
    return lines


def calibration(found):
    """Tabulate log loss and calibration error next to those of the best member."""
    lines = ["Log loss, and calibration error (10 bins of test bags with equal sizes,"]
    lines += ["over all samples of a set), next to those of the best member. It is the"]
    lines += ["one with the lowest log loss out of fold; the last columns, with the"]
    lines += ["lowest on the test bags, are out of reach for a method.", ""]
    lines += ["| set | stack | best member | chosen on test | stack | best member | "]
    lines[-1] += "chosen on test |"
    lines += ["|---" * 7 + "|"]
    for name in [*sorted({name for name, _, _ in found}), "all"]:
        part = [r for other, _, r in found if name in (other, "all")]
        truth = [r["truth"] for r in part]
        sides = list(zip(*[(present(r), *best_members(r)) for r in part], strict=True))
        loss = [
            np.mean([figures(d, t)[1] for d, t in zip(side, truth, strict=True)])
            for side in sides
        ]
        error = [
            calibration_error(np.concatenate(side), np.concatenate(truth))
            for side in sides
        ]
        lines.append(f"| {name} | " + " | ".join(f"{v:.3f}" for v in [*loss, *error]))
        lines[-1] += " |"
    return lines


if __name__ == "__main__":
    main()
