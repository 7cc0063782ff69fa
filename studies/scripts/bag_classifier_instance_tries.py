"""Ways to weight the members of `BagClassifier` on instances, on development sets.

For every set and half, the instance scores of the four members, out of fold and
refitted, are computed once and kept in a folder. Each variant recombines them:

    python studies/scripts/bag_classifier_instance_tries.py --cache tries --out FOLDER

The sets are other halves of sci.med and other seeds of digit bags and generators than
those of the page on instances. `--stored` takes what is in the folder. A rule learns
from labels of training bags alone; instances of positive test bags are then ranked.
"""

import argparse
import pickle
import sys
import warnings
from pathlib import Path

import numpy as np
from bag_classifier_instances import _digits, _known
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.utils import check_random_state

from bagwise.base import bag_folds
from bagwise.datasets import (
    make_bags,
    make_generalized_bags,
    make_key_instance_bags,
    make_multi_site_binding,
    make_slides,
)
from bagwise.ensemble._combine import Combination
from bagwise.ensemble._inputs import Made
from bagwise.ensemble._members import classification_members
from bagwise.ensemble._plan import Size, make_plan
from bagwise.ensemble._stack import bag_scores, fit_member, stack_folds

sys.path.append(str(Path(__file__).parents[2]))

from studies.paper_sets import make_midr_example

JUDGES = ["instance logistic", "MILBoost", "MI-SVM", "instance forest"]
WITNESS = JUDGES.index("MI-SVM")
BAR = 0.02


def sets():
    """Return name -> (function that makes the set, seed of the halves, half)."""
    truth = {"return_instance_labels": True}
    found = {}
    for seed in range(1, 6):
        for half in (0, 1):
            name = f"sci.med {seed}{half}"
            found[name] = (lambda: _known("newsgroups_sci.med"), seed, half)
    draws = {
        "digits": (range(11, 16), _digits),
        "keys1.0": (range(11, 16), lambda s: _keys(1.0, s)),
        "keys.5": (range(11, 13), lambda s: _keys(0.5, s)),
        "one": (range(11, 14), lambda s: make_bags(100, random_state=s, **truth)),
        "weak": (range(14, 19), _weak),
        "slides": (range(11, 18), lambda s: _slides(60, s)),
        "slides200": ((11,), lambda s: _slides(200, s)),
        "general": (range(11, 15), _general),
        "midr": ((11, 12), lambda s: make_midr_example(80, random_state=s, **truth)),
        "binding": ((11, 12), _binding),
    }
    for name, (seeds, make) in draws.items():
        for seed in seeds:
            found[f"{name} {seed}"] = (lambda m=make, s=seed: m(s), 0, 0)
    return found


def _keys(noise, seed):
    return make_key_instance_bags(
        noise=noise, random_state=seed, return_instance_labels=True
    )


def _weak(seed):
    options = {"n_features": 10, "bag_size": (6, 14), "shift": 2.5}
    return make_bags(120, **options, random_state=seed, return_instance_labels=True)


def _slides(n_bags, seed):
    return make_slides(
        n_bags, n_patches=(40, 80), random_state=seed, return_instance_labels=True
    )


def _general(seed):
    return make_generalized_bags(
        200, n_repulsion=0, r=2, random_state=seed, return_instance_labels=True
    )


def _binding(seed):
    return make_multi_site_binding(200, random_state=seed, return_instance_labels=True)


