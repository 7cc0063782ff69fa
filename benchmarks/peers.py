"""How long bagwise takes next to its peers, on the same folds: ratios of CPU seconds.

Every peer that can be imported is run: mil (on PyPI; it imports tensorflow), misvm and
MILpy (sources on GitHub only, in Python 2 in parts). So is WEKA where the variable
WEKA_JAR names a jar with its multi-instance package (Debian's package `weka` has one)
and java of version 11 or later is on the path; one process of java runs all folds. The
row of a peer that fails says so. Three references need no other package: the same
method by a generic quadratic program (clarabel), a few lines of NumPy and scikit-learn,
and one `rbf_kernel` of the training instances.

    python benchmarks/peers.py [--sets musk1,elephant] [--folds 10] [--out FOLDER]

bagwise has its default threshold, and is timed with a threshold of zero as well, as
other packages have it. A ratio above one means that bagwise with its default threshold
is faster.
"""

import argparse
import contextlib
import csv
import os
import platform
import resource
import shutil
import subprocess
import tempfile
import textwrap
import time
from importlib import metadata
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import bagwise
from bagwise.compose import SimpleMI, WrapperMI
from bagwise.datasets import fetch
from bagwise.density import EMDD, DiverseDensity
from bagwise.embedding import MILES
from bagwise.ensemble import MIBoosting
from bagwise.linear_model import MILogisticRegression
from bagwise.neighbors import CitationKNN
from bagwise.rectangles import IAPR
from bagwise.svm import MIODM, MISVM, PCSVM, SBMIL, BagSVC, MiSVM

C = 10.0


def ours(gamma):
    """Return the models of bagwise by method, with their default thresholds."""
    return {
        "MI-SVM": MISVM(C, gamma=gamma, init="input_mean"),
        "mi-SVM": MiSVM(C, gamma=gamma),
        "sbMIL": SBMIL(C, gamma=gamma, eta=0.3),
        "NSK": BagSVC("set", C, gamma=gamma),
        "Statistics kernel": BagSVC("statistics", C, gamma=gamma),
        "Citation-kNN": CitationKNN(),
        "MILR": MILogisticRegression(),
        "PC-SVM": PCSVM(C, gamma=gamma),
        "MI-ODM": MIODM(gamma=gamma, random_state=0),
        "SimpleMI": SimpleMI(),
        "WrapperMI (tree)": WrapperMI(DecisionTreeClassifier(random_state=0)),
        "MIBoosting": MIBoosting(10, estimator="stump"),
        "MILES": MILES(C, gamma=gamma),
        "IAPR": IAPR(),
        "DD": DiverseDensity(),
        "EM-DD": EMDD(),
    }


def at_zero(name, model):
    """Return the model with a threshold of zero, or None if it has no threshold."""
    if "threshold" not in model.get_params() or name in ("DD", "EM-DD"):
        return None  # (zero is no threshold of diverse density)
    return clone(model).set_params(threshold="zero")


# Peers: functions of (training bags, labels, test bags) that return predictions. WEKA
# is an object with a method `over`, which takes all folds.


def by_misvm(method, gamma):
    """Return misvm's version of a method, or None."""
    import misvm

    kinds = {"MI-SVM": "MISVM", "mi-SVM": "miSVM", "sbMIL": "sbMIL", "NSK": "NSK"}
    kinds["Statistics kernel"] = "STK"
    if method not in kinds:
        return None
    options = {"kernel": "rbf", "gamma": gamma, "C": C, "verbose": False}
    options["scale_C"] = False  # same objective as bagwise
    if method == "NSK":
        options["kernel"] = "rbf_fs"  # every bag has length one, as here
    if method == "sbMIL":
        options |= {"kernel": "rbf_av", "eta": 0.3}  # means over bags, as here
    if method in ("MI-SVM", "mi-SVM"):
        options["max_iters"] = 50  # the documented default; one version differs

    def run(bags, y, test):
        model = getattr(misvm, kinds[method])(**options)
        model.fit(bags, np.where(y, 1.0, -1.0))
        return model.predict(test)

    return run


