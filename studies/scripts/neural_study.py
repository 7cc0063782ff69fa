"""Accuracy of the networks: classic sets, images, and the spread over seeds.

    python studies/scripts/neural_study.py [--parts choose,classic,spread,...]
                                      [--data FOLDER] [--output FOLDER]

`choose`      settings on other data: texts, scenes, digits, simulated bags; five folds
`options`     sampling, dropout of instances and mixup of bags, on the same data
`classic`     the five classic sets, 10 folds x 3, with the setting that was chosen
`spread`      test AUROC over ten runs, of five models averaged and of single ones
`tune`        settings of the image encoder, on draws of images that are not reported
`images`      networks on bags of digit images, 50 to 400 bags
`references`  classic methods on the same bags of images

Every figure is a row of `figures.csv`; rows that are there are not computed again, so
that a run can be stopped and continued, and parts can be run on different machines. The
settings of `classic` and `images` are those with the best rows of `choose` and `tune`.
`README.md` is written from the rows. Folds and settings are trained together.
"""

import argparse
import csv
import os
import time
from pathlib import Path

import numpy as np
from neural_data import IMAGES, OTHERS, SETS, classic_set, image_bags, other_set
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline

RESULTS = Path(__file__).parents[1] / "results"
ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = dict(zip(SETS, (0.900, 0.863, 0.857, 0.603, 0.845), strict=True))
HELD = dict(zip(SETS, (0.877, 0.850, 0.855, 0.560, 0.847), strict=True))
SIZES = (50, 100, 200, 400)
FIELDS = ("part", "data", "size", "seed", "method", "figure", "value", "seconds")

# Settings to choose from. Models that differ only in free parameters are trained
# together.
ENDS = {
    "early stopping": {"validation_fraction": 0.15, "max_epochs": 100},
    "40 epochs": {"validation_fraction": 0.0, "max_epochs": 40},
    "80 epochs": {"validation_fraction": 0.0, "max_epochs": 80},
}
WIDTHS = {
    "256 wide": {"hidden": 256, "attention": 128},
    "64 wide": {"hidden": 64, "attention": 32},
}
FREE = {
    f"rate {rate:g} decay {decay:g} dropout {dropout:g}": {
        "learning_rate": rate,
        "weight_decay": decay,
        "dropout": dropout,
    }
    for rate in (2e-4, 5e-4, 1e-3)
    for decay in (1e-4, 1e-2)
    for dropout in (0.25, 0.5)
}
# Measured by `options`, with a network of a quarter of the width.
SMALL = {"hidden": 64, "attention": 32, "weight_decay": 0.01, "n_models": 3}
OPTIONS = {
    "defaults": {},
    "8 instances per bag and epoch": {"max_instances": 8},
    "instance dropout 0.25": {"instance_dropout": 0.25},
    "instance dropout 0.5": {"instance_dropout": 0.5},
    "mixup 0.2": {"mixup": 0.2},
    "mixup 1": {"mixup": 1.0},
}
# The defaults before those selected by `choose`.
DEFAULT = "early stopping, 256 wide, rate 0.0002 decay 0.0001 dropout 0.25"
# Draws for tuning the image encoder; they are not reported.
TUNING_DRAWS = (1000, 1001)
ENCODED = {
    f"{end}, rate {rate:g}": {**ENDS[end], "learning_rate": rate, "dropout": 0.25}
    for end in ENDS
    for rate in (5e-4, 1e-3, 2e-3)
}


def setting_of(name):
    """Return the parameters of a setting by its name."""
    end, width, free = name.split(", ")
    return {**ENDS[end], **WIDTHS[width], **FREE[free]}


