"""Members and weights of `BagClassifier` on few bags, on development sets.

Training sets of 20, 45 and 90 bags are sampled from the development sets; all other
bags are test bags. The members' scores, out of fold and of test bags, and those of
rivals on pooled statistics are computed once and kept in a folder; every variant
combines them again:

    python studies/scripts/bag_classifier_small.py --cache small --out FOLDER

Development sets: Musk1, Elephant, Fox, digit bags and generators, among
them wide rows: word counts that are mostly zero, and dense columns of which few matter.
Rivals: mean, standard deviation, minimum, maximum, median and size per bag, then 500
extremely randomized trees, histogram gradient boosting or logistic regression, all
untuned.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split
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
from bagwise.ensemble._combine import (
    Combination,
    PlattScale,
    logistic_stack,
    prior_weights,
)
from bagwise.ensemble._inputs import Made
from bagwise.ensemble._plan import Size, make_plan
from bagwise.ensemble._stack import bag_scores, fit_member

CLASSIC = ["musk1", "elephant", "fox"]
SIZES, REPEATS, FOLDS = (20, 45, 90), 1, 5
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


def sets():
    """Return the development sets: name -> function that gives bags and labels."""
    found = {name: lambda name=name: fetch(name, return_X_y=True) for name in CLASSIC}
    found["digits"] = lambda: load_digit_bags(random_state=1, return_X_y=True)
    found["two concepts of three"] = lambda: make_generalized_bags(
        200, n_repulsion=1, random_state=3
    )
    found["weak witnesses"] = lambda: make_bags(
        200, n_features=10, bag_size=(6, 14), shift=2.5, random_state=4
    )
    found["word counts"] = word_counts
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


def record(X, y, train, test, rows):
    """Fit all members as the stack does, and the rivals, and keep their scores."""
    inside, target = X[train], y[train] == 1
    size = Size.of(inside)
    members = _members.classification_members(make_plan(size), size)
    made, others = Made(inside, fit=True), Made(X[test])
    weight = np.ones(len(train))
    n_folds = min(FOLDS, int(target.sum()), int((~target).sum()))
    folds = bag_folds(inside, target.astype(int), n_folds, random_state=0)
    oof = np.empty((len(train), len(members)))
    refit = np.empty((len(test), len(members)))
    for j, m in enumerate(members):
        scored = m.input.scored
        for learn, held in folds:
            known = m.input.select(made.of(m.input), learn, learn)
            found = fit_member(m, known, [target[learn]], weight[learn], 0)
            unknown = scored.select(made.of(scored), held, learn)
            oof[held, j] = bag_scores(found, unknown, 2)[:, 0]
        found = fit_member(m, made.of(m.input), [target], weight, 0)
        refit[:, j] = bag_scores(found, others.of(scored), 2)[:, 0]
    rivals = [
        model.fit(rows[train], target).predict_proba(rows[test])[:, 1]
        for model in rival_models().values()
    ]
    names = np.array([m.name for m in members])
    return {
        "names": names,
        "y": target,
        "oof": oof,
        "refit": refit,
        "rivals": np.column_stack(rivals),
        "truth": y[test] == 1,
    }


def records(cache, only, stored):
    """Yield (set, size, record) of every training set, from the folder where kept."""
    for name, make in sets().items():
        if only and name not in only:
            continue
        X = None
        for n in SIZES:
            for repeat in range(REPEATS):
                path = cache / f"{name.replace(' ', '_')}-{n}-{repeat}.npz"
                if not path.exists():
                    if stored:
                        continue
                    if X is None:
                        X, y = make()
                        y = np.asarray(y)
                        rows = pooled(X)
                    if len(X) < n + 40:
                        continue
                    train, test = train_test_split(
                        np.arange(len(X)), train_size=n, stratify=y, random_state=repeat
                    )
                    found = record(X, y, np.sort(train), np.sort(test), rows)
                    np.savez_compressed(path, **found)
                    print(path.name, flush=True)
                with np.load(path) as kept:
                    yield name, n, dict(kept)


def _chosen(r, left_out=()):
    keep = ~np.isin(r["names"], left_out)
    return r["oof"][:, keep], r["refit"][:, keep]


def present(r, trees=4.0):
    """The stack as it is: shrunk to a prior, trees on statistics before the others."""
    left_out = {"two-stage boosting"}
    if "statistics L1" not in r["names"]:  # data with few columns
        left_out.add("linear MI-SVM")
    names = r["names"][~np.isin(r["names"], list(left_out))]
    oof, refit = _chosen(r, list(left_out))
    prior = prior_weights(np.where(names == "statistics trees", trees, 1.0))
    return Combination.fit(oof, r["y"], np.ones(len(r["y"])), prior=prior)(refit)


def plain(r, *left_out):
    """The stack without a prior and without some members."""
    oof, refit = _chosen(r, left_out)
    return Combination.fit(oof, r["y"], np.ones(len(r["y"])))(refit)


def shrunk(r, ridge=10.0, total=1.0, nonnegative=True, left_out=()):
    """Weights shrunk towards equal ones."""
    oof, refit = _chosen(r, left_out)
    weight = np.ones(len(r["y"]))
    scales = [PlattScale.fit(c, r["y"], weight) for c in oof.T]
    logits = np.column_stack([s(c) for s, c in zip(scales, oof.T, strict=True)])
    others = np.column_stack([s(c) for s, c in zip(scales, refit.T, strict=True)])
    coef, constant = logistic_stack(
        logits,
        r["y"],
        weight,
        ridge=ridge,
        nonnegative=nonnegative,
        prior=total / oof.shape[1],
    )
    return others @ coef + constant


def both(r, ridge, total):
    """The mean of weights that are not negative and of weights without sign."""
    sides = [shrunk(r, ridge, total, nonnegative=free) for free in (True, False)]
    return 0.5 * (sides[0] + sides[1])


def halfway(r, **options):
    """The mean of the stack as it is and of shrunk weights."""
    return 0.5 * (plain(r) + shrunk(r, **options))


def negligible(r, least):
    """Members with a small share of the decision are dropped, weights found again."""
    oof, refit = _chosen(r)
    weight = np.ones(len(r["y"]))
    found = Combination.fit(oof, r["y"], weight)
    share = np.abs(found.coef) * found.logits(oof).std(axis=0)
    keep = share >= least * share.sum()
    return Combination.fit(oof[:, keep], r["y"], weight)(refit[:, keep])


# Names of members in stored records, of earlier and of current code.
CUBE = ("near bags in the cube", "Wasserstein (min-max)")  # wording: quoted
NEW = ("linear MI-SVM", "two-stage boosting", "statistics L1")
TRIES = {
    "as it is": present,
    "equal prior": lambda r: present(r, trees=1.0),
    "no prior, all members": plain,
    "without linear MI-SVM": lambda r: plain(r, "linear MI-SVM"),
    "without two-stage boosting": lambda r: plain(r, "two-stage boosting"),
    "without statistics L1": lambda r: plain(r, "statistics L1"),
    "without the three": lambda r: plain(r, *NEW),
    "one distance": lambda r: plain(r, *CUBE),
    "no distances": lambda r: plain(r, *CUBE, "near bags", "Wasserstein"),
    "shrunk to equal, 10": shrunk,
    "shrunk to equal, 30": lambda r: shrunk(r, ridge=30.0),
    "shrunk to equal, 10, sum 1.5": lambda r: shrunk(r, total=1.5),
    "half shrunk, 10": halfway,
    "half shrunk, 30": lambda r: halfway(r, ridge=30.0),
    "both shrunk, 10, sum 1.5": lambda r: both(r, 10.0, 1.5),
    "both shrunk, 20, sum 1.5": lambda r: both(r, 20.0, 1.5),
    "both shrunk, 30, sum 1.5": lambda r: both(r, 30.0, 1.5),
    "both shrunk, 20, sum 2": lambda r: both(r, 20.0, 2.0),
    "half shrunk, 30, sum 1.5": lambda r: halfway(r, ridge=30.0, total=1.5),
    "share below 2% dropped": lambda r: negligible(r, 0.02),
    "share below 5% dropped": lambda r: negligible(r, 0.05),
}


def figures(decision, truth):
    """AUROC and log loss."""
    p = np.clip(1.0 / (1.0 + np.exp(-decision)), 1e-6, 1.0 - 1e-6)
    return roc_auc_score(truth, decision), log_loss(truth, p, labels=[False, True])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, default=Path("small"))
    parser.add_argument("--out", type=Path, help="folder of the page")
    parser.add_argument("--stored", action="store_true", help="run nothing")
    parser.add_argument("--stages", action="store_true", help="two stages at any size")
    parser.add_argument("--only", nargs="*", help="names of sets")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    arguments.cache.mkdir(parents=True, exist_ok=True)
    if arguments.stages:
        _members._STAGES_FROM = 0
    keys, table, rivals, best = [], [], [], []
    for name, n, r in records(arguments.cache, arguments.only, arguments.stored):
        keys.append((name, n))
        table.append([figures(t(r), r["truth"]) for t in TRIES.values()])
        rivals.append([roc_auc_score(r["truth"], c) for c in r["rivals"].T])
        loss = [
            figures(PlattScale.fit(o, r["y"], np.ones(len(o)))(f), r["truth"])[1]
            for o, f in zip(r["oof"].T, r["refit"].T, strict=True)
        ]
        best.append(min(loss))
    text = page(keys, np.array(table), np.array(rivals), np.array(best))
    print(text)
    if arguments.out is not None:
        (arguments.out / "small.md").write_text(text, encoding="utf-8")


def page(keys, table, rivals, best):
    """Return the figures as tables of Markdown."""
    lines = ["# BagClassifier on few bags", "", __doc__.strip(), ""]
    lines += ["Means over sets and sizes. Regret: AUROC of the best rival"]
    lines += ["minus that of the stack, the largest over the sets, for"]
    lines += ["less than 60 bags and for 60 or more.", ""]
    lines += ["| variant | AUROC | log loss | regret, < 60 bags | regret, >= 60 bags |"]
    lines += ["|---|---|---|---|---|"]
    cells = sorted(set(keys))
    index = [[i for i, key in enumerate(keys) if key == cell] for cell in cells]
    small = np.array([n < 60 for _, n in cells])
    for j, name in enumerate(TRIES):
        lost = np.array(
            [(rivals[rows].mean(0)).max() - table[rows, j, 0].mean() for rows in index]
        )
        ends = [lost[part].max() if part.any() else np.nan for part in (small, ~small)]
        auroc, loss = table[:, j].mean(axis=0)
        lines.append(f"| {name} | {auroc:.4f} | {loss:.4f} | {ends[0]:+.3f} | ")
        lines[-1] += f"{ends[1]:+.3f} |"
    lines += ["", "Mean log loss of the best member (chosen on test bags): "]
    lines[-1] += f"{best.mean():.4f}."
    lines += ["", "| set | bags | stack | " + " | ".join(RIVALS) + " |"]
    lines += ["|---" * (3 + len(RIVALS)) + "|"]
    for (name, n), rows in zip(cells, index, strict=True):
        means = [table[rows, 0, 0].mean(), *rivals[rows].mean(0)]
        lines.append(f"| {name} | {n} | " + " | ".join(f"{v:.3f}" for v in means))
        lines[-1] += " |"
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
