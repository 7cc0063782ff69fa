"""`BagClassifier` and `BagRegressor`, untuned, against what their users would do.

The rivals pool each bag into a row and fit a model of rows with its defaults:
HistGradientBoosting, LightGBM, CatBoost, 500 extremely randomized trees, logistic or
ridge regression, and a multilayer perceptron (scikit-learn's, two hidden layers,
standardized columns), on mean, standard deviation, minimum, maximum, median and size
per bag, on the mean alone, or on features of series (quantiles, skewness, kurtosis,
changes). Single methods of this library are tuned inside the training folds (default
grids, three inner folds, by AUROC). Networks (DeepSets: mean pooling; attention) have
the defaults of the library.

All methods have the same folds: three of every set, seed 0. Every run uses one thread.
Seconds are processor seconds of a fold: fit, tuning and predictions. One command; the
packages that are not part of the library are installed into a folder of their own:

    python studies/scripts/bag_classifier_rivals.py --store rivals.sqlite

It continues after an interruption; `--stored` runs nothing and writes the page of the
runs that are there.

What was fixed before the first run: the stack, the sets, the methods and the folds. The
stack was developed on Musk1, Elephant, Fox, TREC1, sci.med and simulated sets other
than those here. Results of earlier generations of the stack on all classic sets were
known. Not among the rivals: AutoGluon, which needs several gigabytes of packages, and
RealMLP; tsfresh itself, whose features assume one long table of ordered rows. Networks
take no sparse rows. Likely reasons for losses: with 200 training bags, a rule that is
linear in a statistic is learned best by a model of this statistic alone ("counts" by a
linear model of means, "shares" and "spread" by trees on statistics), and the stack has
to choose among many members. The sets are not independent: seven newsgroups are alike,
and the ten problems of corel1000 share their bags.
"""

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.stats import wilcoxon
from sklearn.metrics import average_precision_score, roc_auc_score

from bagwise import BagClassifier
from bagwise.comparison import CrossValidation, compare
from bagwise.comparison.choose import find_method
from bagwise.comparison.problem import Problem
from bagwise.comparison.ranking import compare_two
from bagwise.comparison.run_one import versions
from bagwise.comparison.store import Store
from bagwise.datasets import fetch
from bagwise.svm import MISVM

sys.path.append(str(Path(__file__).parents[2]))

from studies.leaderboard import leaderboard, mean_ranks
from studies.leaderboard_page import plot_ranks
from studies.rivals import (
    RULES,
    Pooled,
    PooledRegressor,
    TwoStage,
    install,
    regression_tasks,
    simulated,
    threads,
)

RESULTS = Path(__file__).parents[1] / "results" / "bag-classifier-rivals"
DEVELOPMENT = ("musk1", "elephant", "fox", "trec1", "newsgroups_sci.med")
CLASSIC = ["protein", "tiger", "musk2", "newsgroups_alt.atheism", "trec2"]
CLASSIC += ["newsgroups_comp.graphics", "newsgroups_misc.forsale"]
CLASSIC += ["newsgroups_rec.autos", "newsgroups_sci.crypt"]
CLASSIC += ["newsgroups_talk.politics.guns"]
COREL = range(10)
ROWS = ("ExtraTrees", "LightGBM", "linear", "HistGradientBoosting", "MLP", "CatBoost")
SINGLE = ["EMD + SVC", "MI-SVM", "SimpleMI", "SAFE", "MILES", "miGraph", "MILR"]
NETWORKS = {"DeepSets": "mean", "attention network": "attention"}
STACK, REGRESSOR = "BagClassifier", "BagRegressor"
METRICS = {"auroc": "AUROC", "accuracy": "Accuracy", "log_loss": "Log loss"}


def methods():
    """Return the groups of methods, the cheapest first."""
    pooled = [(f"statistics + {m}", Pooled(m)) for m in ROWS]
    mean = [(f"mean + {m}", Pooled(m, "mean")) for m in ROWS[:3]]
    series = [(f"series + {m}", Pooled(m, "series")) for m in ROWS[:2]]
    return [[STACK, *pooled, *mean, *series], SINGLE]


