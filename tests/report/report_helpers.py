"""A comparison with hostile names, made from values without runs."""

import numpy as np

from bagwise import Bags
from bagwise.comparison import Comparison, CrossValidation, Method
from bagwise.comparison.choose import Choice
from bagwise.comparison.problem import Problem

EVIL = "</script><script>window.hacked=1</script><b>&\"'"


def make_comparison(
    images=False, n_bags=40, names=("best one", EVIL), n_classes=2, stacked=False
):
    rng = np.random.default_rng(0)
    y = np.arange(n_bags) % n_classes
    sizes = rng.integers(2, 7, n_bags)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    data = rng.normal(size=(offsets[-1], 5))
    ids = [EVIL if i == 0 else f"mol {i}" for i in range(n_bags)]
    columns = [EVIL, "a", "b", "c", "d"]
    X = Bags(data, offsets, ids=ids, feature_names=columns)
    pictures = rng.random((offsets[-1], 6, 6)) if images else None
    problem = Problem(EVIL, X, y, rng.random(offsets[-1]) < 0.3, pictures)
    protocol = CrossValidation(4)
    rows, arrays = [], {}
    for k, name in enumerate(names):
        for repeat, fold in protocol.folds(n_bags):
            key = f"{k}-{fold}"
            _, test = protocol.split(y, repeat, fold, 0)
            shape = len(test) if n_classes == 2 else (len(test), n_classes)
            score = rng.normal(size=shape)
            score = score + 2 * (y[test] - 0.5) if n_classes == 2 else score
            label = (score > 0) if n_classes == 2 else score.argmax(axis=1)
            failed = k == 1 and fold == 3
            n_rows = int(sizes[test].sum())
            arrays[key] = {
                "test": test,
                "score": score,
                "label": np.asarray(label, dtype=int),
                "instances": rng.normal(size=n_rows),
            }
            if stacked and k == 0:
                arrays[key]["member_names"] = np.array(["trees", EVIL][: 1 + fold])
                arrays[key]["member_weights"] = np.array([-0.5, 1.0 + fold])[: 1 + fold]
                arrays[key]["member_scores"] = np.array([0.7, 0.9])[: 1 + fold]
            if n_classes == 2:
                arrays[key]["probability"] = 1 / (1 + np.exp(-score))
            hits = float((arrays[key]["label"] == y[test]).mean())
            rows.append(
                {
                    "key": key,
                    "status": "failed" if failed else "ok",
                    "method": name,
                    "repeat": repeat,
                    "fold": fold,
                    "accuracy": hits,
                    "auroc": 0.8,
                    "balanced_accuracy": hits,
                    "log_loss": 0.5,
                    "key_success": 0.4,
                    "fit_time": 0.1 * (k + 1),
                    "tune_time": 0.5,
                    "predict_time": 0.01,
                    "peak_memory": 10**7,
                    "params": {"C": 1.0, EVIL: EVIL},
                    "error": EVIL if failed else "",
                    "traceback": EVIL if failed else "",
                    "notes": [EVIL],
                }
            )
    methods = [Method(name, "x.Y", paper=EVIL) for name in names]
    return Comparison(
        problem,
        methods,
        rows,
        "accuracy",
        protocol,
        None,
        0,
        [Choice(method, True, EVIL) for method in methods],
        {"command": EVIL, "versions": {"numpy": "2"}},
        "because",
        "default",
        arrays,
    )
