"""The page of BagClassifier next to its rivals, from a store of two cheap methods."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from bagwise import Bags
from bagwise.comparison.problem import Problem
from bagwise.comparison.store import Store

SCRIPTS = Path(__file__).parents[1] / "scripts"
MEANS, RIVAL = "BagClassifier", "statistics + linear"
DAY = "2026-01-02"


def task(seed):
    """Return bags of two classes; they differ in means, or for odd seeds in spread."""
    rng = np.random.default_rng(seed)
    y = np.arange(24) % 2
    rows = rng.normal(size=(24, 6, 2))
    if seed % 2:
        rows[:, :, 0] *= np.where(y, 4.0, 1.0)[:, None]
    else:
        rows += np.where(y, 0.7, 0.0)[:, None, None]
    return Bags.from_list(list(rows)), y


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """The script, with six small sets, and a stand-in for the stack."""
    sys.path.insert(0, str(SCRIPTS))
    try:
        import bag_classifier_rivals as script
    finally:
        sys.path.remove(str(SCRIPTS))
    with pytest.MonkeyPatch.context() as patch:
        names = ["musk1", "simulated: one", "simulated: two", "c", "d", "e"]
        found = [Problem(n, *task(k)) for k, n in enumerate(names)]
        pair = [
            (MEANS, script.Pooled("linear", "mean")),
            (RIVAL, script.Pooled("linear")),
        ]
        patch.setattr(script, "problems", lambda: iter(found))
        patch.setattr(script, "methods", lambda: [pair, []])
        patch.setattr(script, "regressions", lambda: iter(()))
        patch.setattr(script, "networks", list)
        store = tmp_path_factory.mktemp("rivals") / "rivals.sqlite"
        for problem in found:
            script._run(store, problem, pair, "auroc", None)
        yield script, store


def means(store):
    """Return the mean AUROC of both methods on every set, from the rows."""
    with Store(store) as kept:
        rows = kept.rows()
    sets = sorted({row["dataset"] for row in rows})
    cell = lambda s, m: [  # noqa: E731
        r["auroc"] for r in rows if (r["dataset"], r["method"]) == (s, m)
    ]
    assert all(len(cell(s, m)) == 3 for s in sets for m in (MEANS, RIVAL))
    return {s: [float(np.mean(cell(s, m))) for m in (MEANS, RIVAL)] for s in sets}


def test_the_sentence_counts_sets_and_wins(study):
    script, store = study
    values = np.array(list(means(store).values()))
    assert len(values) == 6  # simulated tasks are sets of their own
    ahead = values[:, 0] - values[:, 1]
    rank = 1.0 + np.mean(np.where(ahead == 0, 0.5, ahead < 0))
    text = script.sentence(script.board_of(store, [MEANS, RIVAL]), "models", DAY)
    assert f"Compared with 1 models on 6 data sets (three folds, AUROC, {DAY})" in text
    assert f"mean rank {rank:.1f}" in text
    assert f"{RIVAL} with {3.0 - rank:.1f}" in text
    assert f"first on {(ahead > 0).sum()}" in text
    assert "Of the sets, 5 were not used in its development (musk1 were)." in text


def test_the_page_lists_every_set_and_every_loss(study, tmp_path, monkeypatch):
    script, store = study
    script.write(store, tmp_path / "page", DAY)
    page = (tmp_path / "page" / "README.md").read_text(encoding="utf-8")
    sentence = (tmp_path / "page" / "sentences.txt").read_text(encoding="utf-8")
    board = script.board_of(store, [MEANS, RIVAL])
    assert sentence.strip() == script.sentence(board, "models of pooled bags", DAY)
    assert sentence.strip() in page
    assert (tmp_path / "page" / "auroc.png").stat().st_size > 1_000
    assert "| musk1 (development) |" in page
    found = means(store)
    area = page.split("## AUROC")[1].split("## Accuracy")[0]
    order = re.search(r"\| set \| (.*) \|", area)[1].split(" | ")
    for name, (stack, rival) in found.items():
        values = {MEANS: f"{stack:.3f}", RIVAL: f"{rival:.3f}"}
        row = f"| {' | '.join(values[method] for method in order)} |"
        assert re.search(
            rf"\| {re.escape(name)}( \(development\))? {re.escape(row)}", area
        )
    with Store(store) as kept:
        spent = {
            method: np.mean(
                [
                    kept.arrays(key)["cpu_seconds"][0]
                    for key, row in zip(kept.status(), kept.rows(), strict=True)
                    if row["method"] == method
                ]
            )
            for method in (MEANS, RIVAL)
        }
    for method, seconds in spent.items():
        assert re.search(rf"\| {re.escape(method)} \|.* \| {seconds:.1f} \|", area)
    losses = {n: r - s for n, (s, r) in found.items() if r > s + 0.001}
    assert 0 < len(losses) < 6
    table = page.split("## Losses")[1].split("## ")[0]
    assert table.count(f"| {RIVAL} |") == len(losses)
    for name, lost in losses.items():
        row = rf"\| {re.escape(name)} \| {re.escape(RIVAL)} \| (\S+) \| (\S+) to (\S+) "
        effect, low, high = map(float, re.search(row, table).groups())
        assert effect == pytest.approx(lost, abs=6e-4)
        assert low < effect < high
    gain = np.mean([s - r for s, r in found.values()])
    assert f"mean {gain:+.3f}" in table
    # A third method was run on three of the sets.
    some = list(script.problems())[:3]
    third = ("third", script.Pooled("linear", "series"))
    monkeypatch.setattr(script, "networks", lambda: [third])
    for problem in some:
        script._run(store, problem, [third], "auroc", None)
    script.write(store, tmp_path / "page", DAY)
    page = (tmp_path / "page" / "README.md").read_text(encoding="utf-8")
    assert "## AUROC: 2 methods, 6 sets" in page
    assert "## AUROC with networks: 2 methods, 3 sets" in page


def test_a_set_that_is_not_finished_is_left_out(study, tmp_path):
    script, _ = study
    store = tmp_path / "begun.sqlite"
    first, second = list(script.problems())[:2]
    script._run(store, first, script.methods()[0], "auroc", None)
    script._run(store, second, script.methods()[0][:1], "auroc", None)
    assert script.finished(store, [MEANS, RIVAL]) == [first.name]
    script.write(store, tmp_path / "page", DAY)
    page = (tmp_path / "page" / "README.md").read_text(encoding="utf-8")
    assert second.name not in page.split("## AUROC")[1]