def networks():
    """Return the networks, where torch is installed."""
    try:
        from bagwise.neural import NeuralBagClassifier
    except ImportError:
        return []
    return [
        (name, NeuralBagClassifier(pooling=pooling, random_state=0))
        for name, pooling in NETWORKS.items()
    ]


def problems():
    """Yield the problems of classification: those that no development used first."""
    for name in RULES:
        X, y, _ = simulated(name)
        yield Problem(name, X, y)
    for name in CLASSIC:
        data = fetch(name)
        yield Problem(name, data.X, data.y)
    data = fetch("corel1000")
    for label in COREL:
        yield Problem(f"corel1000 {label}", data.X, (data.y == label).astype(int))
    for name in DEVELOPMENT:
        data = fetch(name)
        yield Problem(name, data.X, data.y)


def regressions():
    """Yield the problems of regression."""
    for name, (X, y) in regression_tasks().items():
        yield Problem(name, X, y, task="regression")
    for name in ("LJ-16.30.2_regression", "LJ-80.166.1_regression"):
        data = fetch(name)
        yield Problem(name, data.X, data.y, task="regression")


def measure(store, only, time_limit):
    """Run what is missing, group by group over all sets."""
    groups = [*methods(), networks()]
    for group in groups:
        for problem in problems():
            if group and (not only or problem.name in only):
                _run(store, problem, group, "auroc", time_limit)
        if group is groups[0]:
            found = [(f"statistics + {m}", PooledRegressor(m)) for m in ROWS]
            for problem in regressions():
                if not only or problem.name in only:
                    _run(store, problem, [REGRESSOR, *found], "r2", time_limit)
            large(store.with_suffix(".large.csv"))


def _run(store, problem, group, metric, time_limit):
    result = compare(
        problem,
        methods=[find_method(m) if isinstance(m, str) else m for m in group],
        protocol=CrossValidation(3),
        metric=metric,
        n_jobs=1,
        time_limit=time_limit,
        store=store,
        progress=False,
    )
    failed = sorted({row["method"] for row in result.failures})
    note = f" (failed: {', '.join(failed)})" if failed else ""
    print(f"{problem.name}: {len(result.rows)} runs{note}", flush=True)


def large(path):
    """Fit the problems of 16,000 bags and the threads; one row per fit in a file."""
    done = path.read_text(encoding="utf-8") if path.exists() else ""
    if not done:
        path.write_text("task,method,figure,value,seconds\n", encoding="utf-8")
    tasks = {name: simulated(name, 20_000) for name in list(RULES)[:2]}
    for name, (X, y, odds) in tasks.items():
        test = slice(16_000, None)
        models = {
            STACK: BagClassifier(random_state=0),
            "two stages of LightGBM": TwoStage(),
            "statistics + HistGradientBoosting": Pooled("HistGradientBoosting"),
        }
        if f"{name},optimum" not in done:
            _note(path, name, "optimum", "auroc", roc_auc_score(y[test], odds[test]), 0)
        for method, model in models.items():
            if f"{name},{method}" not in done:
                f, seconds = _fit(model, X[:16_000], y[:16_000], X[test])
                value = roc_auc_score(y[test], f)
                _note(path, name, method, "auroc", value, seconds)
    X, y = threads()
    models = {
        STACK: BagClassifier(random_state=0),
        "linear MI-SVM": MISVM(kernel="linear"),
    }
    models["statistics + LightGBM"] = Pooled("LightGBM")
    for method, model in models.items():
        if f"threads,{method}" not in done:
            f, seconds = _fit(model, X[:3_000], y[:3_000], X[3_000:])
            value = average_precision_score(y[3_000:], f)
            _note(path, "threads", method, "average precision", value, seconds)


def _fit(model, X, y, others):
    start = time.process_time()
    model.fit(X, y)
    seconds = time.process_time() - start
    return model.decision_function(others), seconds


def _note(path, task, method, figure, value, seconds):
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{task},{method},{figure},{value:.4f},{seconds:.1f}\n")


# Page ---------------------------------------------------------------------------------


def named(groups):
    """Return the names of the methods of some groups."""
    return [m if isinstance(m, str) else m[0] for group in groups for m in group]