def by_mil(method, gamma):
    """Return mil's version of a method, or None."""
    if method not in ("MILES", "IAPR"):
        return None
    from mil import models

    def run(bags, y, test):
        if method == "MILES":
            model = models.MILES(sigma2=1.0 / gamma, C=C)
        else:
            model = models.APR(verbose=0)
        model.fit(bags, list(y))
        return model.predict(test)

    return run


def by_milpy(method, gamma):
    """Return MILpy's version of a method, or None."""
    if method == "Citation-kNN":
        from MILpy.Algorithms.CKNN import CKNN as Peer

        options = {"references": 2, "citers": 4}
    elif method == "DD":
        from MILpy.Algorithms.maxDD import maxDD as Peer

        options = {"spoints": 10}
    elif method == "SimpleMI":
        from MILpy.Algorithms.simpleMIL import simpleMIL as Peer

        options = {"type": "average"}
    else:
        return None

    def run(bags, y, test):
        model = Peer()
        # Labels are a column, as in its own files, except for scikit-learn's SVC.
        labels = np.asarray(y, dtype=float)
        model.fit(bags, labels if method == "SimpleMI" else labels[:, None], **options)
        return model.predict(test)

    return run


# {} is replaced by the width; the two SVMs must not scale data that are scaled already.
WEKA = {
    "MI-SVM": [
        *("MISVM", "-C", f"{C}", "-N", "2"),
        *("-K", "weka.classifiers.functions.supportVector.RBFKernel -G {}"),
    ],
    "NSK": [
        *("MISMO", "-C", f"{C}", "-N", "2"),
        *("-K", "weka.classifiers.mi.supportVector.MIRBFKernel -G {}"),
    ],
    "Citation-kNN": ["CitationKNN", "-R", "2", "-C", "4"],
    "MILR": ["MILR"],
    "SimpleMI": ["SimpleMI", "-W", "weka.classifiers.functions.SMO"],
    "WrapperMI (tree)": ["MIWrapper", "-W", "weka.classifiers.trees.J48"],
    "MIBoosting": [
        *("MIBoost", "-R", "10"),
        *("-W", "weka.classifiers.trees.DecisionStump"),
    ],
    "EM-DD": ["MIEMDD"],
}


def by_weka(method, gamma):
    """Return WEKA's version of a method, or None."""
    jar = os.environ.get("WEKA_JAR")
    if method not in WEKA:
        return None
    if not jar or not shutil.which("java"):
        raise ModuleNotFoundError("WEKA_JAR and java")
    name, *options = (part.replace("{}", f"{gamma}") for part in WEKA[method])
    return Weka(jar, [f"weka.classifiers.mi.{name}", *options])


class Weka:
    """A classifier of WEKA.

    Its time is that of one process for all folds, less that of one that reads the same
    files, learns nothing and predicts a constant.
    """

    def __init__(self, jar, command):
        self.jar, self.command = jar, command

    def over(self, folds):
        """Return the seconds of all folds, and the predictions of each."""
        with tempfile.TemporaryDirectory() as folder:
            names = []
            for k, (X, y, train, test) in enumerate(folds):
                names.append([Path(folder, f"{part}{k}.arff") for part in ("a", "b")])
                size = max(len(train), len(test))
                write_arff(names[-1][0], [X[i] for i in train], y[train], size)
                nothing = np.zeros(len(test), dtype=int)
                write_arff(names[-1][1], [X[i] for i in test], nothing, size)
            whole, found = self._run(self.command, names)
            constant, _ = self._run(["weka.classifiers.rules.ZeroR"], names)
        return whole - constant, found

    def _run(self, command, names):
        driver = Path(__file__).with_name("WekaFolds.java")
        start = children_seconds()
        done = subprocess.run(
            ["java", "-cp", self.jar, str(driver), *command],
            input="".join(f"{train}\t{test}\n" for train, test in names),
            check=True,
            capture_output=True,
            text=True,
        )
        lines = [line for line in done.stdout.splitlines() if line.startswith("# ")]
        found = [np.array(line[2:].split(), dtype=float) for line in lines]
        return children_seconds() - start, found