def record(make, seed, half):
    """Return what the members say of the instances of one half, and of the other."""
    X, y, z = make()
    y = np.asarray(y)
    train, test = bag_folds(X, y, 2, random_state=seed)[half]
    positive = test[y[test] == np.unique(y)[1]]
    Xt, codes = X[train], (y[train] == np.unique(y)[1]).astype(int)
    size = Size.of(Xt)
    found = classification_members(make_plan(size), size)
    members = {m.name: m for m in found if m.name in JUDGES}
    inner = int(check_random_state(0).randint(2**31 - 1))
    folds = stack_folds(Xt, codes, 2, 5, inner)
    made, shown = Made(Xt, fit=True), Made(X[positive])
    raw = np.empty((len(train), len(JUDGES)))
    oof = np.empty((Xt.n_instances, len(JUDGES)))
    refit, seen = [], []
    for j, name in enumerate(JUDGES):
        member = members[name]
        scored = member.input.scored
        rows, bags = made.of(member.input), made.of(scored)
        for learn, rest in folds:
            target, ones = [codes[learn] == 1], np.ones(len(learn))
            models = fit_member(member, rows[learn], target, ones, inner)
            raw[rest, j] = bag_scores(models, bags[rest], 2)[:, 0]
            oof[_rows(Xt.offsets, rest), j] = (
                models[0].instance_scores(bags[rest]).values
            )
        (model,) = fit_member(member, rows, [codes == 1], np.ones(len(codes)), inner)
        refit.append(model.instance_scores(bags).values)
        seen.append(model.instance_scores(shown.of(scored)).values)
    return {
        "y": codes == 1,
        "folds": [rest for _, rest in folds],
        "raw": raw,
        "offs": Xt.offsets,
        "oof": oof,
        "train": np.column_stack(refit),
        "test": np.column_stack(seen),
        "z": z[positive].values > 0,
    }


def _rows(offsets, bags):
    return np.concatenate([np.arange(offsets[i], offsets[i + 1]) for i in bags])


# -- what rules look at --------------------------------------------------------------


def units(d):
    """Scores of test instances in units of the training instances."""
    return (d["test"] - d["train"].mean(axis=0)) / _nonzero(d["train"].std(axis=0))


def _nonzero(spread):
    return np.where(spread > 0, spread, 1.0)


def fold_units(d):
    """Out-of-fold scores of instances in units of their fold."""
    out = d["oof"].copy()
    for rest in d["folds"]:
        rows = _rows(d["offs"], rest)
        out[rows] -= out[rows].mean(axis=0)
        out[rows] /= _nonzero(out[rows].std(axis=0))
    return out


def tops(d):
    """Largest score of every bag, out of fold, and its ROC areas."""
    found = np.maximum.reduceat(fold_units(d), d["offs"][:-1], axis=0)
    return found, np.array([roc_auc_score(d["y"], column) for column in found.T])


def centered(d):
    """Scores of bags, every fold less its mean, and their ROC areas."""
    found = d["raw"].copy()
    for rest in d["folds"]:
        found[rest] -= found[rest].mean(axis=0)
    return found, np.array([roc_auc_score(d["y"], column) for column in found.T])


def over_chance(areas, power):
    return np.maximum(2.0 * areas - 1.0, 0.0) ** power


def nonnegative(d, scores):
    ones = np.ones(len(scores))
    return Combination.fit(scores, d["y"], ones, signed=False).coef


# -- rules: a record -> weights of the members ---------------------------------------


def before(d):
    scores, areas = centered(d)
    return nonnegative(d, scores) * over_chance(areas, 1)


def own(power):
    return lambda d: over_chance(centered(d)[1], power)


def top(power):
    return lambda d: over_chance(tops(d)[1], power)


def top_weights(d):
    return nonnegative(d, tops(d)[0])


def top_both(d):
    return top_weights(d) * top(1)(d)


def prior(level=1.0, rest=0.0):
    found = np.full(len(JUDGES), rest)
    found[WITNESS] = level
    return found


def half(rule, share=0.5):
    """So much for MI-SVM, and the rest by a rule."""

    def weights(d):
        found = rule(d) + 1e-3
        return (1.0 - share) * found / found.sum() + share * prior()

    return weights


def map_of_tops(ridge, level=1.0, rest=0.0):
    """Logistic regression on the largest scores, with a ridge towards MI-SVM."""

    def weights(d):
        m = tops(d)[0]
        m = (m - m.mean(axis=0)) / _nonzero(m.std(axis=0))
        first, y = prior(level, rest), d["y"].astype(float)

        def loss(theta):
            logit, far = m @ theta[:-1] + theta[-1], theta[:-1] - first
            slope = expit(logit) - y
            value = (np.logaddexp(0.0, logit) - y * logit).sum()
            gradient = np.r_[m.T @ slope + ridge * far, slope.sum()]
            return value + 0.5 * ridge * far @ far, gradient

        return _solve(loss, np.r_[first, 0.0])

    return weights


