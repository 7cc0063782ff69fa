"""How often `find_leaks` reports a column: leaks that were added, and clean data.

Three parts. Added leaks: the instance label, as a column, in ten data sets with known
instance labels; and a real value per bag from whose threshold the label was made.
Clean data: the 25 binary sets of `bag_classifier_study.py`. Simulated bags whose
classes differ in the witnesses of one column, by 2 to 6 standard deviations, on which a
report is a false alarm.

The rule is that of `bagwise.comparison.leaks`. Its limits were chosen on the simulated
bags, with the best columns of the clean sets known: the largest AUROC among them is
0.999 (corel1000, class 4 against the rest), which rules out any threshold below. The
count of false alarms on these sets is thus not independent of the choice.

    python studies/scripts/leak_guard.py

writes ``studies/results/leaks/README.md``.
"""

import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from bagwise.bags.segments import repeat
from bagwise.comparison import CrossValidation, compare
from bagwise.comparison.leaks import find_leaks
from bagwise.comparison.problem import Problem, as_problem
from bagwise.datasets import fetch, load_digit_bags, make_bags, make_key_instance_bags

sys.path.append(str(Path(__file__).parent))

from bag_classifier_study import GROUPS, problems

RESULTS = Path(__file__).parents[1] / "results" / "leaks"


def labeled():
    """Yield ten problems with instance labels."""
    for group in GROUPS:
        yield as_problem(fetch(f"newsgroups_{group}"))
    yield as_problem(load_digit_bags(120), name="digits")
    X, y, z = make_bags(60, shift=2.0, random_state=0, return_instance_labels=True)
    yield Problem("make_bags", X, y, z.values)
    X, y, z = make_key_instance_bags(80, random_state=0, return_instance_labels=True)
    yield Problem("make_key_instance_bags", X, y, z.values)


def with_column(problem, column, name="added"):
    """Return a problem with one more column."""
    rows = problem.X.data
    rows = rows.toarray() if problem.X.is_sparse else rows
    names = problem.X.feature_names
    names = [f"x{j}" for j in range(rows.shape[1])] if names is None else list(names)
    X = problem.X.with_data(
        np.column_stack([rows, column]), feature_names=[*names, name]
    )
    return replace(problem, X=X)


def named(problem):
    """Return whether the added column is reported, and nothing else."""
    return [found.name for found in find_leaks(problem).leaks] == ["added"]


def added_leaks():
    """Return one row of the table per data set with instance labels."""
    rng, rows = np.random.default_rng(0), []
    find_leaks(next(labeled()))  # loads modules and compiles
    for problem in labeled():
        label = named(with_column(problem, (problem.instance_labels != 0) * 1.0))
        signs = np.where(problem.targets == 1, 1.0, -1.0)
        value = signs * rng.gamma(1.0, size=len(signs))
        value = named(with_column(problem, repeat(value, problem.X.offsets)))
        started = time.process_time()
        clean = find_leaks(problem)
        seconds = time.process_time() - started
        started = time.process_time()
        compare(
            problem,
            methods=["SimpleMI"],
            protocol=CrossValidation(5),
            n_jobs=1,
            progress=False,
        )
        share = seconds / (time.process_time() - started)
        rows.append((problem.name, label, value, not clean.leaks, seconds, share))
        print(rows[-1], flush=True)
    return rows


def false_alarms():
    """Return the share of simulated clean problems with a report, per setting."""
    rows = []
    for n_bags in (30, 60, 200, 500):
        for shift in (2.0, 3.0, 4.0, 5.0, 6.0):
            alarms = 0
            for seed in range(50):
                X, y = make_bags(n_bags, n_features=20, shift=shift, random_state=seed)
                alarms += bool(find_leaks(Problem("simulated", X, y)).leaks)
            rows.append((n_bags, shift, alarms))
            print(rows[-1], flush=True)
    return rows


def main():
    leaks = added_leaks()
    clean = [(p.name, find_leaks(p)) for p, _ in problems()]
    alarms = [name for name, found in clean if found.leaks]
    simulated = false_alarms()
    n_label = sum(row[1] for row in leaks)
    n_value = sum(row[2] for row in leaks)
    lines = [
        "# Columns that hold the label: what `compare` reports",
        "",
        "Written by `studies/scripts/leak_guard.py`, whose docstring describes the data"
        " and how the rule was chosen.",
        "",
        f"- Instance label as a column: named in {n_label} of {len(leaks)} data sets.",
        f"- Real value per bag: named in {n_value} of {len(leaks)} data sets.",
        f"- False alarms on the {len(clean)} clean sets: {len(alarms)}"
        f" {', '.join(alarms)}".rstrip()
        + ".",
        f"- Largest share of the CPU time of a comparison of SimpleMI alone:"
        f" {max(row[5] for row in leaks):.1%}.",
        "",
        "| data | instance label named | value per bag named | no alarm without |"
        " CPU seconds | share |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {name} | {'yes' if a else 'no'} | {'yes' if b else 'no'} |"
        f" {'yes' if c else 'no'} | {s:.3f} | {share:.1%} |"
        for name, a, b, c, s, share in leaks
    ]
    lines += ["", "Best single column of the clean sets:", ""]
    lines += ["| data | best column | AUROC |", "|---|---|---|"]
    lines += [
        f"| {name} | {f.best.name}, {f.best.statistic} | {f.best.score:.3f} |"
        for name, f in clean
    ]
    lines += [
        "",
        "Alarms in 50 simulated problems each, in which one column separates the"
        " classes honestly, and more so the larger the shift:",
        "",
        "| bags | shift | alarms |",
        "|---|---|---|",
    ]
    lines += [f"| {n} | {shift:g} | {alarms} |" for n, shift, alarms in simulated]
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "README.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
