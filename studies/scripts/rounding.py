"""Effect of rounding: decision values under noise and other processors' kernels.

Every classifier and regressor is fitted on simulated bags, on the same bags with
relative noise of 1e-15 in every number, and in processes whose BLAS runs the kernels of
other processors (OPENBLAS_CORETYPE; where numpy has another BLAS nothing changes).
Written down are the largest change of a decision value, or of a predicted value, on
held-out bags, relative to the largest, and the share of labels that changed.

    python studies/scripts/rounding.py [--write] [--jobs 3] [METHOD ...]

With --write the table goes to docs/guide/rounding.csv, which the guide shows; lines of
methods that were not asked for stay as they are.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from sklearn.base import is_classifier, is_regressor
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from bagwise.compose import OnInstances
from bagwise.datasets import make_bags, make_regression_bags
from bagwise.testing import all_estimators, make_instance

TABLE = Path(__file__).parents[2] / "docs" / "guide" / "rounding.csv"
DRAWS, TRAIN, TEST = 1, 40, 60
SETTINGS = {
    "noise 1e-15": {},
    "Sandybridge": {"OPENBLAS_CORETYPE": "Sandybridge"},
    "Prescott": {
        "OPENBLAS_CORETYPE": "Prescott",
        "NUMBA_CPU_NAME": "generic",
        "NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3",
    },
}
# Causes of differences; all other differences are the last digits of sums.
WHY = {
    "NeuralBagClassifier": "steps in single precision, one after the other",
    "NeuralBagRegressor": "steps in single precision, one after the other",
    "BagKNeighborsRegressor": "ties between distances",
    "BagRegressor": "trees: splits that are equally good",
    "BagSVR": "the end of a convex step at tol",
    "MILinearRegression": "non-convex: ties between largest instances",
    "WrapperMIRegressor": "trees: splits that are equally good",
    "BagClassifier": "trees: splits that are equally good",
    "BagStackingClassifier": "sums",
    "CitationKNN": "ties between distances",
    "GMIL": "sums",
    "IAPR": "ties between boxes that grow",
    "MIBoosting": "trees: splits that are equally good",
    "MIODM": "ties between choices, broken by a band; the end at tol",
    "KISVM": "ties between choices, broken by a band; the end at tol",
    "MILBoost": "stumps that are equally good",
    "MILEAGE": "the end of a convex step at tol",
    "MIDR": "non-convex: starts that are equally good",
    "MILogisticRegression": "non-convex: starts that are equally good",
    "DiverseDensity": "non-convex: starts that are equally good",
    "EMDD": "non-convex: ties between nearest instances",
    "TwoLevelClassifier": "trees: splits that are equally good",
    "BoxKernelSVC": "counts are exact; sums of logarithms",
}
MARGIN = ("MISVM", "MiSVM", "MICA", "MissSVM", "PCSVM", "SBMIL", "STMIL")
WHY |= dict.fromkeys(("MILES", "SMIL"), "the end of a convex step at tol")
WHY |= dict.fromkeys(MARGIN, "witnesses that tie; the end of a convex step at tol")


def methods(chosen=()):
    """Yield names and estimators of classifiers and regressors of bags, all or some."""
    for name, cls in all_estimators():
        if chosen and name not in chosen:
            continue
        one = make_instance(cls)
        fits = is_classifier(one) or is_regressor(one)
        if fits and not get_tags(one).input_tags.two_d_array:
            yield name, one


def decisions(noise, chosen=()):
    """Decision values, or predicted values, of every method on every draw."""
    found = {}
    for name, model in methods(chosen):
        if "random_state" in model.get_params(deep=False):
            model.set_params(random_state=0)
        found[name] = []
        for seed in range(DRAWS):
            if is_classifier(model):
                draw = make_bags(
                    TRAIN + TEST, n_features=4, shift=3.0, random_state=seed
                )
            else:
                draw = make_regression_bags(
                    TRAIN + TEST, n_features=4, random_state=seed
                )
            X, y = draw
            X = OnInstances(StandardScaler()).fit(X[:TRAIN]).transform(X)
            if noise:
                rng = np.random.default_rng(seed)
                X = X.with_data(
                    X.data * (1 + 1e-15 * rng.standard_normal(X.data.shape))
                )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(X[:TRAIN], y[:TRAIN])
                answer = (
                    model.decision_function if is_classifier(model) else model.predict
                )
                scores = answer(X[TRAIN:])
            found[name].append(scores.tolist())
    return found


def other_process(setting, chosen):
    """Return the decisions of a process with other settings."""
    asked = f"{not SETTINGS[setting]}, {chosen!r}"
    code = f"import json, rounding; print(json.dumps(rounding.decisions({asked})))"
    env = {**os.environ, **SETTINGS[setting]}
    env["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    out = subprocess.run(
        [sys.executable, "-c", code], env=env, check=True, capture_output=True
    )
    return json.loads(out.stdout.splitlines()[-1])


def change(one, other):
    """Largest relative change of a decision value, and the share of other labels."""
    worst, flipped = 0.0, 0.0
    for a, b in zip(one, other, strict=True):
        a, b = np.array(a), np.array(b)
        worst = max(worst, np.abs(a - b).max() / max(1.0, np.abs(a).max()))
        flipped += np.mean((a > 0) != (b > 0)) / len(one)
    return worst, flipped


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--jobs", type=int, default=len(SETTINGS))
    parser.add_argument("methods", nargs="*")
    given = parser.parse_args()
    chosen = given.methods
    plain = decisions(False, chosen)
    with ThreadPoolExecutor(given.jobs) as pool:
        asked = {name: pool.submit(other_process, name, chosen) for name in SETTINGS}
        others = {name: one.result() for name, one in asked.items()}
    lines = [["method", "what can differ", *SETTINGS, "labels"]]
    values = {name for name, model in methods() if is_regressor(model)}
    for name in plain:
        found = [change(plain[name], others[s][name]) for s in SETTINGS]
        flipped = max(f for _, f in found)
        lines.append(
            [name, WHY.get(name, "sums"), *(f"{w:.0e}" for w, _ in found)]
            + ["--" if name in values else f"{flipped:.3f}"]
        )
        print(*lines[-1], sep="; ", flush=True)
    if given.write:
        if chosen:
            with TABLE.open(encoding="utf-8", newline="") as file:
                kept = [r for r in list(csv.reader(file))[1:] if r[0] not in plain]
            lines = [lines[0], *sorted([*lines[1:], *kept])]
        with TABLE.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(lines)
