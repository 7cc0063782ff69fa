"""Reports of every kind of result: no error, correct numbers, printable on A4."""

import json
import re
from functools import cache

import numpy as np
import pytest
from cases import CASES, build, of, perfect
from sklearn.metrics import (
    average_precision_score,
    confusion_matrix,
    precision_recall_fscore_support,
    roc_auc_score,
)

from bagwise.report import write_report
from bagwise.report._page import render_report, report_context
from bagwise.report.view import View

VALUES = [name for name in CASES if "values" in name]
CLASSES = [name for name in CASES if name not in VALUES]


@cache
def case(name):
    """Build a case once."""
    return CASES[name]()


@cache
def context(name):
    """Make the context of a case once."""
    return report_context(case(name))


def runs(comparison, method, *, first=False):
    """Return truth and stored arrays of the folds of a method."""
    problem = comparison.problem
    truth = problem.targets
    if problem.task == "classification":
        truth = np.searchsorted(problem.classes, problem.y)
    for row in comparison.runs(method):
        arrays = comparison.arrays[row["key"]]
        if not first or row["repeat"] == 0:
            yield truth[arrays["test"]], arrays


def has(comparison, what):
    """Return whether any finished run has stored a non-empty array."""
    return any(np.size(arrays.get(what, ())) for arrays in comparison.arrays.values())


@pytest.mark.parametrize("name", CASES)
def test_the_context_is_plain_and_the_page_renders(name):
    values = context(name)
    assert json.loads(json.dumps(values, allow_nan=False)) == values
    text = render_report(values)
    shown = re.sub(r"<(script|style)\b.*?</\1>", "", text, flags=re.DOTALL)
    shown = re.sub(r"<[^>]*>", " ", shown)
    assert not re.search(
        r"\b(nan|NaN|None(?! of)|inf|undefined)\b", shown.split("Methods and")[0]
    )


@pytest.mark.parametrize("name", CLASSES)
def test_counts_and_figures_of_classes_are_true(name):
    comparison, data = case(name), context(name)["data"]
    n = len(comparison.problem.classes)
    for method, found in data["figures"].items():
        folds = list(runs(comparison, method, first=True))
        truth = np.concatenate([t for t, _ in folds])
        label = np.concatenate([a["label"] for _, a in folds])
        assert found["n"] == len(truth)
        if truth.ndim == 1:
            counts = confusion_matrix(truth, label, labels=range(n))
            np.testing.assert_array_equal(found["matrix"], counts)
        else:
            assert found["matrix"] is None
        precision, recall, f1, bags = precision_recall_fscore_support(
            truth, label, labels=range(n), zero_division=np.nan
        )
        for k, row in enumerate(found["rows"]):
            assert row["bags"] == bags[k]
            for value, true in (
                (row["precision"], precision[k]),
                (row["recall"], recall[k]),
                (row["f1"], f1[k]),
            ):
                if value is None:
                    assert np.isnan(true)
                else:
                    assert value == pytest.approx(true, abs=6e-4)


@pytest.mark.parametrize(
    "name",
    [
        "plain",
        "positive first",
        "five classes",
        "a rare class",
        "repeats",
        "several labels",
    ],
)
def test_areas_of_every_class_are_those_of_scikit_learn(name):
    comparison, data = case(name), context(name)["data"]
    two = comparison.problem.positive is not None
    for method, found in data["figures"].items():
        for k, row in enumerate(found["rows"]):
            roc, repeats = [], {}
            rows = comparison.runs(method)
            for run, (truth, arrays) in zip(
                rows, runs(comparison, method), strict=True
            ):
                score = arrays["score"]
                own = (score if k else -score) if two else score[:, k]
                member = truth == k if truth.ndim == 1 else truth[:, k]
                if member.any() and not member.all():
                    roc.append(roc_auc_score(member, own))
                repeats.setdefault(run["repeat"], []).append((member, own))
            joined = (zip(*parts, strict=True) for parts in repeats.values())
            precision = [
                average_precision_score(*map(np.concatenate, part)) for part in joined
            ]
            assert row["auroc"] == pytest.approx(np.mean(roc), abs=6e-4)
            assert row["ap"] == pytest.approx(np.mean(precision), abs=6e-4)


