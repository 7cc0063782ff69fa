"""Comparisons of every kind that a report must show, made from values without runs."""

import numpy as np
from report_helpers import EVIL

from bagwise import Bags
from bagwise.comparison import Comparison, CrossValidation, LeaveOneBagOut, Method
from bagwise.comparison.evaluate import METRICS
from bagwise.comparison.problem import Problem
from bagwise.comparison.tasks import task_of

LONG = "a method whose name is as long as some people think that names should be " * 2


def build(
    y,
    methods,
    *,
    name="case",
    protocol=None,
    metric=None,
    groups=None,
    ids=None,
    sizes=3,
    width=4,
    task="classification",
    pos_label=None,
):
    """Return a comparison whose methods are functions of (truth, generator).

    The truth is the index of the class, zeros and ones for several labels, or the
    value. A method gives a dict with what runs store and `instances=False` for none of
    those; None is a failed run.
    """
    rng = np.random.default_rng(0)
    y = np.asarray(y)
    counts = np.broadcast_to(sizes, len(y))
    offsets = np.concatenate([[0], np.cumsum(counts)])
    data = rng.normal(size=(offsets[-1], width))
    X = Bags(data, offsets, ids=ids, groups=groups)
    problem = Problem(name, X, y, pos_label=pos_label, task=task)
    truth = problem.targets
    if task == "classification":
        truth = np.searchsorted(problem.classes, y)
    judge = task_of(problem)
    protocol = CrossValidation(4) if protocol is None else protocol
    rows, arrays = [], {}
    for m, (method, say) in enumerate(methods.items()):
        for repeat, fold in protocol.folds(len(y), X.groups):
            _, test = protocol.split(problem.targets, repeat, fold, 0, X.groups)
            found = say(truth[test], rng)
            key = f"{m}-{repeat}-{fold}"
            figures = dict.fromkeys(METRICS)
            if found is not None:
                instances = found.pop("instances", True)
                if task == "classification":
                    found.setdefault("score", np.empty(0))
                measured = judge.measured(found, test)
                figures |= judge.figures(measured)
                figures |= judge.more_figures(measured, test, None)
                if instances:
                    found["instances"] = rng.normal(size=int(counts[test].sum()))
                arrays[key] = {"test": test, **found}
            rows.append(
                {
                    "key": key,
                    "status": "failed" if found is None else "ok",
                    "method": method,
                    "repeat": repeat,
                    "fold": fold,
                    **figures,
                    "fit_time": 0.01 * (m + 1),
                    "tune_time": 0.0,
                    "predict_time": 0.001,
                    "peak_memory": 10**6,
                    "params": {},
                    "grid_ends": {},
                    "error": "ValueError: it broke" if found is None else "",
                    "traceback": "Traceback\n  it broke" if found is None else "",
                    "notes": [],
                }
            )
    return Comparison(
        problem,
        [Method(method, "x.Y") for method in methods],
        rows,
        judge.default_metric()[0] if metric is None else metric,
        protocol,
        None,
        0,
        arrays=arrays,
    )


def good(strength=1.5, probability=True, instances=True):
    """Return a method whose scores are better than chance."""

    def say(truth, rng, n_classes=None):
        n = int(max(truth.max(), 1)) + 1 if n_classes is None else n_classes
        score = rng.normal(size=(len(truth), n))
        score[np.arange(len(truth)), truth] += strength
        p = np.exp(score) / np.exp(score).sum(axis=1, keepdims=True)
        found = {"label": score.argmax(axis=1), "instances": instances}
        two = n == 2
        found["score"] = score[:, 1] - score[:, 0] if two else score
        if probability:
            found["probability"] = p[:, 1] if two else p
        return found

    return say


def of(n_classes, **options):
    """Return a good method for a given number of classes."""
    say = good(**options)
    return lambda truth, rng: say(truth, rng, n_classes)


def perfect(truth, rng):
    """Predict the true class with probability 1."""
    return {
        "label": truth.copy(),
        "score": truth * 2.0 - 1.0,
        "probability": truth.astype(float),
    }


def constant(truth, rng):
    """Predict the first class for every bag."""
    zero = np.zeros(len(truth))
    return {"label": zero.astype(int), "score": zero - 1.0, "probability": zero + 0.3}


def labels_only(truth, rng):
    """Predict labels without scores."""
    return {"label": np.where(rng.random(len(truth)) < 0.7, truth, 0)}


def fails(truth, rng):
    """Fail."""
    return


def near(noise=0.3, instances=True):
    """Return a method that predicts values with some noise."""

    def say(truth, rng):
        return {
            "prediction": truth + noise * rng.normal(size=len(truth)),
            "instances": instances,
        }

    return say


def mean_value(truth, rng):
    """Predict the same value for every bag."""
    return {"prediction": np.full(len(truth), 7.25), "instances": False}