def map_of_all(ridge, level=0.0, rest=0.0):
    """Logistic regression on the log-sum-exp of all instances of a bag."""

    def weights(d):
        scores, starts, y = fold_units(d), d["offs"][:-1], d["y"].astype(float)
        of_bag = np.repeat(np.arange(len(y)), np.diff(d["offs"]))
        first = prior(level, rest)

        def loss(theta):
            s, far = scores @ theta[:-1], theta[:-1] - first
            largest = np.maximum.reduceat(s, starts)
            share = np.exp(s - largest[of_bag])
            total = np.add.reduceat(share, starts)
            logit = largest + np.log(total) + theta[-1]
            slope = expit(logit) - y
            mean = np.add.reduceat(
                (share / total[of_bag])[:, None] * scores, starts, axis=0
            )
            value = (np.logaddexp(0.0, logit) - y * logit).sum()
            gradient = np.r_[mean.T @ slope + ridge * far, slope.sum()]
            return value + 0.5 * ridge * far @ far, gradient

        return _solve(loss, np.r_[np.full(len(JUDGES), 0.5), -2.0])

    return weights


def _solve(loss, start):
    bounds = [(0.0, None)] * (len(start) - 1) + [(None, None)]
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds)
    return found.x[:-1]


def even(d):
    return np.ones(len(JUDGES))


# -- how weights become scores ---------------------------------------------------------


def mean(rule):
    """Return the mean of the members' scores by the weights of a rule."""

    def scores(d):
        weights = rule(d) + 1e-3
        return units(d) @ (weights / weights.sum())

    return scores


def ranks(rule):
    """Return the mean of how rare a score is among the training instances."""

    def scores(d):
        weights, n = rule(d) + 1e-3, len(d["train"])
        pairs = zip(d["train"].T, d["test"].T, strict=True)
        place = [np.searchsorted(np.sort(seen), new) / n for seen, new in pairs]
        place = np.clip(np.column_stack(place), 0.5 / n, 1.0 - 0.5 / n)
        return -np.log1p(-place) @ (weights / weights.sum())

    return scores


def both(*rules):
    """Return the sum of the scores of rules, each in units of its spread."""

    def scores(d):
        parts = [mean(rule)(d) for rule in rules]
        return sum((part - part.mean()) / part.std() for part in parts)

    return scores


def alone(d):
    return prior()


WEIGHTS = {
    "before: weights x area of bag scores": before,
    "even shares": even,
    "MI-SVM alone": alone,
    "area of bag scores, squared": own(2),
    "area of bag scores, power 4": own(4),
    "area of tops": top(1),
    "area of tops, squared": top(2),
    "area of tops, power 4": top(4),
    "area of tops, power 8": top(8),
    "weights on tops": top_weights,
    "weights on tops x area": top_both,
    "half MI-SVM, half even": half(even),
    "half MI-SVM, half before": half(before),
    "half MI-SVM, half area of tops": half(top(1)),
    "half MI-SVM, half area of tops, squared": half(top(2)),
    "half MI-SVM, half area of tops, power 4": half(top(4)),
    "half MI-SVM, half weights on tops": half(top_weights),
    "0.3 MI-SVM, 0.7 area of tops": half(top(1), 0.3),
    "log-sum-exp, ridge 0.1": map_of_all(0.1),
    "log-sum-exp, ridge 1": map_of_all(1.0),
    "log-sum-exp, ridge 10": map_of_all(10.0),
    **{
        f"log-sum-exp, ridge {ridge} to MI-SVM": map_of_all(ridge, 1.0)
        for ridge in (1, 2, 3, 5, 7, 10, 30)
    },
    "log-sum-exp, ridge 10 to MI-SVM, others 0.2": map_of_all(10.0, 1.0, 0.2),
    "log-sum-exp, ridge 10 to MI-SVM, others 0.4": map_of_all(10.0, 1.0, 0.4),
    "log-sum-exp, ridge 30 to MI-SVM, others 0.3": map_of_all(30.0, 1.0, 0.3),
    "log-sum-exp, ridge 3 to MI-SVM at 2": map_of_all(3.0, 2.0),
    "log-sum-exp, ridge 5 to MI-SVM at 2": map_of_all(5.0, 2.0),
    **{
        f"tops, ridge {ridge} to MI-SVM": map_of_tops(ridge)
        for ridge in (1, 3, 5, 7, 10, 30)
    },
    "tops, ridge 3 to MI-SVM, others 0.3": map_of_tops(3.0, 1.0, 0.3),
    "tops, ridge 10 to MI-SVM, others 0.3": map_of_tops(10.0, 1.0, 0.3),
    "tops, ridge 5 to MI-SVM at 2": map_of_tops(5.0, 2.0),
}
RULES = {
    **{name: mean(rule) for name, rule in WEIGHTS.items()},
    "ranks, before": ranks(before),
    "ranks, area of tops, squared": ranks(top(2)),
    "before + MI-SVM": both(before, alone),
    "area of tops, squared + MI-SVM": both(top(2), alone),
    "log-sum-exp, ridge 3 + tops, ridge 3": both(map_of_all(3, 1.0), map_of_tops(3)),
    "log-sum-exp, ridge 3 + tops, ridge 10": both(map_of_all(3, 1.0), map_of_tops(10)),
    "log-sum-exp, ridge 5 + tops, ridge 5": both(map_of_all(5, 1.0), map_of_tops(5)),
}