def test_curves_are_of_the_class_that_was_named():
    comparison, data = case("positive first"), context("positive first")["data"]
    assert context("positive first")["positive"] == "active"
    assert data["classes"][data["positive"]] == "active"
    (curves,) = data["curves"]
    for method in ("a", "b"):
        row = data["figures"][method]["rows"][data["positive"]]
        assert curves["roc"][method]["area"] == pytest.approx(row["auroc"], abs=1e-3)
        assert curves["pr"][method]["area"] == pytest.approx(row["ap"], abs=1e-3)
        told = next(r for r in comparison.ranking if r.method == method)
        assert told.auroc == pytest.approx(row["auroc"], abs=1e-3)
        assert told.average_precision == pytest.approx(row["ap"], abs=1e-3)


@pytest.mark.parametrize("name", CASES)
def test_constant_answers_are_called_out(name):
    comparison = case(name)
    kind = "prediction" if comparison.problem.task == "regression" else "label"
    for row in context(name)["ranking"]:
        given = [a[kind] for _, a in runs(comparison, row["method"])]
        same = bool(given) and len(np.unique(np.concatenate(given), axis=0)) == 1
        assert (row["constant"] is not None) == same
        if same and comparison.problem.task == "classification":
            assert row["constant"] == str(comparison.problem.classes[given[0][0]])


@pytest.mark.parametrize("name", VALUES)
def test_predicted_values_are_those_out_of_fold(name):
    comparison, data = case(name), context(name)["data"]
    for method, found in data["values"].items():
        folds = list(runs(comparison, method, first=True))
        truth = np.concatenate([t for t, _ in folds])
        error = np.concatenate([a["prediction"] for _, a in folds]) - truth
        assert found["n"] == len(truth) == len(comparison.problem.y)
        assert len(found["truth"]) == min(600, len(truth))
        inside = np.abs(error) <= found["within"] * (1 + 1e-4)
        assert inside.mean() >= 0.9
        assert found["bias"] == pytest.approx(error.mean(), rel=1e-4, abs=1e-300)
        position = {str(i): k for k, i in enumerate(comparison.problem.X.ids)}
        for id_, value, size in zip(
            found["ids"][:50], found["truth"][:50], found["sizes"][:50], strict=True
        ):
            k = position[id_]
            assert value == pytest.approx(comparison.problem.y[k], rel=1e-4)
            assert size == comparison.problem.X.sizes[k]


@pytest.mark.parametrize("name", CASES)
def test_marks_of_the_ranking_stand_on_its_axis(name):
    values = context(name)
    axis = values["axis"]
    assert axis["high"] > axis["low"]
    for row, told in zip(values["ranking"], case(name).ranking, strict=True):
        if row["at"] is None:
            assert np.isnan(told.mean)
            continue
        place = axis["low"] + row["at"] / 100 * (axis["high"] - axis["low"])
        assert place == pytest.approx(told.mean, abs=1e-3 * max(1.0, axis["high"]))
        assert row["left"] is None or row["left"] <= row["at"] <= row["right"]


@pytest.mark.parametrize("name", CASES)
def test_bins_of_calibration_hold_every_test_bag_once(name):
    comparison = case(name)
    for curves in context(name)["data"]["curves"]:
        for method, bins in curves["calibration"].items():
            whole = curves["class"] is None  # all labels of a bag together
            tests = [
                comparison.arrays[r["key"]]["test"] for r in comparison.runs(method)
            ]
            tested = View(comparison).truth[np.unique(np.concatenate(tests))]
            total = tested.size if whole else len(tested)
            assert sum(b["n"] for b in bins) == total
            means = [b["predicted"] for b in bins]
            assert means == sorted(means)
            assert len(set(means)) == len(means)


def test_groups_are_pooled_by_their_mean_score():
    comparison, (a, b) = case("groups"), context("groups")["groups"]["rows"]
    groups, truth = comparison.problem.X.groups, comparison.problem.y == "well"
    for row in (a, b):
        hits = []
        for run in comparison.runs(row["method"]):
            arrays = comparison.arrays[run["key"]]
            own = groups[arrays["test"]]
            what = "probability" if "probability" in arrays else "score"
            means = {g: arrays[what][own == g].mean() for g in np.unique(own)}
            cut = 0.5 if what == "probability" else 0.0
            right = [(mean > cut) == truth[groups == g][0] for g, mean in means.items()]
            hits.append(np.mean(right))
        assert float(row["accuracy"]) == pytest.approx(np.mean(hits), abs=6e-4)


def test_groups_of_several_classes_are_counted_and_left_out():
    found = context("mixed groups")["groups"]
    assert (found["n"], found["counted"], found["rows"]) == ("15", "0", [])
    assert context("plain")["groups"] is None


