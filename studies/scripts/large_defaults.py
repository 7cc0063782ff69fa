"""Every classifier of the catalog on 120,000 x 100 in 5,000 bags: a fit, or a message.

Each method is fitted with its defaults in a process of its own, which ends after 140 s
of CPU time. A method that needs longer must raise an error at once that names a setting
that works. Those settings are measured as well.

    python large_defaults.py [--write] [--limit 140] [--bags 5000] [NAME ...]

Lines go to results/large/figures.csv; finished ones are not run again. --write makes
results/large/README.md of them.
"""

import argparse
import csv
import json
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

RESULTS = Path(__file__).parents[1] / "results"
FOLDER = RESULTS / "large"
FIGURES = FOLDER / "figures.csv"
COLUMNS = ("method", "outcome", "seconds", "accuracy", "memory_gb", "message")

FOREST = "sklearn.ensemble.RandomForestClassifier"
# Settings that error messages suggest, and cheaper alternatives to the defaults.
SETTINGS = {
    "MI-SVM, n_components=300": ("bagwise.svm.MISVM", {"n_components": 300}),
    "MILEAGE, n_components=300": ("bagwise.svm.MILEAGE", {"n_components": 300}),
    "PC-SVM, n_components=300": ("bagwise.svm.PCSVM", {"n_components": 300}),
    "SAFE, n_components=300": (
        "bagwise.least_squares.SAFE",
        {"n_components": 300},
    ),
    "WrapperMI (forest), max_samples=5000": (
        "bagwise.compose.WrapperMI",
        {"estimator": {"class": FOREST, "params": {"max_samples": 5_000}}},
    ),
    "Random boxes + LinearSVC": None,
    "Sliced Wasserstein + SVC": None,
}

TEXT = """# Defaults on 120,000 instances

Every classifier of the catalog with its defaults on 120,000 instances x 100 features in
5,000 bags (`make_bags`), one thread, at most 140 s of CPU time each; then the settings
that error messages name. The accuracy is that on 200 training bags: it shows that the
method learned something, not how well. The docstring of a class describes the
approximations of its defaults for data of this size. WrapperMI with the forest of the
catalog is not listed: on a tenth of the bags it took more than 60 s, and `compare`
excludes it above 100,000 instances; it is listed with trees of 5,000 instances each.
`python studies/scripts/large_defaults.py --write` makes this page of `figures.csv`.

{table}
"""


def names():
    """Return the names of all classifiers of the catalog, then of the settings."""
    from bagwise.comparison import list_methods

    known = [m.name for m in list_methods() if m.task == "classification"]
    return [*known, *SETTINGS]


def build(name):
    """Return the estimator of a name."""
    from bagwise.comparison.choose import find_method
    from bagwise.comparison.description import build_estimator

    if name == "Random boxes + LinearSVC":
        from sklearn.pipeline import make_pipeline
        from sklearn.svm import LinearSVC

        from bagwise.kernels import RandomBoxFeatures

        return make_pipeline(RandomBoxFeatures(random_state=0), LinearSVC())
    if name == "Sliced Wasserstein + SVC":
        from sklearn.pipeline import make_pipeline
        from sklearn.svm import SVC

        from bagwise.embedding import SlicedWassersteinEmbedding

        return make_pipeline(SlicedWassersteinEmbedding(random_state=0), SVC())
    if name in SETTINGS:
        path, params = SETTINGS[name]
        return build_estimator({"class": path, "params": params})
    return build_estimator(find_method(name).spec())


def child(name, n_bags):
    """Fit one method and print what came of it."""
    from sklearn.exceptions import ConvergenceWarning

    from bagwise.datasets import make_bags

    X, y = make_bags(
        n_bags, n_features=100, bag_size=24, n_witnesses=3, shift=4.0, random_state=0
    )
    model = build(name)
    for key in model.get_params():
        if key == "random_state" or key.endswith("__random_state"):
            model.set_params(**{key: 0})
    began = time.process_time()
    found = {"method": name, "accuracy": "", "message": ""}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            model.fit(X, y)
        except ValueError as error:
            found |= {"outcome": "refused", "message": str(error)}
        else:
            texts = [
                str(w.message)
                for w in said
                if not issubclass(w.category, ConvergenceWarning)
            ]
            found |= {"outcome": "fits", "message": " ".join(texts)[:200]}
    found["seconds"] = f"{time.process_time() - began:.1f}"
    if found["outcome"] == "fits":
        found["accuracy"] = f"{model.score(X[:200], y[:200]):.3f}"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    found["memory_gb"] = f"{peak:.1f}"
    print(json.dumps(found))


def known():
    """Return the lines that are there."""
    if not FIGURES.exists():
        return []
    with FIGURES.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def run(chosen, limit, n_bags):
    """Measure what is missing, each in a process of its own."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    done = {row["method"] for row in known()}

    def cap():
        resource.setrlimit(resource.RLIMIT_CPU, (limit + 30, limit + 30))

    for name in chosen or names():
        if name in done:
            continue
        command = [sys.executable, __file__, "--child", name, "--bags", str(n_bags)]
        ended = subprocess.run(
            command, capture_output=True, text=True, preexec_fn=cap, check=False
        )
        if ended.returncode == 0:
            line = json.loads(ended.stdout.splitlines()[-1])
            if float(line["seconds"]) > limit:
                line["outcome"] = "too long"
        else:
            tail = ended.stderr.strip().splitlines()[-1:] or [""]
            line = dict.fromkeys(COLUMNS, "")
            line |= {"method": name, "outcome": "no answer", "message": tail[0][:200]}
            line["seconds"] = f"> {limit}"
        new = not FIGURES.exists()
        with FIGURES.open("a", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            if new:
                writer.writeheader()
            writer.writerow(line)
        print(line["method"], line["outcome"], line["seconds"], flush=True)


def write():
    """Make the page of the lines."""
    table = [
        "| method | outcome | CPU seconds | accuracy | GB | what it says |",
        "|---|---|---|---|---|---|",
    ]
    for r in known():
        text = r["message"].replace("|", "\\|").replace("\n", " ")
        cells = [r[c] for c in COLUMNS[:-1]]
        table.append("| " + " | ".join([*cells, text]) + " |")
    (FOLDER / "README.md").write_text(
        TEXT.format(table="\n".join(table)), encoding="utf-8"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--limit", type=int, default=140)
    parser.add_argument("--bags", type=int, default=5_000)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    if given.child:
        child(given.child, given.bags)
    elif given.write:
        write()
    else:
        run(given.names, given.limit, given.bags)