def gaps(d):
    """Return rule -> (AUROC, AUPRC) less those of the best member."""
    measures = (roc_auc_score, average_precision_score)
    best = [max(m(d["z"], column) for column in d["test"].T) for m in measures]
    found = {}
    for name, rule in RULES.items():
        scores = rule(d)
        pairs = zip(measures, best, strict=True)
        found[name] = [measure(d["z"], scores) - top_ for measure, top_ in pairs]
    return found


def page(table):
    """Write the tries as a table of Markdown; families have equal weights in means."""
    families = {}
    for name in table:
        families.setdefault(name.split()[0], []).append(name)
    lines = ["# Instance scores of BagClassifier: variants", "", __doc__.strip(), ""]
    lines += ["AUROC less that of the best member (found on the test bags): mean over"]
    lines += [f"families, smallest, and how many of {len(table)} draws miss .02; mean"]
    lines += ["AUPRC less the best; then the mean AUROC of every family (draws)."]
    lines += ["Tops are the largest scores of bags, out of fold.", ""]
    head = ["rule", "mean", "smallest", "missed", "AUPRC"]
    head += [f"{family} ({len(names)})" for family, names in families.items()]
    lines += ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for rule in RULES:
        every = np.array([table[name][rule] for name in table])
        means = [
            np.mean([table[name][rule] for name in names], axis=0)
            for names in families.values()
        ]
        roc, pr = np.mean(means, axis=0)
        cells = [rule, f"{roc:+.3f}", f"{every[:, 0].min():+.3f}"]
        cells += [str((every[:, 0] < -BAR).sum()), f"{pr:+.3f}"]
        cells += [f"{one[0]:+.3f}" for one in means]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", CHOICE, ""])


CHOICE = """\
Conclusion: "tops, ridge 5 to MI-SVM" is adopted, with the fewest misses (4 data sets;
the earlier rule 9) and the simpler form of two such rules. It was chosen before the
sets of the page on instances were used. The first 27 data sets had chosen ridge 10 of
the same form; the others were simulated to check that, and finer ridges were tried on
both together. Where nothing can be learned about the bags (slides, whose members have
an AUROC near 0.5 out of fold) no rule can find the best member, and all rules miss one
data set of 200 slides."""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--out", type=Path, help="folder of the page")
    parser.add_argument("--stored", action="store_true", help="run nothing")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    arguments.cache.mkdir(parents=True, exist_ok=True)
    table = {}
    for name, (make, seed, half_) in sets().items():
        path = arguments.cache / f"{name}.pkl"
        if not path.exists():
            if arguments.stored:
                continue
            path.write_bytes(pickle.dumps(record(make, seed, half_)))
        table[name] = gaps(pickle.loads(path.read_bytes()))
        print(name, flush=True)
    text = page(table)
    print(text)
    if arguments.out is not None:
        path = arguments.out / "instance-tries.md"
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
