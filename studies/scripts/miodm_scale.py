"""What linear MI-ODM is worth on many bags: time, certificate, accuracy, memory.

Four kinds of bags with one witness in each positive bag of 18 to 30 instances and 100
features: `make_key_instance_bags`, a shifted witness among white noise, a witness
shifted in one of two directions, and a shifted witness among correlated features. As
many bags again are held out. Each fit runs in a process of its own, which reports its
peak resident memory.

J is the value of the relaxation, `gap` the distance to its bound as reported (absolute;
the tolerance is relative to max(1, J)), F the value of the best single choice found and
"F keys" its value at the true witnesses. F far below "F keys" says that the objective
itself prefers other instances to the witnesses: no solver can then find them. J far
below F says that the relaxation is slack.

    python studies/scripts/miodm_scale.py [--quick] [--kinds key,shift]
"""

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings

import numpy as np

FEATURES = 100
SIZES = (500, 1500, 5000)
KINDS = ("key", "shift", "two", "correlated")
COMMON = {"kernel": "linear", "random_state": 0}
MODELS = {
    "MI-SVM": ("MISVM", COMMON),
    "bag, mixture": ("MIODM", {**COMMON, "level": "bag", "threshold": "train"}),
    "instance, polish": ("MIODM", {**COMMON, "polish": True, "threshold": "train"}),
}


def make(kind, n_bags, seed=0):
    """Return bags, labels and the row of the witness in each positive bag."""
    from bagwise.bags import Bags
    from bagwise.bags.segments import segment_argmax
    from bagwise.datasets import make_key_instance_bags

    if kind == "key":
        X, y, z = make_key_instance_bags(
            n_bags,
            n_features=FEATURES,
            bag_size=(18, 30),
            random_state=seed,
            return_instance_labels=True,
        )
        return X, y, segment_argmax(z.values.astype(float), X.offsets)
    rng = np.random.default_rng(seed)
    sizes = rng.integers(18, 31, n_bags)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    rows = rng.standard_normal((offsets[-1], FEATURES))
    if kind == "correlated":
        spread = np.linspace(2.0, 0.2, FEATURES)[:, None] / np.sqrt(FEATURES)
        rows = rows @ (spread * rng.standard_normal((FEATURES, FEATURES)))
    y = np.arange(n_bags) % 2
    keys = offsets[:-1] + rng.integers(sizes)
    shift = 2.0 if kind == "correlated" else 1.5
    first = 10 * rng.integers(2, size=n_bags) if kind == "two" else np.zeros(n_bags)
    for bag in np.flatnonzero(y):
        start = int(first[bag])
        rows[keys[bag], start : start + 10] += shift
    return Bags(rows, offsets), y, keys


def value_at_keys(X, y, keys, level):
    """Objective of MI-ODM with its default weights when the witnesses are known."""
    from bagwise.bags.segments import bag_matrix, repeat
    from bagwise.solvers.margin_distribution import (
        FeatureRows,
        OdmLoss,
        solve_odm,
        with_constant,
    )
    from bagwise.svm import MIODM

    model, plus, minus = MIODM(), y == 1, X[y == 0]
    negative = minus.data
    cost = np.full(len(minus), model.lambda2 / len(minus))
    if level == "bag":
        negative = bag_matrix(minus.offsets, mean=True) @ negative
    else:
        cost = repeat(cost, minus.offsets)
    rows = np.vstack(
        [
            with_constant(X.data[keys[plus]], model.bias),
            -with_constant(negative, model.bias),
        ]
    )
    weight = np.concatenate([np.full(plus.sum(), model.lambda1 / plus.sum()), cost])
    loss = OdmLoss(weight, model.theta, model.nu)
    return solve_odm(FeatureRows(rows), loss).objective


def one(kind, name, n_bags):
    """Fit once in this process and print what came of it as JSON."""
    from bagwise import svm

    warnings.simplefilter("ignore")  # the cap on the rounds is part of the table
    X, y, keys = make(kind, 2 * n_bags)
    train, test = np.arange(n_bags), np.arange(n_bags, 2 * n_bags)
    class_name, settings = MODELS[name]
    model = getattr(svm, class_name)(**settings)
    few = train[: min(40, n_bags)]
    model.fit(X[few], y[few])  # loads the compiled loops
    fitted = X[train]
    started, used = time.perf_counter(), time.process_time()
    model.fit(fitted, y[train])
    used, seconds = time.process_time() - used, time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    result = {
        "instances": fitted.n_instances,
        "processor": used,
        "seconds": seconds,
        "gigabytes": peak,
        "rounds": int(model.n_iter_),
        "train": model.score(fitted, y[train]),
        "test": model.score(X[test], y[test]),
    }
    if class_name == "MIODM":
        result |= {
            "J": model.objective_,
            "gap": model.duality_gap_,
            "F": model.integer_objective_,
            "keys": value_at_keys(fitted, y[train], keys[train], model.level),
        }
    print(json.dumps(result))


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="200 and 500 bags only")
    parser.add_argument("--kinds", default=",".join(KINDS), help="kinds of bags")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one(options.one[0], options.one[1], int(options.one[2]))
        return
    sizes = (200, 500) if options.quick else SIZES
    print(
        f"{'bags of kind':12}{'number':>7}{'instances':>10}  {'fit':17}{'CPU s':>7}"
        f"{'wall s':>7}{'GB':>6}{'rounds':>7}{'J':>9}{'gap':>9}{'F':>9}{'F keys':>9}"
        f"{'train':>7}{'test':>7}"
    )
    for kind in options.kinds.split(","):
        for size in sizes:
            for name in MODELS:
                command = [sys.executable, __file__, "--one", kind, name, str(size)]
                done = subprocess.run(
                    command, capture_output=True, text=True, check=True
                )
                row = json.loads(done.stdout.splitlines()[-1])
                values = "".join(
                    f"{row[key]:9.3g}" if key in row else f"{'':9}"
                    for key in ("J", "gap", "F", "keys")
                )
                print(
                    f"{kind:12}{size:7,}{row['instances']:10,}  {name:17}"
                    f"{row['processor']:7.1f}{row['seconds']:7.1f}"
                    f"{row['gigabytes']:6.2f}{row['rounds']:7}{values}"
                    f"{row['train']:7.3f}{row['test']:7.3f}",
                    flush=True,
                )
    print("bars at 5,000 bags: minutes; accuracy above chance where MI-SVM's is")


if __name__ == "__main__":
    main()
