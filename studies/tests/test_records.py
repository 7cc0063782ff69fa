"""The study of records: what is chosen on test folds, and what is not seen."""

import numpy as np
import pytest

from bagwise.datasets import make_bags
from studies.records.__main__ import Figures, best_accuracy, folds_of
from studies.records.page import SETS, WAYS, write_page


def test_the_best_threshold_by_brute_force():
    rng = np.random.default_rng(0)
    for _ in range(20):
        scores, truth = np.round(rng.normal(size=9), 1), rng.random(9) < 0.5
        found = [np.mean((scores >= cut) == truth) for cut in np.linspace(-5, 5, 2001)]
        assert best_accuracy(scores, truth) == pytest.approx(max(found))


def test_labels_of_test_bags_change_no_score(monkeypatch):
    pytest.importorskip("torch")
    from studies.records import training

    monkeypatch.setattr(training, "EPOCHS", 3)
    X, y = make_bags(30, random_state=0)
    y = y > 0
    masks, tests = folds_of(y, 0)
    assert sorted(np.concatenate(tests)) == list(range(30))
    for name in training.NETWORKS:
        scores = training.epoch_scores(name, X, y, masks, 0)
        assert scores.shape == (3, 10, 30)
        changed = y.copy()
        changed[tests[4]] ^= True
        again = training.epoch_scores(name, X, changed, masks, 0)
        np.testing.assert_allclose(again[:, 4], scores[:, 4], atol=1e-6)
        assert not np.allclose(again[:, 5], scores[:, 5], atol=1e-6)


def test_the_page_has_every_way_and_its_gain(tmp_path):
    figures = Figures(tmp_path / "figures.csv")
    for name in SETS:
        for k, way in enumerate(WAYS):
            key = ("networks", name, 0, "DSMIL", way)
            assert not figures.has(*key)
            figures.add(*key, 0.8 + 0.01 * k, 1)
            assert Figures(tmp_path / "figures.csv").has(*key)
    write_page(figures.rows, tmp_path)
    page = (tmp_path / "README.md").read_text(encoding="utf-8")
    for k, said in enumerate(WAYS.values()):
        assert f"| {said} | " + f"{0.8 + 0.01 * k:.3f} | " * 5 + "1 |" in page
        assert k == 0 or f"| {said} | {k:+.1f} |" in page
    assert "BagClassifier |" not in page