def labels(strength=1.5):
    """Return a method for several labels per bag."""

    def say(truth, rng):
        score = strength * (truth - 0.5) + rng.normal(size=truth.shape)
        return {
            "label": (score > 0).astype(int),
            "score": score,
            "probability": 1 / (1 + np.exp(-score)),
        }

    return say


def _words(n, first="active", second="inactive"):
    return np.where(np.arange(n) % 2 == 0, first, second)


def _without_fold(comparison, method, fold):
    """Remove a run, as if the time budget had ended before it."""
    comparison.rows[:] = [
        row for row in comparison.rows if (row["method"], row["fold"]) != (method, fold)
    ]
    return comparison


CASES = {
    "plain": lambda: build(_words(60), {"a": of(2), "b": of(2, strength=0.5)}),
    "perfect": lambda: build(_words(40), {"a": perfect, "b": perfect, "c": perfect}),
    "perfect and constant": lambda: build(
        _words(40), {"a": perfect, "b": constant}, metric="log_loss"
    ),
    "constant": lambda: build(_words(40), {"a": constant, "b": constant}),
    "failed": lambda: build(_words(40), {"a": of(2), "b": fails}),
    "all failed": lambda: build(_words(40), {"a": fails, "b": fails}),
    "one method": lambda: build(_words(40), {"a": of(2)}),
    "five classes": lambda: build(
        np.arange(100) % 5, {"a": of(5), "b": of(5, strength=0.3)}
    ),
    "seven classes": lambda: build(
        [f"kind {k % 7}" for k in range(140)],
        {"a": of(7), "b": of(7, probability=False, instances=False)},
    ),
    "thirty classes": lambda: build(np.arange(240) % 30, {"a": of(30), "b": of(30)}),
    "no probabilities": lambda: build(
        _words(40), {"a": of(2, probability=False), "b": of(2, probability=False)}
    ),
    "labels only": lambda: build(
        np.arange(60) % 3, {"a": labels_only, "b": labels_only}
    ),
    "many bags": lambda: build(
        _words(20_000),
        {f"m{k}": of(2, strength=0.3 * k) for k in range(5)},
        sizes=4,
    ),
    "long names": lambda: build(
        _words(40, LONG + "x", LONG + "y"),
        {f"{LONG} {k}": of(2) for k in range(3)} | {LONG: constant},
        name=LONG,
        ids=[f"{LONG} {i}" for i in range(40)],
    ),
    "markup": lambda: build(
        _words(40, EVIL, "<i>other</i>"),
        {EVIL: of(2), "<img src=x onerror=window.hacked=1>": constant},
        name=EVIL,
        ids=[f"{EVIL}{i}" for i in range(40)],
    ),
    "leave one out": lambda: build(
        _words(30), {"a": of(2), "b": constant}, protocol=LeaveOneBagOut()
    ),
    "repeats": lambda: build(
        _words(40), {"a": of(2), "b": of(2)}, protocol=CrossValidation(4, n_repeats=3)
    ),
    "a rare class": lambda: build(
        np.where(np.arange(120) % 15 == 0, "yes", "no"),
        {"a": of(2), "b": constant},
        metric="auroc",
    ),
    "groups": lambda: build(
        np.where(np.arange(60) // 3 % 2 == 0, "ill", "well"),
        {"a": of(2), "b": of(2, probability=False)},
        groups=np.arange(60) // 3,
    ),
    "mixed groups": lambda: build(
        np.arange(60) % 3, {"a": of(3)}, groups=[f"p{i // 4}" for i in range(60)]
    ),
    "positive first": lambda: build(
        _words(60),
        {"a": of(2), "b": of(2, strength=0.5), "c": constant},
        pos_label="active",
        metric="average_precision",
    ),
    "several labels": lambda: build(
        np.arange(60)[:, None] % [2, 3, 4] == 0,
        {"a": labels(), "b": labels(0.3)},
        task="multilabel",
    ),
    "values": lambda: build(
        np.linspace(-3.0, 12.0, 80),
        {"a": near(0.5), "b": near(4.0, instances=False), "c": mean_value},
        task="regression",
        sizes=np.arange(80) % 60 + 1,
    ),
    "exact values": lambda: build(
        1e6 * np.linspace(1.0, 2.0, 40),
        {"a": near(0.0), "b": near(0.0)},
        task="regression",
        metric="rmse",
    ),
    "tiny values": lambda: build(
        1e-7 * np.linspace(-1.0, 1.0, 40),
        {"a": near(1e-8), "b": fails},
        task="regression",
        metric="mae",
    ),
    "many values": lambda: build(
        np.random.default_rng(2).normal(size=20_000),
        {"a": near(0.5), "b": near(1.0)},
        task="regression",
    ),
    "cut short": lambda: _without_fold(
        build(_words(40), {"a": of(2), "b": of(2)}), "b", 3
    ),
    "one bag size": lambda: build(_words(40), {"a": of(2)}, sizes=1, width=1),
}
