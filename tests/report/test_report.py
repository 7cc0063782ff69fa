import json
from html.parser import HTMLParser

import numpy as np
import pytest
from report_helpers import EVIL, make_comparison
from sklearn.metrics import average_precision_score, roc_auc_score

from bagwise import Bags
from bagwise.comparison import CrossValidation, compare
from bagwise.datasets import make_bags
from bagwise.report import write_report
from bagwise.report._bags import instance_table
from bagwise.report._page import render_report, report_context
from bagwise.report.view import View

QUIET = {"n_jobs": 1, "time_limit": None, "progress": False}


class Page(HTMLParser):
    """Collects scripts, handlers, addresses and texts of a page."""

    def __init__(self, text):
        super().__init__()
        self.scripts, self.outside, self.handlers, self.text = 0, [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.scripts += tag == "script"
        for name, value in attrs:
            if name in ("src", "href") and not (value or "").startswith(("#", "data:")):
                self.outside.append(value)
            if name.startswith("on"):
                self.handlers.append(name)

    def handle_data(self, data):
        self.text.append(data)


@pytest.mark.parametrize("images", [False, True])
def test_the_context_is_plain_values(images):
    context = report_context(make_comparison(images))
    assert json.loads(json.dumps(context, allow_nan=False)) == context


@pytest.mark.parametrize("images", [False, True])
def test_nothing_from_the_data_becomes_markup(images):
    text = render_report(report_context(make_comparison(images)))
    page = Page(text)
    assert page.scripts == 2  # the data and the code
    assert page.outside == []
    assert page.handlers == []
    assert EVIL in "".join(page.text)
    assert "<script>window.hacked" not in text


def test_the_data_of_the_page_are_those_of_the_comparison():
    comparison = make_comparison()
    data = report_context(comparison)["data"]
    browser = data["browser"]
    assert len(browser["bags"]) == 40
    assert browser["bags"][0]["id"] == EVIL
    bag = browser["bags"][7]
    X, name = comparison.problem.X, "best one"
    scores = instance_table(View(comparison), name)
    rows = X.offsets[7] + np.array(bag["positions"])
    part = slice(bag["first"], bag["first"] + bag["count"])
    np.testing.assert_allclose(browser["scores"][name][part], scores[rows], rtol=1e-3)
    assert sorted(bag["positions"]) == list(range(bag["size"]))


def test_calibration_and_histogram_count_every_test_bag():
    (curves,) = report_context(make_comparison())["data"]["curves"]
    bins = curves["calibration"]["best one"]
    assert sum(one["n"] for one in bins) == 40
    assert all(one["low"] <= one["observed"] <= one["high"] for one in bins)
    histogram = curves["histograms"]["best one"]
    assert sum(histogram["own"]) == sum(histogram["rest"]) == 20
    assert histogram["threshold"]


def test_auroc_is_a_mean_over_folds_and_precision_of_all_bags():
    comparison = make_comparison()
    (curves,) = report_context(comparison)["data"]["curves"]
    found = curves["roc"]["best one"]["area"]
    folds = [a for key, a in comparison.arrays.items() if key.startswith("0-")]
    truth = [comparison.problem.y[fold["test"]] for fold in folds]
    scores = [fold["score"] for fold in folds]
    precision = average_precision_score(np.concatenate(truth), np.concatenate(scores))
    assert curves["pr"]["best one"]["area"] == pytest.approx(precision, abs=1e-4)
    areas = [roc_auc_score(y, s) for y, s in zip(truth, scores, strict=True)]
    assert found == pytest.approx(np.mean(areas), abs=1e-4)


def test_many_large_bags_make_a_small_page(tmp_path):
    comparison = make_comparison(images=True, n_bags=400, names=("a", "b", "c"))
    path = write_report(comparison, tmp_path / "r.html")
    assert path.stat().st_size < 3_000_000
    browser = report_context(comparison)["data"]["browser"]
    assert len(browser["bags"]) <= 150
    assert browser["n_bags"] == 400


def test_several_classes_have_a_report_too(tmp_path):
    comparison = make_comparison(n_classes=3, names=("a", "b"))
    mean, *own = report_context(comparison)["data"]["curves"]
    assert mean["histograms"] == {}
    assert [one["class"] for one in own] == [0, 1, 2]
    areas = [one["roc"]["a"]["area"] for one in own]
    assert mean["roc"]["a"]["area"] == pytest.approx(np.mean(areas), abs=1e-3)
    assert write_report(comparison, tmp_path / "r.html").exists()


def test_instance_scores_of_several_classes_are_those_of_the_predicted_one():
    rng = np.random.default_rng(0)
    y = np.arange(24) % 3
    X = [rng.normal(size=(3, 2)) + 2.0 * k for k in y]
    result = compare(
        X, y, methods=["WrapperMI"], protocol=CrossValidation(2), grid="none", **QUIET
    )
    view = View(result)
    scores = instance_table(view, result.best)
    assert np.isfinite(scores).all()
    fold = view.folds(result.best)[0]
    assert fold.instances.shape == (3 * len(fold.test), 3)
    rows = result.problem.X.offsets[fold.test[0]] + np.arange(3)
    np.testing.assert_allclose(scores[rows], fold.instances[:3, fold.label[0]])
    data = report_context(result)["data"]
    assert data["browser"]["methods"] == [result.best]


def test_members_of_a_stack_are_shown_with_their_weights():
    comparison = make_comparison(stacked=True)
    context = report_context(comparison)
    assert json.loads(json.dumps(context, allow_nan=False)) == context
    (stack,) = context["stacks"]
    assert stack["method"] == "best one"
    heavy, light = stack["members"]
    # The second member is missing in the first fold: weights 2, 3 and 4 in the others.
    assert (heavy["name"], heavy["weight"], heavy["folds"]) == (EVIL, "3.00", 3)
    assert (light["name"], light["weight"], light["folds"]) == ("trees", "-0.50", 4)
    assert (heavy["auroc"], light["auroc"]) == ("0.900", "0.700")
    low, high = stack["axis"]["low"], stack["axis"]["high"]
    assert low <= -0.5
    assert high >= 4.0
    for member, ends in ((heavy, (2.0, 4.0)), (light, (-0.5, -0.5))):
        places = [100 * (end - low) / (high - low) for end in ends]
        assert [member["left"], member["right"]] == pytest.approx(places, abs=0.01)
    text = render_report(context)
    assert "Members of best one" in text
    assert "<script>window.hacked" not in text


def test_a_page_without_stacks_has_no_members():
    context = report_context(make_comparison())
    assert context["stacks"] == []
    assert "Members of" not in render_report(context)


def test_explanations_stand_beside_key_instances():
    """Assumption, faithfulness and key-instance success of every finished method."""
    comparison = make_comparison(names=("MI-SVM", "EMD + SVC"))
    rng = np.random.default_rng(0)
    for row in comparison.runs("MI-SVM"):
        gaps = 1.0 + 0.1 * rng.standard_normal(8)
        comparison.arrays[row["key"]]["faithfulness"] = gaps
    context = report_context(comparison)
    rows = {row["method"]: row for row in context["explanations"]}
    assert rows["MI-SVM"]["assumption"].startswith("yes, measured")
    assert rows["EMD + SVC"]["assumption"].startswith("no, measured")
    assert rows["MI-SVM"]["verdict"] == "faithful"
    low, high = map(float, rows["MI-SVM"]["interval"].split(" to "))
    assert low < float(rows["MI-SVM"]["gap"]) < high
    assert rows["EMD + SVC"]["verdict"] == ""
    text = "".join(Page(render_report(context)).text)
    assert "Respects the standard assumption" in text
    assert rows["MI-SVM"]["interval"] in text


def test_runs_measure_faithfulness_and_bags_show_names():
    X, y = make_bags(40, random_state=0)
    named = Bags(
        X.data, X.offsets, instance_ids=[f"conf {k}" for k in range(X.n_instances)]
    )
    result = compare(
        named, y, methods=["MI-SVM"], protocol=CrossValidation(2), grid="none", **QUIET
    )
    context = report_context(result)
    (row,) = context["explanations"]
    assert row["verdict"] == "faithful"
    browser = context["data"]["browser"]
    bag = browser["bags"][3]
    index = int(bag["id"])
    first = int(X.offsets[index])
    expected = [f"conf {first + place}" for place in bag["positions"]]
    assert browser["names"][bag["first"] : bag["first"] + bag["count"]] == expected


def test_features_over_all_bags_and_inside_instances():
    """The relevant feature comes first, and contributions are slope times value."""
    X, y = make_bags(40, random_state=0)
    result = compare(
        X,
        y,
        methods=["MILR", "SimpleMI"],
        protocol=CrossValidation(2),
        grid="none",
        permute_features=True,
        **QUIET,
    )
    context = report_context(result)
    charts = {chart["method"]: chart for chart in context["features"]}
    assert set(charts) == {"MILR", "SimpleMI"}
    assert charts["MILR"]["bars"][0]["name"] == "x0"
    parts = context["data"]["browser"]["parts"]
    assert set(parts) >= {"MILR"}
    bag = context["data"]["browser"]["bags"][5]
    index, place = int(bag["id"]), bag["positions"][0]
    row = next(
        r for r in result.runs("MILR") if index in result.arrays[r["key"]]["test"]
    )
    slope = result.arrays[row["key"]]["feature_slope"]
    expected = slope * (X[index][place] - X.data.mean(axis=0))
    shown = {name: part for name, _, part in parts["MILR"]["rows"][bag["first"]]}
    for j, value in enumerate(expected):
        assert shown[f"x{j}"] == pytest.approx(value, abs=1e-4)
    page = "".join(Page(render_report(context)).text)
    assert "Feature importance" in page
    json.dumps(context, allow_nan=False)


def test_sampled_parts_of_scores_that_are_not_linear():
    """They sum to the score minus the score of the mean instance."""
    X, y = make_bags(40, random_state=0)
    result = compare(
        X,
        y,
        methods=["MI-SVM"],
        protocol=CrossValidation(2),
        grid="none",
        permute_features=True,
        **QUIET,
    )
    context = report_context(result)["data"]["browser"]
    parts, bases = context["parts"]["MI-SVM"]["rows"], {}
    for bag in context["bags"]:
        fold = next(
            r["fold"] for r in result.runs("MI-SVM")
            if int(bag["id"]) in result.arrays[r["key"]]["test"]
        )  # fmt: skip
        for k in range(bag["first"], bag["first"] + bag["count"]):
            assert {name for name, _, _ in parts[k]} == {f"x{j}" for j in range(5)}
            total = sum(part for _, _, part in parts[k])
            base = context["scores"]["MI-SVM"][k] - total
            bases.setdefault(fold, []).append(base)
    for found in bases.values():  # one baseline per model
        np.testing.assert_allclose(found, found[0], atol=2e-3)
    sizes = {f"x{j}": 0.0 for j in range(5)}
    for name, _, part in (one for row in parts for one in row):
        sizes[name] += abs(part)
    assert max(sizes, key=sizes.get) == "x0"


def test_parameters_at_the_end_of_their_grid_are_marked():
    comparison = make_comparison()
    for row in comparison.rows:
        row["grid_ends"] = {"C": "upper"} if row["method"] == "best one" else {}
    told = {
        item["method"]: item["ends"] for item in report_context(comparison)["params"]
    }
    assert len(told["best one"]) == 1
    assert "C" in told["best one"][0]
    assert told[EVIL] == []
    assert (
        render_report(report_context(comparison)).count("at the end of the grid") == 1
    )


@pytest.mark.parametrize(
    ("own", "others", "says"),
    [
        (0.6, 0.9, "other than single positive"),
        (0.9, 0.6, "restricts the model to them"),
        (0.9, 0.9, ""),
    ],
)
def test_members_that_assume_different_things_are_compared(own, others, says):
    comparison = make_comparison(stacked=True)
    warn = bool(says)
    for k, row in enumerate(comparison.runs("best one")):
        share = 0.3 + 0.1 * k if warn else 0.02
        check = np.array([share, own, others, float(warn)])
        comparison.arrays[row["key"]]["assumption_check"] = check
    told = comparison.disagreement("best one")
    assert told["warn"] == warn
    assert told["share"] == pytest.approx(0.45 if warn else 0.02)
    text = render_report(report_context(comparison))
    page = "".join(Page(text).text)
    assert f"the others disagree on {'45' if warn else '2'}% of held-out bags" in page
    assert says in page
    assert ('class="badge bad">check<' in text) == warn
    assert ("assumption='standard' of BagClassifier" in page) == warn
    assert comparison.disagreement(EVIL) == {}