def write_arff(path, bags, y, n_names):
    """Write bags as a relational attribute; the files of a fold share their header."""
    names = ",".join(f"b{i}" for i in range(n_names))
    lines = ["@relation bags", f"@attribute id {{{names}}}"]
    lines += ["@attribute bag relational"]
    lines += [f"@attribute f{k} numeric" for k in range(bags[0].shape[1])]
    lines += ["@end bag", "@attribute class {0,1}", "@data"]
    for i, (bag, label) in enumerate(zip(bags, y, strict=True)):
        rows = "\\n".join(",".join(f"{value:.9g}" for value in row) for row in bag)
        lines.append(f'b{i},"{rows}",{int(label)}')
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


# References that need no other package.


def generic_qp(K, sign, margin, cap, group):
    """Dual QP: min 1/2 b'Qb - m'b, 0 <= b, sums of groups <= cap, s'b = 0."""
    n = len(sign)
    Q = sp.csc_matrix(np.triu(K * np.outer(sign, sign) + 1e-10 * np.eye(n)))
    sums = sp.csr_matrix((np.ones(n), (group, np.arange(n))))
    A = sp.vstack([sp.csr_matrix(sign), -sp.eye(n), sums]).tocsc()
    right = np.concatenate([[0.0], np.zeros(n), cap])
    import clarabel

    settings = clarabel.DefaultSettings()
    settings.verbose = False
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(n + len(cap))]
    found = clarabel.DefaultSolver(Q, -margin, A, right, cones, settings).solve()
    beta = np.maximum(np.array(found.x), 0.0)
    return sign * beta, float(found.z[0])


class GenericProgram:
    """Fit and predict with explicit Gram matrices and `generic_qp`."""

    def __init__(self, gamma):
        self.gamma = gamma

    def solve(self, rows, sign, margin, cap, group=None):
        """Return the function of one quadratic program."""
        group = np.arange(len(sign)) if group is None else group
        K = rbf_kernel(rows, gamma=self.gamma)
        coef, b = generic_qp(K, sign, margin, cap, group)
        return lambda A: rbf_kernel(A, rows, gamma=self.gamma) @ coef + b

    def misvm(self, bags, y):
        """MI-SVM with bag slack, from the means of the features."""
        negative = np.vstack(
            [bag for bag, label in zip(bags, y, strict=True) if not label]
        )
        positive = [bag for bag, label in zip(bags, y, strict=True) if label]
        sizes = [len(bag) for bag, label in zip(bags, y, strict=True) if not label]
        group = np.repeat(np.arange(len(sizes)), sizes)
        group = np.r_[group, len(sizes) + np.arange(len(positive))]
        sign = np.r_[-np.ones(len(negative)), np.ones(len(positive))]
        cap = np.full(len(sizes) + len(positive), C)
        chosen = None
        rows = np.array([bag.mean(axis=0) for bag in positive])
        for _ in range(100):
            f = self.solve(
                np.vstack([negative, rows]), sign, np.ones(len(sign)), cap, group
            )
            new = [int(f(bag).argmax()) for bag in positive]
            if new == chosen:
                break
            chosen = new
            rows = np.array([bag[j] for bag, j in zip(positive, chosen, strict=True)])
        return f

    def mi_svm(self, bags, y):
        """mi-SVM from all labels positive."""
        rows = np.vstack(bags)
        sizes = [len(bag) for bag in bags]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        t = np.repeat(np.where(y, 1.0, -1.0), sizes)
        seen = []
        for _ in range(100):
            f = self.solve(rows, t, np.ones(len(t)), np.full(len(t), C))
            seen.append(t)
            scores = f(rows)
            t = t.copy()
            for i, label in enumerate(y):
                part = slice(starts[i], starts[i + 1])
                if label:
                    t[part] = np.where(scores[part] >= 0, 1.0, -1.0)
                    t[starts[i] + scores[part].argmax()] = 1.0
            if any(np.array_equal(t, old) for old in seen):
                break
        return f

    def sbmil(self, bags, y, eta=0.3):
        """sbMIL: rank by sMIL, then train one SVM."""
        negative = np.vstack(
            [bag for bag, label in zip(bags, y, strict=True) if not label]
        )
        positive = [bag for bag, label in zip(bags, y, strict=True) if label]
        unlabeled = np.vstack(positive)
        points = np.vstack([negative, unlabeled])
        K = rbf_kernel(points, gamma=self.gamma)
        T = np.zeros((len(negative) + len(positive), len(points)))
        T[: len(negative), : len(negative)] = np.eye(len(negative))
        start = len(negative)
        for i, bag in enumerate(positive):
            T[len(negative) + i, start : start + len(bag)] = 1.0 / len(bag)
            start += len(bag)
        sign = np.r_[-np.ones(len(negative)), np.ones(len(positive))]
        sizes = np.array([len(bag) for bag in positive])
        margin = np.r_[np.ones(len(negative)), 2.0 / sizes - 1.0]
        cap, group = np.full(len(sign), C), np.arange(len(sign))
        coef, _ = generic_qp(T @ K @ T.T, sign, margin, cap, group)
        scores = K[len(negative) :] @ (T.T @ coef)
        count = max(len(positive), round(eta * len(unlabeled)))
        t = -np.ones(len(points))
        t[len(negative) + np.argsort(-scores)[:count]] = 1.0
        return self.solve(points, t, np.ones(len(t)), np.full(len(t), C))


