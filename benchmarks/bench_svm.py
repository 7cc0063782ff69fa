"""Ten-fold fit and predict of MI-SVM, mi-SVM and sbMIL against a generic QP solver.

The yardstick is what one writes first: NumPy, loops over bags, and the quadratic
program in standard form handed to clarabel, one after another, with the same rows,
labels and stopping rules. Same folds, one run, process time. The bar is a ratio of 5.

    python benchmarks/bench_svm.py [--quick]
"""

import argparse
import time

import clarabel
import numpy as np
import scipy.sparse as sp
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import StratifiedKFold

from bagwise.datasets import fetch
from bagwise.svm import MISVM, SBMIL, MiSVM

BAR = 5.0
C = 10.0


def generic_qp(K, sign, margin, cap, group):
    """Dual QP: min 1/2 b'Qb - m'b, 0 <= b, sums of groups <= cap, s'b = 0."""
    n = len(sign)
    Q = sp.csc_matrix(np.triu(K * np.outer(sign, sign) + 1e-10 * np.eye(n)))
    sums = sp.csr_matrix((np.ones(n), (group, np.arange(n))))
    A = sp.vstack([sp.csr_matrix(sign), -sp.eye(n), sums]).tocsc()
    right = np.concatenate([[0.0], np.zeros(n), cap])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(n + len(cap))]
    found = clarabel.DefaultSolver(Q, -margin, A, right, cones, settings).solve()
    beta = np.maximum(np.array(found.x), 0.0)
    return sign * beta, float(found.z[0])


class Yardstick:
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
        """sbMIL: rank by sMIL, then one machine."""
        negative = np.vstack(
            [bag for bag, label in zip(bags, y, strict=True) if not label]
        )
        positive = [bag for bag, label in zip(bags, y, strict=True) if label]
        unlabelled = np.vstack(positive)
        points = np.vstack([negative, unlabelled])
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
        count = max(len(positive), round(eta * len(unlabelled)))
        t = -np.ones(len(points))
        t[len(negative) + np.argsort(-scores)[:count]] = 1.0
        return self.solve(points, t, np.ones(len(t)), np.full(len(t), C))


def standardised(X, train):
    """Scale every instance by the training instances."""
    data = X[train].data
    scale = data.std(axis=0)
    scale[scale == 0] = 1.0
    return X.with_data((X.data - data.mean(axis=0)) / scale)


def ours(model, X, y, train, test):
    """Seconds of fit and predict, and the labels."""
    started = time.process_time()
    labels = model.fit(X[train], y[train]).predict(X[test])
    return time.process_time() - started, labels


def theirs(method, gamma, X, y, train, test):
    """Seconds of the yardstick, and its labels."""
    bags = [X[i] for i in range(len(X))]
    started = time.process_time()
    f = getattr(Yardstick(gamma), method)([bags[i] for i in train], y[train])
    labels = np.array([f(bags[i]).max() > 0 for i in test]).astype(int)
    return time.process_time() - started, labels


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two folds of Musk1")
    quick = parser.parse_args().quick
    print(
        f"{'data':10}{'method':8}{'ours s':>9}{'generic s':>11}{'ratio':>8}  bar  same"
    )
    for name in ["musk1"] if quick else ["musk1", "elephant"]:
        data = fetch(name)
        X, y = data.X, np.asarray(data.y).astype(int)
        gamma = 1.0 / X.n_features
        models = {
            "misvm": MISVM(C, gamma=gamma, init="input_mean"),
            "mi_svm": MiSVM(C, gamma=gamma),
            "sbmil": SBMIL(C, gamma=gamma, eta=0.3),
        }
        folds = list(StratifiedKFold(10, shuffle=True, random_state=0).split(y, y))
        folds = folds[:2] if quick else folds
        for method, model in models.items():
            ours(model, X, y, *folds[0])  # compiled code is loaded once
            times, same = np.zeros(2), []
            for train, test in folds:
                scaled = standardised(X, train)
                fast, a = ours(model, scaled, y, train, test)
                slow, b = theirs(method, gamma, scaled, y, train, test)
                times += fast, slow
                same.append(np.mean(a == b))
            ratio = times[1] / times[0]
            print(
                f"{name:10}{method:8}{times[0]:9.3f}{times[1]:11.3f}{ratio:8.1f}"
                f"  {BAR:.0f}x   {np.mean(same):.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
