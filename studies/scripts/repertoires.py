"""A motif in 1 of 1,000 sequences: 200 simulated repertoires of 10,000 sequences.

For each seed, `make_repertoires` writes the files into a temporary folder, and each
process of this script reads them and measures one of two things: the AUROC of the
method by nested cross-validation, or the number of motifs among the 50 sequences with
the highest scores in 50 repertoires that were not used for training. Peak memory is
that of a process and of all workers it starts.

    python repertoires.py [--seeds 0 1] [--write]

Lines go to results/repertoires/figures.csv; finished ones are not run again. --write
makes results/repertoires/README.md of them.
"""

import argparse
import csv
import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

from _memory import run_watched

FOLDER = Path(__file__).parents[1] / "results" / "repertoires"
FIGURES = FOLDER / "figures.csv"
COLUMNS = ("seed", "motif", "auroc", "fold_low", "fold_high", "minutes")
COLUMNS += ("in_top_50", "share_of_all", "memory_gb")
METHOD = "Mean + L1 SVM"
N_PERSONS, N_SEQUENCES, RATE = 200, 10_000, 0.001
N_TRAIN = 150

TEXT = """# A motif in 1 of 1,000 sequences

Simulated immune repertoires (`bagwise.datasets.make_repertoires`): {n} persons with
{size:,} sequences each, half of them cases. In a case, {marked} sequences contain a
motif of four residues, drawn uniformly for each seed. Copies of sequences follow a Zipf
distribution. Sequences are counted by their 4-mers (160,000 columns) and weighted by
their copies, the defaults of `read_bags(..., format="airr")`.

The method is "{method}" of the catalog. AUROC: mean over five folds, with `C` tuned
inside the training folds (three folds), and the lowest and highest fold. Top 50: how
many of the 50 sequences with the highest scores contain the motif, among all sequences
of 50 repertoires that were not used for training; in brackets the share of all
sequences that contain it. Memory: peak of the larger of the two processes, reading and
imports included. Minutes: processor time of reading and nested cross-validation.

{table}

These data were simulated to answer whether a rare motif can be found in repertoires of
this size. They do not tell how well the method works on real repertoires: a real motif
is degenerate, shared with controls and confounded with age and HLA type.

`python studies/scripts/repertoires.py --write` makes this page of `figures.csv`.
"""


def read(folder):
    """Return bags and labels of a simulated folder."""
    import bagwise

    labels = Path(folder) / "labels.csv"
    return bagwise.read_bags(
        folder, "person", "status", format="airr", labels=labels, pos_label="case"
    )


def measure_auroc(folder):
    """Return the AUROC of nested cross-validation."""
    from bagwise import compare
    from bagwise.comparison import CrossValidation

    started = time.process_time()
    X, y = read(folder)
    found = compare(
        X,
        y,
        methods=[METHOD],
        protocol=CrossValidation(5),
        metric="auroc",
        n_jobs=1,
        time_limit=None,
        progress=False,
    )
    folds = [row["auroc"] for row in found.runs(METHOD)]
    return {
        "auroc": f"{sum(folds) / len(folds):.4f}",
        "fold_low": f"{min(folds):.4f}",
        "fold_high": f"{max(folds):.4f}",
        "minutes": f"{(time.process_time() - started) / 60:.1f}",
    }


def measure_ranking(folder, motif):
    """Return how many of the best sequences of new persons contain the motif."""
    import numpy as np

    from bagwise.comparison.choose import find_method
    from bagwise.comparison.tuning import fit_method
    from bagwise.inspection import instance_scores

    X, y = read(folder)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = np.sort(order[:N_TRAIN]), np.sort(order[N_TRAIN:])
    entry = find_method(METHOD)
    fitted = fit_method(
        entry.spec(),
        X[train],
        y[train],
        scale=entry.scale,
        grid=entry.grid,
        tuning={"n_splits": 3, "scoring": "roc_auc"},
        random_state=0,
    )
    new = X[test]
    best = np.argsort(-instance_scores(fitted.model, new).values)[:50]
    marked = np.array([motif in text for text in new.instance_ids])
    return {
        "in_top_50": int(marked[best].sum()),
        "share_of_all": f"{marked.mean():.5f}",
    }


def run(seed):
    """Simulate one folder and measure it in two processes; return a line."""
    from bagwise.datasets import make_repertoires

    with tempfile.TemporaryDirectory() as folder:
        _, motif = make_repertoires(
            folder, N_PERSONS, N_SEQUENCES, rate=RATE, random_state=seed
        )
        line, peaks = {"seed": seed, "motif": motif}, []
        for part in ("auroc", "ranking"):
            command = [sys.executable, __file__, "--part", part, folder, motif]
            written, peak = run_watched(command)
            line |= json.loads(written.splitlines()[-1])
            peaks.append(peak)
    return line | {"memory_gb": f"{max(peaks):.2f}"}


def lines():
    """Return the lines that are there already."""
    if not FIGURES.exists():
        return []
    with FIGURES.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def add(line):
    """Append a line, after a heading in a new file."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    new = not FIGURES.exists()
    with FIGURES.open("a", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if new:
            table.writeheader()
        table.writerow(line)


def page(found):
    """Return the text of the page."""
    rows = ["| seed | motif | AUROC (folds) | top 50 | memory (GB) | minutes |"]
    rows.append("|---|---|---|---|---|---|")
    for one in found:
        share = f"{100 * float(one['share_of_all']):.3f}%"
        folds = f"{float(one['fold_low']):.3f} to {float(one['fold_high']):.3f}"
        rows.append(
            f"| {one['seed']} | {one['motif']} | {float(one['auroc']):.3f} ({folds}) |"
            f" {one['in_top_50']} ({share}) | {one['memory_gb']} | {one['minutes']} |"
        )
    marked = round(RATE * N_SEQUENCES)
    return TEXT.format(
        n=N_PERSONS,
        size=N_SEQUENCES,
        marked=marked,
        method=METHOD,
        table="\n".join(rows),
    )


def main():
    """Measure what is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--part", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        part, folder, motif = options.part
        ranking = part == "ranking"
        found = measure_ranking(folder, motif) if ranking else measure_auroc(folder)
        print(json.dumps(found))
        return
    for seed in options.seeds:
        if str(seed) not in {line["seed"] for line in lines()}:
            add(run(seed))
    if options.write:
        (FOLDER / "README.md").write_text(page(lines()), encoding="utf-8")


if __name__ == "__main__":
    main()