def test_many_bags_make_a_small_page(tmp_path):
    path = write_report(case("many bags"), tmp_path / "report.html")
    assert path.stat().st_size < 5_000_000


SHOWN = """() => document.querySelector("main").innerText"""
STICKS_OUT = """() => [...document.querySelectorAll("main *")]
    .filter((e) => e.getBoundingClientRect().right > innerWidth + 1
        && !e.closest(".scroll") && !e.closest("svg") && !e.closest("details"))
    .map((e) => e.tagName + "." + e.className)"""
CUT_OFF = """() => [...document.querySelectorAll(".scroll, figure, details")]
    .filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.id || e.className)"""


@pytest.mark.browser
@pytest.mark.parametrize("name", CASES)
def test_in_a_browser(open_report, name):
    comparison = case(name)
    page = open_report(comparison)
    text = page.evaluate(SHOWN)
    assert not re.search(r"\b(NaN|undefined|null|Infinity)\b", text)
    done = bool(comparison.arrays)
    assert ("No method finished" in text) == (not done)
    assert ("predicts probabilities" in text) == (
        done and name not in VALUES and not has(comparison, "probability")
    )
    assert ("No instance scores are available" in text) == (
        not has(comparison, "instances")
    )
    marked = page.locator(".shares .badge.pos").count()
    assert marked == (0 if comparison.problem.positive is None else 1)
    if comparison.problem.task == "classification":
        for label in map(str, comparison.problem.classes[:40]):
            assert " ".join(label.split()) in " ".join(text.split())
    if name in VALUES:
        for chart in ("fit", "residuals", "sizes"):
            assert page.locator(f"#{chart} circle").count() > 0
        page.locator("#values-method").select_option(index=0)
    elif done and has(comparison, "score"):
        assert page.locator("#roc path.line").count() > 0
        assert page.locator("#pr path.line").count() > 0
    if done and name not in VALUES:
        for option in page.locator("#curves-class option").all()[1:]:
            page.locator("#curves-class").select_option(option.get_attribute("value"))
        for option in page.locator("#classes-method option").all()[:4]:
            page.locator("#classes-method").select_option(option.get_attribute("value"))
            if comparison.problem.task == "multilabel":
                continue
            cells = page.locator("#confusion td").all_inner_texts()
            assert sum(map(int, cells)) == sum(
                len(a["test"])
                for row in comparison.runs(option.get_attribute("value"))
                if row["repeat"] == 0
                for a in [comparison.arrays[row["key"]]]
            )
    for width in (1200, 390):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(STICKS_OUT) == []
    # A4 at 96 dots per inch without margins: nothing may be truncated in print.
    page.set_viewport_size({"width": 703, "height": 1000})
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth") <= 703
    assert page.evaluate(CUT_OFF) == []


@pytest.mark.browser
def test_paper_is_white_and_a4(open_report):
    page = open_report(case("plain"), color_scheme="dark")
    document = page.pdf(prefer_css_page_size=True)
    box = re.search(rb"/MediaBox\s*\[\s*0 0 ([\d.]+) ([\d.]+)", document)
    assert [round(float(value)) for value in box.groups()] == [595, 842]
    page.emulate_media(media="print")
    shade = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(shade) == "rgb(255, 255, 255)"


def test_the_summary_says_what_the_ranking_says():
    shared = case("perfect").summary()
    assert shared.startswith("a, b and c share the first place: accuracy 1.000")
    assert [row.rank for row in case("perfect").ranking] == [1, 1, 1]
    y = np.arange(40) % 2
    near = build(y, {"a": perfect, "b": perfect, "c": of(2)}).summary()
    assert "c is not significantly different from them." in near
    assert "failed" in case("failed").summary()
    assert case("one method").summary().count(".") == 4  # three in its figures
    partly = build(
        np.arange(40) % 2,
        {
            "a": of(2),
            "b": lambda t, rng: None if rng.random() < 0.5 else perfect(t, rng),
        },
    )
    assert 0 < len(partly.failures) < 4
    assert "b is not tested." in partly.summary()
    assert "worse" not in partly.summary()


@pytest.mark.parametrize("name", CASES)
def test_runs_that_are_missing_are_told(name):
    left = case(name).n_left
    assert left == (1 if name == "cut short" else 0)
    assert ("have not ended" in case(name).summary()) == bool(left)
    assert ("not finished" in render_report(context(name))) == bool(left)
