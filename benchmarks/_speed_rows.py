"""Measure the methods of the table of speed with whichever bagwise is importable.

`peers.py` runs this file twice in one go, with the sources as they are and with an
older checkout (`--before`), so that both are measured on the same machine on the same
day. It therefore uses only what both have. A line of JSON is printed for each row.

    python benchmarks/_speed_rows.py elephant PC-SVM,MI-ODM [folds]
    python benchmarks/_speed_rows.py growth "MILES,MILES' similarities" 400 1600
    python benchmarks/_speed_rows.py first PC-SVM
    python benchmarks/_speed_rows.py gram musk2
    python benchmarks/_speed_rows.py validation SimpleMI
    python benchmarks/_speed_rows.py import
"""

import json
import subprocess
import sys
import time
import warnings

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import StratifiedKFold
from sklearn.tree import DecisionTreeClassifier

C = 10.0


def model_of(method, gamma):
    """Return the model of a row; imports are lazy, so that a row needs only its own."""
    import bagwise.compose
    import bagwise.density
    import bagwise.embedding
    import bagwise.ensemble
    import bagwise.kernels
    import bagwise.rectangles
    import bagwise.svm

    b = bagwise
    makers = {
        "MI-SVM": lambda: b.svm.MISVM(C, gamma=gamma, init="input_mean"),
        "mi-SVM": lambda: b.svm.MiSVM(C, gamma=gamma),
        "sbMIL": lambda: b.svm.SBMIL(C, gamma=gamma, eta=0.3),
        "Statistics kernel": lambda: b.svm.BagSVC("statistics", C),
        "SimpleMI": lambda: b.compose.SimpleMI(),
        "MILES": lambda: b.embedding.MILES(),
        "MILES' similarities": lambda: b.embedding.PrototypeEmbedding(),
        "MIBoosting": lambda: b.ensemble.MIBoosting(
            10, estimator="stump", random_state=0
        ),
        "WrapperMI (tree)": lambda: b.compose.WrapperMI(
            DecisionTreeClassifier(random_state=0)
        ),
        "DD": lambda: b.density.DiverseDensity(),
        "EM-DD": lambda: b.density.EMDD(),
        "PC-SVM": lambda: b.svm.PCSVM(C, gamma=gamma),
        "MI-ODM": lambda: b.svm.MIODM(gamma=gamma, random_state=0),
        "Box kernel SVC": lambda: b.svm.BoxKernelSVC(random_state=0),
        "EMD + SVC": lambda: b.svm.BagSVC("emd", C),
        "IAPR": lambda: b.rectangles.IAPR(),
    }
    model = makers[method]()
    if "threshold" in model.get_params() and method not in ("DD", "EM-DD"):
        model.set_params(threshold="zero")  # the only cut that there was before
    return model


def folds_of(name, n_folds):
    """Give scaled bags, labels, training and test bags of each fold."""
    from bagwise.datasets import fetch

    X, y = fetch(name, return_X_y=True)
    y = np.asarray(y).astype(int)
    splits = StratifiedKFold(10, shuffle=True, random_state=0).split(y, y)
    for train, test in list(splits)[:n_folds]:
        data = X[train].data
        scale = data.std(axis=0)
        scale[scale == 0] = 1.0
        yield X.with_data((X.data - data.mean(axis=0)) / scale), y, train, test


def spent(function, *args, **options):
    """CPU seconds of a call."""
    start = time.process_time()
    function(*args, **options)
    return time.process_time() - start


def fit_and_predict(model, X, y, train, test):
    """Run one fold."""
    model.fit(X[train], y[train]).predict(X[test])