def by_generic_program(method, gamma):
    """Return the method as a quadratic program in standard form, or None."""
    names = {"MI-SVM": "misvm", "mi-SVM": "mi_svm", "sbMIL": "sbmil"}
    if method not in names:
        return None

    def run(bags, y, test):
        f = getattr(GenericProgram(gamma), names[method])(bags, y)
        return np.array([f(bag).max() for bag in test]) > 0

    return run


def by_scikit_learn(method, gamma):
    """Return what scikit-learn alone does of a method, or None.

    Its SVM on means, its tree on equally weighted bags, or its SVM on a set kernel
    that is made of one `rbf_kernel` by two sums over bags.
    """
    if method == "WrapperMI (tree)":

        def run_tree(bags, y, test):
            sizes = np.array([len(bag) for bag in bags])
            tree = DecisionTreeClassifier(random_state=0).fit(
                np.vstack(bags), np.repeat(y, sizes), np.repeat(1.0 / sizes, sizes)
            )
            share = tree.predict_proba(np.vstack(test))[:, 1]
            starts = np.cumsum([0, *(len(bag) for bag in test[:-1])])
            return np.add.reduceat(share, starts) > np.array([len(b) / 2 for b in test])

        return run_tree
    if method == "SimpleMI":

        def run_means(bags, y, test):
            means = np.array([bag.mean(axis=0) for bag in bags])
            model = SVC(C=10.0).fit(means, y)
            return model.predict(np.array([bag.mean(axis=0) for bag in test]))

        return run_means
    if method != "NSK":
        return None

    def matrix(rows, columns):
        K = rbf_kernel(np.vstack(rows), np.vstack(columns), gamma=gamma)
        K = np.add.reduceat(K, np.cumsum([0, *map(len, rows[:-1])]), axis=0)
        return np.add.reduceat(K, np.cumsum([0, *map(len, columns[:-1])]), axis=1)

    def run(bags, y, test):
        K = matrix(bags, bags)
        size = np.sqrt(K.diagonal())
        own = np.sqrt([rbf_kernel(bag, gamma=gamma).sum() for bag in test])
        model = SVC(C=C, kernel="precomputed").fit(K / np.outer(size, size), y)
        return model.predict(matrix(test, bags) / np.outer(own, size))

    return run


def by_one_kernel_matrix(method, gamma):
    """Return the kernel matrix that every exact kernel method needs, or None."""
    if method not in ("MI-SVM", "mi-SVM", "sbMIL", "NSK", "PC-SVM", "MI-ODM"):
        return None

    def run(bags, y, test):
        rbf_kernel(np.vstack(bags), gamma=gamma)

    return run


OTHERS = {
    "misvm": by_misvm,
    "mil": by_mil,
    "MILpy": by_milpy,
    "WEKA": by_weka,
    "generic QP": by_generic_program,
    "scikit-learn": by_scikit_learn,
    "one rbf_kernel": by_one_kernel_matrix,
}


def standardized(X, train):
    """Scale every instance by the training instances."""
    data = X[train].data
    scale = data.std(axis=0)
    scale[scale == 0] = 1.0
    return X.with_data((X.data - data.mean(axis=0)) / scale)