def finished(store, wanted):
    """Return the sets on which all wanted methods have three folds."""
    with Store(store) as kept:
        rows = [row for row in kept.rows() if row["status"] == "ok"]
    names = dict.fromkeys(row["dataset"] for row in rows)
    count = {(r["dataset"], r["method"]): 0 for r in rows}
    for row in rows:
        count[row["dataset"], row["method"]] += 1
    return [n for n in names if all(count.get((n, m), 0) >= 3 for m in wanted)]


def board_of(store, wanted, metric="auroc"):
    """Return the ranks of methods on the sets that all of them finished, or None."""
    sets = finished(store, wanted)
    if not sets or len(wanted) < 2:
        return None
    return leaderboard(store, metric=metric, methods=wanted, datasets=sets)


def stack_rank(board):
    """Return the mean rank, the wins and the mean of the stack, and the next method."""
    place = board.methods.index(STACK)
    ranks = mean_ranks(board.values)
    others = [k for k in range(len(board.methods)) if k != place]
    best = min(others, key=ranks.__getitem__)
    return ranks[place], ranks[best], board.methods[best]


def sentence(board, rivals, day):
    """Return the sentence of README and docs about the rank next to some rivals."""
    mine, other, name = stack_rank(board)
    others = [m for m in board.methods if m != STACK]
    used = [s for s in board.datasets if s in DEVELOPMENT]
    fresh = len(board.datasets) - len(used)
    wins = int((board.values.argmax(axis=1) == board.methods.index(STACK)).sum())
    known = f" ({', '.join(used)} were)." if used else "."
    return (
        f"Compared with {len(others)} {rivals} on {len(board.datasets)} data sets "
        f"(three folds, AUROC, {day}), `BagClassifier` has mean rank {mine:.1f} and is "
        f"first on {wins}; the next is {name} with {other:.1f}. "
        f"Of the sets, {fresh} were not used in its development{known}"
    )