def main(name, methods, n_folds=10):
    """Print a row for each method: seconds, and those of `rbf_kernel` on the folds."""
    warnings.simplefilter("ignore")
    folds = list(folds_of(name, n_folds))
    gamma = 1.0 / folds[0][0].n_features
    rbf_kernel(folds[0][0][:9].data, gamma=gamma)  # libraries are loaded once
    unit = sum(
        spent(rbf_kernel, X[train].data, gamma=gamma) for X, _, train, _ in folds
    )
    X, y, _, _ = folds[0]
    some = np.concatenate([np.flatnonzero(y == label)[:10] for label in (0, 1)])
    small = X[some], y[some]
    for method in methods:
        model = model_of(method, gamma)
        # The first call loads what is compiled.
        model_of(method, gamma).fit(*small).predict(small[0])
        seconds = sum(spent(fit_and_predict, model, *fold) for fold in folds)
        row = {"data": name, "method": method, "seconds": seconds, "kernel": unit}
        print(json.dumps(row), flush=True)


def drawn(n_bags, size=7, n_features=10):
    """Draw bags: instances of positive bags are shifted a little, one of them more."""
    from bagwise.bags import Bags

    rng = np.random.default_rng(0)
    y = np.arange(n_bags) % 2
    data = rng.standard_normal((n_bags * size, n_features))
    data[:, 0] += 0.5 * np.repeat(y, size)
    data[::size, :3] += 2.0 * y[:, None]
    return Bags(data, np.arange(0, len(data) + 1, size)), y


def growth(methods, sizes):
    """Print the seconds of a fit, or a transform, for each number of drawn bags."""
    warnings.simplefilter("ignore")
    for method in methods:
        model = model_of(method, 0.1)
        work = getattr(model, "fit_transform", model.fit)
        work(*drawn(20))
        for n_bags in sizes:
            row = {"data": f"{n_bags} bags", "method": method}
            row["seconds"] = min(spent(work, *drawn(n_bags)) for _ in range(3))
            print(json.dumps(row), flush=True)


def first_call(method):
    """Print what the first fit of a process costs beyond the second.

    With an empty NUMBA_CACHE_DIR that is the time to compile.
    """
    warnings.simplefilter("ignore")
    X, y = drawn(20, 6, 4)
    model = model_of(method, 0.25)
    fold = model, X, y, np.arange(20), np.arange(20)
    first, again = (spent(fit_and_predict, *fold) for _ in range(2))
    row = {"data": "first call", "method": method, "seconds": first - again}
    print(json.dumps(row), flush=True)


def gram(name):
    """Print the seconds of the box kernel matrix of a set, and of `rbf_kernel`."""
    from bagwise.datasets import fetch
    from bagwise.kernels import box_kernel

    X, _ = fetch(name, return_X_y=True)
    box_kernel(X[:6], grid="integer")
    row = {"data": name, "method": "Box kernel Gram"}
    row["kernel"] = spent(rbf_kernel, X.data, gamma=1e-5)
    row["seconds"] = spent(box_kernel, X, grid="integer")
    print(json.dumps(row), flush=True)


def validation(methods):
    """Print the least seconds that a fit spends on its parameters, bags and labels."""
    for method in methods:
        model = model_of(method, 0.1)
        X, y, train, _ = next(folds_of("musk1", 1))
        bags, labels = X[train], y[train]

        def check(model=model, bags=bags, labels=labels):
            model._validate_params()
            model._check_bags(bags, labels, reset=True)

        row = {"data": "validation", "method": method}
        row["seconds"] = min(spent(check) for _ in range(50))
        print(json.dumps(row), flush=True)


def importing():
    """Print the seconds of an import, in a process that has imported nothing."""
    code = "import time; a = time.process_time(); import bagwise;"
    code += " print(time.process_time() - a)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    row = {"data": "import", "method": "bagwise", "seconds": float(done.stdout)}
    print(json.dumps(row), flush=True)


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "first":
        first_call(rest[0])
    elif what == "validation":
        validation(rest[0].split(","))
    elif what == "gram":
        gram(rest[0])
    elif what == "import":
        importing()
    elif what == "growth":
        growth(rest[0].split(","), [int(n) for n in rest[1:]])
    else:
        main(what, rest[0].split(","), *map(int, rest[1:]))
