"""Figures that the text of README and guide quotes are those that were measured."""

import csv
import re
from pathlib import Path
from statistics import mean, stdev

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "studies" / "results"


def page(name):
    return " ".join((ROOT / "docs" / name).read_text(encoding="utf-8").split())


def rows(name):
    with (RESULTS / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def short(value):
    """Return a share as the pages write it: 0.932."""
    return f"{value:.3f}"


def test_the_rank_of_the_stack_is_that_of_the_study(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "studies" / "scripts"))
    from bag_classifier_study import sentence

    told = sentence().split(" its second generation ")
    assert len(told) == 2
    assert all(part in page("limits.md") for part in told)
    claim = (
        r"Against (\d+) tuned .*? on (\d+) data sets .*? mean rank ([\d.]+) by AUROC"
    )
    found = re.search(claim + r".*? and ([\d.]+) by accuracy", page("limits.md"))
    n_others, n_sets, by_auroc, by_accuracy = found.groups()
    for metric, rank in (("auroc", by_auroc), ("accuracy", by_accuracy)):
        path = RESULTS / "bag-classifier" / f"{metric}.csv"
        with path.open(encoding="utf-8", newline="") as file:
            head, first, *others = list(csv.reader(file))
        assert first[0] == "BagClassifier"
        assert f"{float(first[1]):.1f}" == rank
        assert (len(others), len(head) - 3) == (int(n_others), int(n_sets))


def test_the_ranks_next_to_rivals_are_those_of_the_study():
    path = RESULTS / "bag-classifier-rivals" / "sentences.txt"
    sentences = path.read_text(encoding="utf-8").splitlines()
    assert len(sentences) == 2
    for text in (page("../README.md"), page("limits.md")):
        assert all(sentence in text for sentence in sentences)


def test_on_how_many_sets_the_stack_finds_instances():
    by_set = {}
    for row in rows("bag-classifier/instances.csv"):
        by_set.setdefault(row["set"], {})[row["scores"]] = float(row["auroc"])
    less = {
        name: found["stack"] - max(v for k, v in found.items() if k != "stack")
        for name, found in by_set.items()
    }
    missed = {name.removeprefix("newsgroups ") for name, v in less.items() if v < -0.02}
    text = page("limits.md")
    kept, n_sets = re.search(r"best member on (\d+) of (\d+) data sets", text).groups()
    assert (int(kept), int(n_sets)) == (len(less) - len(missed), len(less))
    named = re.search(r"newsgroups (\S+) and (\S+) the difference", text).groups()
    assert set(named) == missed


def test_the_spread_of_seeds():
    claim = r"standard deviation of ([\d.]+) to ([\d.]+) points for averages of " + (
        r"five models, and of ([\d.]+) to ([\d.]+) points for single models"
    )
    told = [float(v) for v in re.search(claim, page("guide/networks.rst")).groups()]
    runs = {}
    for row in rows("neural/figures.csv"):
        if row["part"] == "spread":
            key = row["method"], row["data"]
            runs.setdefault(key, []).append(100 * float(row["value"]))
    found = []
    for method in ("five models", "one model"):
        spread = [stdev(values) for (m, _), values in runs.items() if m == method]
        found += [round(min(spread), 1), round(max(spread), 1)]
    assert found == told


def test_the_setting_of_the_networks():
    text = page("guide/networks.rst")
    told = (
        r"are the best of (\d+) settings\s.*?an accuracy of ([.\d]+);.*? has ([.\d]+)\."
    )
    count, best, earlier = re.search(told, text, re.DOTALL).groups()
    table = (RESULTS / "neural" / "README.md").read_text(encoding="utf-8")
    lines = [line.split("|") for line in table.splitlines() if "epochs, 256" in line]
    assert f"the best of {count} " in " ".join(table.split())
    means = [float(cells[2]) for cells in lines if len(cells) > 3]
    assert short(max(means)) == best
    line = next(one for one in table.splitlines() if "(default before" in one)
    assert short(float(line.split("|")[2])) == earlier


def test_what_networks_assume():
    found = {}
    for row in rows("assumptions/figures.csv"):
        found.setdefault(row["method"], []).append(row)
    attention = [
        [float(row["distractors"]) for row in values]
        for name, values in found.items()
        if name.startswith(("Network (attention", "Network (gated", "Attention net"))
    ]
    text = page("guide/networks.rst")
    claim = r"mean AUROC of ([.\d]+) to ([.\d]+), and ([.\d]+) in the worst sim"
    told = [float(value) for value in re.search(claim, text).groups()]
    means = [mean(values) for values in attention]
    assert told == [
        round(min(means), 2),
        round(max(means), 2),
        round(min(map(min, attention)), 2),
    ]


def test_an_epoch_on_a_gpu():
    table = (RESULTS / "gpu" / "README.md").read_text(encoding="utf-8")
    line = next(t for t in table.splitlines() if "one model, all instances" in t)
    seconds = float(re.search(r"\| ([\d.]+) s \|", line).group(1))
    told = re.search(r"1,024 features takes ([\d.]+) s", page("guide/networks.rst"))
    assert f"{seconds:.2f}" == told.group(1)


def test_what_a_basis_costs_is_that_of_the_table():
    text = " ".join((ROOT / "docs" / "limits.md").read_text(encoding="utf-8").split())
    with (RESULTS / "miodm-table3.csv").open(newline="") as file:
        rows = {(row["row"], row["column"]): row for row in csv.DictReader(file)}
    for name, row in (("MISVM", "MI-SVM"), ("MiSVM", "mi-SVM")):
        claim = rf"`{name}` (?:had )?([\d.]+)% instead of ([\d.]+)%"
        basis, exact = re.search(claim, text).groups()
        assert (
            f"{float(rows[f'{row}, basis of 300', 'Musk2']['measured']):.1f}" == basis
        )
        assert f"{float(rows[row, 'Musk2']['measured']):.1f}" == exact