def write(store, out, day):
    """Write tables, the diagram of ranks and the list of losses."""
    out.mkdir(parents=True, exist_ok=True)
    lines = ["# BagClassifier and BagRegressor against what users would do", ""]
    made_with = ", ".join(f"{n} {v}" for n, v in versions().items() if n != "platform")
    lines += [__doc__.strip(), "", f"Made with {made_with}.", ""]
    first = named(methods()[:1])
    boards = {metric: board_of(store, first, metric) for metric in METRICS}
    tuned = board_of(store, [STACK, *named(methods()[1:])])
    if boards["auroc"] is not None:
        texts = [sentence(boards["auroc"], "models of pooled bags", day)]
        if tuned is not None:
            texts.append(sentence(tuned, "tuned single methods", day))
        (out / "sentences.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
        plot_ranks(boards["auroc"]).savefig(out / "auroc.png", dpi=110)
        lines += ["\n\n".join(texts), "", "![Mean ranks by AUROC](auroc.png)", ""]
        for metric, board in boards.items():
            lines += _table(board, METRICS[metric], store)
        lines += _losses(store, boards["auroc"])
    lines += _with_others(store, tuned, "tuned single methods")
    board = board_of(store, [STACK, *named([networks()])])
    lines += _with_others(store, board, "networks")
    lines += _regression(store)
    path = store.with_suffix(".large.csv")
    if path.exists():
        lines += ["## Many bags", "", "16,000 training bags of 15 instances and 4,000"]
        lines += ["test bags; 3,000 training threads, 1 of 25 positive.", ""]
        lines += ["| task | method | figure | value | processor seconds |"]
        lines += ["|---|---|---|---|---|"]
        rows = path.read_text(encoding="utf-8").splitlines()[1:]
        lines += ["| " + row.replace(",", " | ") + " |" for row in rows] + [""]
    (out / "README.md").write_text("\n".join(lines), encoding="utf-8")


def _table(board, title, store):
    lines = [
        f"## {title}: {len(board.methods)} methods, {len(board.datasets)} sets",
        "",
    ]
    lines += [
        f"Friedman's test: p = {board.p_friedman:.2g}; critical difference of mean"
    ]
    lines[-1] += f" ranks (Nemenyi, 5%): {board.critical_difference:.2f}."
    lines += ["", "| method | mean rank | mean | wins | processor seconds |"]
    lines += ["|---|---|---|---|---|"]
    seconds = processor_seconds(store, board.datasets)
    for row in board.rows():
        lines.append(
            f"| {row['method']} | {row['mean_rank']:.2f} | {row['mean']:.3f} | "
            f"{row['wins']} | {seconds[row['method']]:.1f} |"
        )
    lines += ["", "| set | " + " | ".join(board.methods) + " |"]
    lines += ["|---" * (len(board.methods) + 1) + "|"]
    for name, values in zip(board.datasets, board.values, strict=True):
        mark = " (development)" if name in DEVELOPMENT else ""
        cells = " | ".join(f"{v:.3f}" for v in values)
        lines.append(f"| {name}{mark} | {cells} |")
    return [*lines, ""]


def processor_seconds(store, sets):
    """Return the mean processor seconds of a fold for each method."""
    found = {}
    with Store(store) as kept:
        keys = list(kept.status())
        for key, row in zip(keys, kept.rows(keys), strict=True):
            if row["status"] == "ok" and row["dataset"] in sets:
                spent = kept.arrays(key)["cpu_seconds"][0]
                found.setdefault(row["method"], []).append(spent)
    return {method: float(np.mean(spent)) for method, spent in found.items()}


def _with_others(store, board, title):
    """Return the table with further methods, on the sets that these finished."""
    if board is None:
        return []
    lines = _table(board, f"AUROC with {title}", store)
    stack = board.methods.index(STACK)
    ahead = []
    for name, values in zip(board.datasets, board.values, strict=True):
        best = int(values.argmax())
        gain = values[best] - values[stack]
        if gain > 0:
            ahead.append(f"{name} {gain:+.3f} ({board.methods[best]})")
    text = "; ".join(ahead) or "none"
    return [*lines, f"Sets on which another method is ahead of the stack: {text}.", ""]


def _losses(store, board):
    """List the sets on which a rival is ahead, with the interval of the difference."""
    lines = ["## Losses", "", "Best rival minus the stack, AUROC, 95% interval.", ""]
    lines += ["| set | rival | difference | interval |", "|---|---|---|---|"]
    mine = board.methods.index(STACK)
    gains = []
    for problem in problems():
        if problem.name not in board.datasets:
            continue
        values = board.values[board.datasets.index(problem.name)]
        others = [k for k in range(len(values)) if k != mine]
        best = max(others, key=values.__getitem__)
        gains.append(values[mine] - values[best])
        if values[best] <= values[mine] + 0.001:
            continue
        names = [STACK, board.methods[best]]
        group = [m for g in methods() for m in g]
        found = [m for m in group if (m if isinstance(m, str) else m[0]) in names]
        result = compare(
            problem,
            methods=[find_method(m) if isinstance(m, str) else m for m in found],
            protocol=CrossValidation(3),
            metric="auroc",
            n_jobs=1,
            store=store,
            progress=False,
        )
        d = compare_two(result, names[1], names[0])
        lines.append(
            f"| {problem.name} | {names[1]} | {values[best] - values[mine]:+.3f} | "
            f"{d.low:+.3f} to {d.high:+.3f} |"
        )
    if len(gains) > 5:
        p = wilcoxon(gains).pvalue
        lines += ["", f"Stack minus best rival of each set: mean {np.mean(gains):+.3f}"]
        lines[-1] += f" (Wilcoxon's signed ranks: p = {p:.2g})."
    return [*lines, ""]


def _regression(store):
    wanted = [REGRESSOR, *(f"statistics + {m}" for m in ROWS)]
    board = board_of(store, wanted, "r2")
    return [] if board is None else _table(board, "R2", store)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", type=Path, default=Path("rivals.sqlite"))
    parser.add_argument("--packages", type=Path, default=Path("rivals-packages"))
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--time-limit", type=float, default=900.0)
    parser.add_argument("--only", nargs="*", help="names of sets")
    parser.add_argument("--day", default=time.strftime("%Y-%m-%d"))
    parser.add_argument("--stored", action="store_true", help="run nothing")
    arguments = parser.parse_args()
    install(arguments.packages)
    if not arguments.stored:
        warnings.simplefilter("ignore")
        measure(arguments.store, arguments.only, arguments.time_limit)
    write(arguments.store, arguments.out, arguments.day)


if __name__ == "__main__":
    main()