class Figures:
    """Rows on disk."""

    def __init__(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "figures.csv"
        self.rows = []
        if self.path.exists():
            with open(self.path, encoding="utf-8", newline="") as file:
                self.rows = list(csv.DictReader(file))
        self.known = {tuple(r[f] for f in FIELDS[:5]) for r in self.rows}

    def has(self, *key):
        """Return whether a result is there: part, data, size, seed, method."""
        return tuple(str(part) for part in key) in self.known

    def add(self, key, figures, seconds):
        """Append the figures of one result."""
        new = not self.path.exists()
        with open(self.path, "a", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            if new:
                writer.writeheader()
            for name, value in figures.items():
                values = (*key, name, f"{value:.5f}", f"{seconds:.1f}")
                row = {f: str(v) for f, v in zip(FIELDS, values, strict=True)}
                writer.writerow(row)
                self.rows.append(row)
        self.known.add(tuple(str(part) for part in key))
        print(*key, {k: round(float(v), 4) for k, v in figures.items()}, flush=True)

    def values(self, part, data, method, figure, size=""):
        """Return the values of one figure over the seeds."""
        wanted = (part, data, str(size), method, figure)
        names = ("part", "data", "size", "method", "figure")
        return np.array(
            [
                float(row["value"])
                for row in self.rows
                if tuple(row[n] for n in names) == wanted
            ]
        )

    def methods(self, part):
        """Return the methods with a row in a part, in their order."""
        found = (row["method"] for row in self.rows if row["part"] == part)
        return list(dict.fromkeys(found))


def network(**params):
    """The network of the study."""
    from bagwise.neural import NeuralBagClassifier

    return NeuralBagClassifier(**{"precision": "float32", **params})


def folds_of(y, n_folds, seed):
    """Return stratified folds: masks of the training bags, and the test bags."""
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    tests = [test for _, test in folds.split(y, y)]
    masks = np.ones((n_folds, len(y)), dtype=bool)
    for mask, test in zip(masks, tests, strict=True):
        mask[test] = False
    return masks, tests


def fold_figures(models, tests, X, y):
    """Return accuracy and area over the folds."""
    hits, areas = [], []
    for model, test in zip(models, tests, strict=True):
        score = model.decision_function(X[test])
        hits.append(np.mean((score > 0) == y[test]))
        areas.append(roc_auc_score(y[test], score))
    return {
        "accuracy": np.mean(hits),
        "fold_sd": np.std(hits, ddof=1),
        "auroc": np.mean(areas),
    }


def run_choose(figures, folder, names):
    """Five folds of every setting on other data; three models each, for time."""
    for name in names:
        X, y = other_set(name, folder)
        masks, tests = folds_of(y, 5, 0)
        for end, ending in ENDS.items():
            for width, form in WIDTHS.items():
                labels = [f"{end}, {width}, {free}" for free in FREE]
                if all(figures.has("choose", name, "", 0, label) for label in labels):
                    continue
                begun = time.perf_counter()
                base = network(n_models=3, random_state=0, **ending, **form)
                fitted = base.fit_many(X, y, masks, list(FREE.values()))
                seconds = time.perf_counter() - begun
                for label, models in zip(labels, fitted, strict=True):
                    found = fold_figures(models, tests, X, y)
                    figures.add(("choose", name, "", 0, label), found, seconds)


def run_options(figures, folder, names):
    """Five folds of each option on the data on which settings are chosen."""
    for name in names:
        X, y = other_set(name, folder)
        masks, tests = folds_of(y, 5, 1)
        for label, option in OPTIONS.items():
            if figures.has("options", name, "", 1, label):
                continue
            begun = time.perf_counter()
            base = network(random_state=1, **SMALL, **option)
            found = fold_figures(base.fit_many(X, y, masks)[0], tests, X, y)
            seconds = time.perf_counter() - begun
            figures.add(("options", name, "", 1, label), found, seconds)


def choosing_scores(figures):
    """Mean accuracy of each setting over the kinds of data, best first."""
    scores = {}
    for method in figures.methods("choose"):
        kinds = {
            kind: [figures.values("choose", n, method, "accuracy") for n in names]
            for kind, names in OTHERS.items()
        }
        if all(len(cell) for cells in kinds.values() for cell in cells):
            kinds = {
                kind: np.concatenate(cells).mean() for kind, cells in kinds.items()
            }
            scores[method] = (float(np.mean(list(kinds.values()))), kinds)
    return dict(sorted(scores.items(), key=lambda item: -item[1][0]))


def chosen_setting(figures):
    """Return the name of the setting that is best on the other data."""
    scores = choosing_scores(figures)
    if not scores:
        raise SystemExit("no rows of `choose` yet: run that part first")
    return next(iter(scores))


def run_classic(figures, folder, names):
    """Ten folds, three times: the chosen setting, and the earlier defaults."""
    chosen = setting_of(chosen_setting(figures))
    methods = {
        "gated": {"pooling": "gated", **chosen},
        "mean": {"pooling": "mean", **chosen},
        "gated, defaults": setting_of(DEFAULT),
    }
    for name in names:
        X, y = classic_set(name, folder)
        for method, params in methods.items():
            for seed in range(3):
                key = ("classic", name, "", seed, method)
                if figures.has(*key):
                    continue
                begun = time.perf_counter()
                masks, tests = folds_of(y, 10, seed)
                models = network(random_state=seed, **params).fit_many(X, y, masks)[0]
                found = fold_figures(models, tests, X, y)
                figures.add(key, found, time.perf_counter() - begun)


def run_spread(figures, folder, names):
    """Ten runs of the earlier defaults on one split, averaged and single."""
    for name in names:
        X, y = classic_set(name, folder)
        train, test = train_test_split(
            np.arange(len(y)), test_size=0.5, stratify=y, random_state=0
        )
        mask = np.zeros((1, len(y)), dtype=bool)
        mask[0, train] = True
        for n_models in (5, 1):
            method = "five models" if n_models == 5 else "one model"
            if figures.has("spread", name, "", 9, method):
                continue
            begun = time.perf_counter()
            settings = [{"random_state": 1000 * n_models + s} for s in range(10)]
            base = network(n_models=n_models, **setting_of(DEFAULT))
            fitted = base.fit_many(X, y, mask, settings)
            for seed, (model,) in enumerate(fitted):
                area = roc_auc_score(y[test], model.decision_function(X[test]))
                seconds = time.perf_counter() - begun
                key = ("spread", name, "", seed, method)
                figures.add(key, {"auroc": area}, seconds)


def run_tune(figures, seeds):
    """Settings of the image encoder, on draws that are not reported."""
    for seed in seeds:
        for kind, shape in IMAGES.items():
            X, y = image_bags(kind, 200, seed, test=False)
            T, truth = image_bags(kind, 400, seed, test=True)
            for method, params in ENCODED.items():
                key = ("tune", kind, 200, seed, method)
                if not figures.has(*key):
                    begun = time.perf_counter()
                    model = network(
                        encoder="image", instance_shape=shape, random_state=0, **params
                    )
                    score(figures, key, model.fit(X, y), T, truth, begun)


def tuned_encoder(figures):
    """Return the name of the best setting of the image encoder."""
    scores = {
        method: np.mean(
            [figures.values("tune", k, method, "accuracy", 200).mean() for k in IMAGES]
        )
        for method in figures.methods("tune")
    }
    if not scores:
        raise SystemExit("no rows of `tune` yet: run that part first")
    return max(scores, key=scores.get)


def run_images(figures, seeds):
    """Networks with and without an encoder."""
    encoded = ENCODED[tuned_encoder(figures)]
    plain = setting_of(chosen_setting(figures))
    for seed in seeds:
        for kind, shape in IMAGES.items():
            methods = {
                "network, image encoder": {
                    "encoder": "image",
                    "instance_shape": shape,
                    **encoded,
                },
                "network": plain,
            }
            for size in SIZES:
                X, y = image_bags(kind, size, seed, test=False)
                T, truth = image_bags(kind, 400, seed, test=True)
                for method, params in methods.items():
                    key = ("images", kind, size, seed, method)
                    if figures.has(*key):
                        continue
                    begun = time.perf_counter()
                    model = network(random_state=seed, **params).fit(X, y)
                    score(figures, key, model, T, truth, begun)


def score(figures, key, model, T, truth, begun):
    """Add accuracy and area on the test bags."""
    found = {
        "accuracy": np.mean(model.predict(T) == truth),
        "auroc": roc_auc_score(truth, model.decision_function(T)),
    }
    figures.add(key, found, time.perf_counter() - begun)


def run_references(figures, seeds):
    """Classic methods near their defaults, on pixels and on 30 components."""
    from bagwise.compose import OnInstances
    from bagwise.embedding import MILES, MiFV
    from bagwise.linear_model import MILogisticRegression
    from bagwise.svm import MISVM, BagSVC

    methods = {
        "MILES": lambda: MILES(random_state=0),
        "MI-Kernel": lambda: BagSVC(kernel="set", C=10.0),
        "miFV": lambda: make_pipeline(
            MiFV(random_state=0), LogisticRegression(max_iter=1000)
        ),
        "MILR": lambda: MILogisticRegression(),
        "MI-SVM": lambda: MISVM(random_state=0),
    }
    for seed in seeds:
        for kind in IMAGES:
            for size in SIZES:
                X, y = image_bags(kind, size, seed, test=False)
                T, truth = image_bags(kind, 400, seed, test=True)
                for name, make in methods.items():
                    for components in (None, 30):
                        method = name if components is None else f"PCA + {name}"
                        key = ("images", kind, size, seed, method)
                        if figures.has(*key):
                            continue
                        begun = time.perf_counter()
                        steps = [make()]
                        if components is not None:
                            steps.insert(0, OnInstances(PCA(30, random_state=0)))
                        model = make_pipeline(*steps).fit(X, y)
                        score(figures, key, model, T, truth, begun)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    every = "choose,options,classic,spread,tune,images,references"
    parser.add_argument("--parts", default=every)
    parser.add_argument("--seeds", default="0,1,2,3,4", help="draws of the images")
    parser.add_argument("--sets", help="of `classic`, `spread` or `choose`; all")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--output", type=Path, default=RESULTS / "neural")
    options = parser.parse_args()
    figures = Figures(options.output)
    parts = options.parts.split(",")
    seeds = [int(seed) for seed in options.seeds.split(",")]
    folder = options.data or Path(os.environ.get("BAGWISE_DATA", "."))
    others = [name for names in OTHERS.values() for name in names]
    wanted = options.sets.split(",") if options.sets else [*others, *SETS]
    if "choose" in parts:
        run_choose(figures, folder, [n for n in others if n in wanted])
    if "options" in parts:
        run_options(figures, folder, [n for n in others if n in wanted])
    five = [name for name in SETS if name in wanted]
    if "classic" in parts:
        run_classic(figures, folder, five)
    if "spread" in parts:
        run_spread(figures, folder, five)
    if "tune" in parts:
        run_tune(figures, TUNING_DRAWS)
    if "images" in parts:
        run_images(figures, seeds)
    if "references" in parts:
        run_references(figures, seeds)
    from neural_page import write_page

    write_page(figures, options.output)


if __name__ == "__main__":
    main()