def children_seconds():
    """CPU time of the programs that this process has run."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def measured_folds(run, folds):
    """Return the summed seconds of all folds and the accuracy, None if unknown."""
    if hasattr(run, "over"):
        seconds, found = run.over(folds)
    else:
        seconds, found = 0.0, []
        for X, y, train, test in folds:
            given = [X[i] for i in train], y[train], [X[i] for i in test]
            start = time.process_time()
            found.append(run(*given))
            seconds += time.process_time() - start
    if any(
        np.shape(one) != np.shape(f[3]) for one, f in zip(found, folds, strict=True)
    ):
        return seconds, None
    told = [np.asarray(one, dtype=float) for one in found]
    least = min(one.min() for one in told)  # some packages have labels of -1 and 1
    right = [
        (one > (0.0 if least < 0 else 0.5)) == y[test]
        for one, (_, y, _, test) in zip(told, folds, strict=True)
    ]
    return seconds, float(np.mean(np.concatenate(right)))


def own_folds(model, folds):
    """Return the summed seconds and the accuracy of bagwise."""
    X, y, train, test = folds[0]
    model.fit(X[train], y[train]).predict(X[test])  # compiled code is loaded once
    seconds, right = 0.0, []
    for X, y, train, test in folds:
        bags, rest = X[train], X[test]
        start = time.process_time()
        found = model.fit(bags, y[train]).predict(rest)
        seconds += time.process_time() - start
        right.append(found == y[test])
    return seconds, float(np.mean(np.concatenate(right)))


FIELDS = ("data", "method", "seconds", "accuracy", "zero_seconds", "zero_accuracy")
FIELDS += ("other", "ratio", "other_accuracy", "note")
EARLIER = "earlier run"


def measured(name, folds, gamma, methods=None, others=None):
    """Give rows of the table for one set: a row for each method and each other."""
    for method, model in ours(gamma).items():
        if methods and method not in methods:
            continue
        mine, accuracy = own_folds(model, folds)
        own = {"data": name, "method": method, "seconds": f"{mine:.4g}"}
        own |= {"accuracy": f"{accuracy:.3f}", "zero_seconds": "", "zero_accuracy": ""}
        zero = at_zero(method, model)
        if zero is not None:
            seconds, right = own_folds(zero, folds)
            own |= {"zero_seconds": f"{seconds:.4g}", "zero_accuracy": f"{right:.3f}"}
        for other, make in (others or OTHERS).items():
            row = dict.fromkeys(FIELDS, "") | own | {"other": other}
            try:
                run = make(method, gamma)
                if run is None:
                    continue
                seconds, right = measured_folds(run, folds)
                row["ratio"] = f"{seconds / mine:.3g}"
                row["other_accuracy"] = "" if right is None else f"{right:.3f}"
            except ModuleNotFoundError as error:
                row["note"] = f"not here: {error.name or error}"
            except Exception as error:  # report the failure of a peer
                row["note"] = f"failed: {type(error).__name__}"
            yield row


def machine():
    """Describe what the figures were measured on."""
    kind = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        models = [line for line in text.splitlines() if line.startswith("model name")]
        kind = models[0].partition(":")[2].strip() if models else kind
    versions = ", ".join(
        f"{name} {metadata.version(name)}"
        for name in ("numpy", "scipy", "scikit-learn", "numba")
    )
    threads = os.environ.get("OPENBLAS_NUM_THREADS", "all")
    return (
        f"{kind}, {os.cpu_count()} cores, {threads} thread(s) of BLAS, "
        f"{platform.system()}, Python {platform.python_version()}, "
        f"bagwise {bagwise.__version__}, {versions}"
    )


def page(rows, n_folds, note=""):
    """Return the table as a page of text."""
    lines = [
        "# Speed compared with other packages",
        "",
        "Made by `python benchmarks/peers.py --out FOLDER`, some methods and sets in",
        f"separate runs (`--keep`). CPU seconds of fit and predict over {n_folds}",
        "folds, and the accuracy in parentheses, for bagwise with its defaults and",
        "with a threshold of zero, if it has one, as in other packages. Then the CPU",
        "seconds of each other package on the same folds, divided by those of bagwise",
        "with its defaults: above one, bagwise is faster. Both numbers of a ratio are",
        "measured in one run. One Java process runs all folds of WEKA, and its start",
        "is not included. An asterisk marks a ratio of an earlier run, in which",
        "bagwise had a threshold of zero, multiplied by the present ratio of the two",
        "columns of bagwise.",
        "",
        f"Machine: {machine()}.",
        "",
        "| data | method | bagwise, s | threshold zero, s | others |",
        "|---|---|---|---|---|",
    ]
    sets = list(dict.fromkeys(row["data"] for row in rows))
    pairs = dict.fromkeys((row["data"], row["method"]) for row in rows)
    for data, method in sorted(pairs, key=lambda pair: sets.index(pair[0])):
        own = [row for row in rows if (row["data"], row["method"]) == (data, method)]
        cells = []
        for row in own:
            if row["ratio"]:
                star = "*" if row["note"] == EARLIER else ""
                told = f"{row['other']} {row['ratio']}{star}"
                cells.append(told + _in_parentheses(row["other_accuracy"]))
            elif row["note"].startswith("failed"):
                cells.append(f"{row['other']} {row['note']}")
        first = own[0]
        told = [
            first[seconds] + _in_parentheses(first[accuracy])
            for seconds, accuracy in (FIELDS[2:4], FIELDS[4:6])
        ]
        cells = ", ".join(cells) or "-"
        lines.append(f"| {data} | {method} | {told[0]} | {told[1] or '-'} | {cells} |")
    away = {row["other"] for row in rows if row["note"].startswith("not here")}
    away -= {row["other"] for row in rows if row["ratio"]}
    if away:
        lines += ["", f"Not installed here: {', '.join(sorted(away))}."]
    if note:
        lines += ["", *textwrap.wrap(note, 80)]
    return "\n".join(lines) + "\n"


def _in_parentheses(accuracy):
    return f" ({accuracy})" if accuracy else ""


def write(rows, folder, n_folds, note=""):
    """Write the rows and the page."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "speed.csv").open("w", encoding="utf-8", newline="") as handle:
        table = csv.DictWriter(handle, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
    text = page(rows, n_folds, note)
    (folder / "README.md").write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", default=None, help="musk1,elephant by default")
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--methods", default=None, help="separated by commas")
    parser.add_argument("--others", default=None, help="separated by commas")
    parser.add_argument(
        "--keep",
        action="store_true",
        help="keep the rows of --out except those of --sets, --methods and --others",
    )
    parser.add_argument(
        "--note", default="", help="for the page: how the others were installed"
    )
    parser.add_argument("--quick", action="store_true", help="two folds of musk1")
    parser.add_argument("--out", default=None, help="folder of speed.csv, README.md")
    options = parser.parse_args()
    methods = options.methods.split(",") if options.methods else None
    others = options.others.split(",") if options.others else list(OTHERS)
    others = {name: OTHERS[name] for name in others}
    print(machine())
    rows, n_folds = [], options.folds
    sets = "musk1" if options.quick else options.sets or "musk1,elephant"
    if options.keep:
        sets = options.sets or ""
        with (Path(options.out) / "speed.csv").open(encoding="utf-8") as handle:
            rows = list(csv.DictReader(handle))
    sets = [name for name in sets.split(",") if name]
    rows = [
        row
        for row in rows
        if row["data"] not in sets
        or (methods and row["method"] not in methods)
        or row["other"] not in others
    ]
    for name in sets:
        X, y = fetch(name, return_X_y=True)
        y = np.asarray(y).astype(int)
        gamma = 1.0 / X.n_features
        splits = StratifiedKFold(options.folds, shuffle=True, random_state=0)
        splits = list(splits.split(y, y))[: 2 if options.quick else None]
        n_folds = len(splits)
        folds = [(standardized(X, train), y, train, test) for train, test in splits]
        for row in measured(name, folds, gamma, methods, others):
            rows.append(row)
            print(*row.values(), sep="  ", flush=True)
            if options.out:
                write(rows, Path(options.out), n_folds, note=options.note)
    print(page(rows, n_folds, options.note))


if __name__ == "__main__":
    main()
