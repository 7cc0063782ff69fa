"""Explanations: names, tables and plots."""

import csv
import datetime
import json
import uuid

import numpy as np
import pytest
from _exact_models import Pooled, PooledRegressor
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB

from bagwise import BagRegressor, Bags, Ragged
from bagwise.cli._models import fit_file
from bagwise.comparison.problem import as_problem
from bagwise.compose import SimpleMIRegressor, WrapperMI
from bagwise.datasets import make_bags
from bagwise.inspection import (
    explain,
    instance_importance,
    member_contributions,
)
from bagwise.linear_model import MILogisticRegression
from bagwise.svm import BagSVC


@pytest.fixture(scope="module")
def bags():
    rng = np.random.default_rng(0)
    sizes = [3, 1, 4, 2]
    n = sum(sizes)
    return Bags(
        rng.standard_normal((n, 3)),
        np.concatenate([[0], np.cumsum(sizes)]),
        ids=["m1", "m2", "m3", "m4"],
        feature_names=["logP", "charge", "volume"],
        instance_ids=[f"c{k}" for k in range(17, 17 + n)],
        coords=np.column_stack([np.arange(n) * 256, np.arange(n) % 2 * 256]),
    )


def test_table_says_who_and_where(bags):
    model = Pooled("max").fit(bags)
    found = explain(model, bags)
    columns = found.columns()
    assert columns["id"] == bags.instance_ids.tolist()
    assert columns["bag"][:4] == ["m1", "m1", "m1", "m2"]
    assert columns["x"][3] == 768.0
    np.testing.assert_allclose(columns["score"], bags.data @ model.coef_)
    for i, own in enumerate(bags):
        scores = own @ model.coef_
        rows = slice(int(bags.offsets[i]), int(bags.offsets[i + 1]))
        expected = [1 + int((scores > one).sum()) for one in scores]
        assert columns["rank"][rows] == expected
        assert np.flatnonzero(columns["key"][rows]).tolist() == [scores.argmax()]
    assert found.rows()[5]["id"] == "c22"


def test_frames_agree(bags):
    found = explain(Pooled("mean").fit(bags), bags)
    pandas, polars = found.to_frame(), found.to_frame("polars")
    assert pandas.to_dict("list") == polars.to_dict(as_series=False) == found.columns()
    with pytest.raises(ValueError, match="polars"):
        found.to_frame("excel")


def test_files_hold_the_same(bags, tmp_path):
    found = explain(Pooled("mean").fit(bags), bags)
    paths = found.write(tmp_path / "out")
    with paths["instances"].open(newline="", encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    assert [row["id"] for row in table] == bags.instance_ids.tolist()
    np.testing.assert_allclose([float(r["score"]) for r in table], found.scores)
    stored = json.loads(paths["json"].read_text(encoding="utf-8"))
    assert [bag["bag"] for bag in stored["bags"]] == bags.ids.tolist()
    assert [len(bag["instances"]) for bag in stored["bags"]] == bags.sizes.tolist()
    assert stored["bags"][2]["instances"][1]["id"] == "c22"
    assert paths["picture"].stat().st_size > 1000
    names = [str(one) for one in bags.ids]
    assert sorted(p.stem for p in paths["heatmaps"].iterdir()) == sorted(names)
    assert all(p.stat().st_size > 1000 for p in paths["heatmaps"].iterdir())
    for i, name in enumerate(names):
        made = json.loads((paths["geojson"] / f"{name}.geojson").read_text())
        assert made == found.to_geojson(i)


def test_every_model_can_be_explained():
    X, y = make_bags(20, random_state=0)
    model = BagSVC(kernel="emd").fit(X, y)
    found = explain(model, X)
    assert found.method == "single"
    np.testing.assert_array_equal(found.scores, instance_importance(model, X).values)
    left = explain(model, X, method="leave_out")
    expected = instance_importance(model, X, "leave_out").values
    np.testing.assert_array_equal(left.scores, expected)
    with pytest.raises(ValueError, match="auto, native"):
        explain(model, X, method="shap")


def test_regression_and_several_classes(bags):
    found = explain(PooledRegressor().fit(bags), bags)
    np.testing.assert_array_equal(found.bag_scores, found.labels)
    model = Pooled("mean", classes=("a", "b", "c")).fit(bags)
    several = explain(model, bags)
    every = bags.data @ model.coef_
    column = np.searchsorted(model.classes_, several.labels)[bags.bag_index]
    expected = every[np.arange(len(every)), column]
    np.testing.assert_array_equal(several.scores, expected)
    assert "bag_score" not in several.columns()
    assert explain(model, bags, pos_label="b").scores.tolist() == every[:, 1].tolist()


def test_picture_has_title_names_axes_and_legend(bags):
    X, y = make_bags(20, random_state=0)
    model = MILogisticRegression(random_state=0).fit(X, y)
    found = explain(model, X)
    assert found.contributions.kind == "linear"
    figure = found.plot(3, 4)
    assert "highest scores" in figure.get_suptitle()
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["feature increases the score", "decreases it"]
    first = figure.axes[0]
    top = int(np.argmax(found.bag_scores))
    assert f"bag {top}" in first.get_ylabel()
    assert first.get_title().startswith(f"#{found.key[top]}: ")
    limits = {ax.get_xlim() for ax in figure.axes if ax.patches}
    assert len(limits) == 1
    plain = explain(Pooled("max").fit(bags), bags, method="single").plot(2)
    texts = [text.get_text() for text in plain.legends[0].get_texts()]
    assert "standard deviations" in texts[1]
    assert any("c2" in ax.get_title() for ax in plain.axes)


class Moved(Pooled):
    """Bags are positive from an instance score of 3 on."""

    def _instance_scores(self, X):
        found = super()._instance_scores(X)
        return Ragged(found.values + 3.0, found.offsets)


def test_colors_meet_at_the_score_that_makes_bags_positive():
    X, _ = make_bags(40, random_state=0)
    plain = explain(Pooled("max").fit(X), X)
    assert plain.threshold == 0.0
    found = explain(Moved("max").fit(X), X)
    assert found.threshold == pytest.approx(3.0, abs=0.5)
    top = found.scores[X.offsets[:-1] + found.key]
    assert 0 < (found.bag_scores > 0).sum() < 40
    np.testing.assert_array_equal(top > found.threshold, found.bag_scores > 0)
    assert json.loads(found.to_json())["threshold"] == found.threshold
    coords = np.column_stack([np.arange(X.n_instances), np.zeros(X.n_instances)])
    placed = Bags(X.data, X.offsets, coords=coords)
    found = explain(Moved("max").fit(placed), placed)
    norms = [found.plot_heatmap(i).images[0].norm for i in range(3)]
    assert {norm.vcenter for norm in norms} == {found.threshold}
    assert len({(norm.vmin, norm.vmax) for norm in norms}) == 1
    assert norms[0](found.threshold) == 0.5
    above = found.scores[found.scores > found.threshold]
    assert np.mean(above > norms[0].vmax) == pytest.approx(0.01, abs=1 / len(above))
    called = [
        feature["properties"]["classification"]["name"] == "Positive"
        for i in range(40)
        for feature in found.to_geojson(i)["features"]
    ]
    np.testing.assert_array_equal(called, found.scores > found.threshold)
    assert explain(PooledRegressor().fit(X), X).threshold is None
    for method in ("leave_out", "add_to", "single"):
        assert explain(Pooled("max").fit(X), X, method=method).threshold == 0.0


def test_bars_are_contributions_also_where_scores_are_not_linear(tmp_path):
    X, y = make_bags(30, random_state=0)
    found = explain(WrapperMI(GaussianNB()).fit(X, y), X)
    assert found.contributions is None
    parts = found._shown_parts(np.arange(30), 2)
    assert len(parts.values) == np.minimum(X.sizes, 2).sum()
    rows = list(parts.values)
    total = np.array([parts.values[row].sum() for row in rows])
    np.testing.assert_allclose(np.ptp(found.scores[rows] - total), 0, atol=1e-8)
    shown = {text.get_text() for text in found.plot(2).legends[0].get_texts()}
    assert shown == {"feature increases the score", "decreases it"}
    page = found.write(tmp_path, 2, format="svg")["picture"]
    assert page.name == "key_instances.svg"
    assert "feature increases the score" in page.read_text(encoding="utf-8")
    assert found.write(tmp_path, 1, format="pdf")["picture"].read_bytes()[:4] == b"%PDF"
    with pytest.raises(ValueError, match="png, pdf or svg, got 'gif'"):
        found.write(tmp_path, format="gif")


def test_heatmap_and_geojson_of_a_bag(bags, tmp_path):
    found = explain(Pooled("max").fit(bags), bags)
    ax = found.plot_heatmap(2)
    assert "m3" in ax.get_title()
    assert found.plot_heatmap("m3").get_title() == ax.get_title()
    assert found.to_geojson("m3") == found.to_geojson(2)
    for wrong in ("m17", -1, 99):
        with pytest.raises(ValueError, match=r"no bag .* an id such as 'm\d"):
            found.plot_heatmap(wrong)
    made = found.to_geojson(2, path=tmp_path / "m3.geojson")
    stored = json.loads((tmp_path / "m3.geojson").read_text(encoding="utf-8"))
    assert stored == made
    names = [feature["properties"]["name"] for feature in made["features"]]
    assert names == ["c21", "c22", "c23", "c24"]
    bare = explain(Pooled("max").fit(bags), bags.to_list())
    with pytest.raises(ValueError, match="no coordinates"):
        bare.plot_heatmap(0)


def named(bags, **names):
    return Bags(bags.data, bags.offsets, **names)


@pytest.mark.parametrize("kind", ["day", "hour", "uuid", "mixed"])
def test_names_of_any_type_are_written(bags, tmp_path, kind):
    """Ids may be dates and database keys, which JSON does not support."""
    n, m = len(bags), bags.n_instances
    make = {
        "day": lambda k: datetime.date(2020, 1, 1 + k),
        "hour": lambda k: np.datetime64("2020-01-01T00") + k,
        "uuid": lambda k: uuid.UUID(int=k),
        "mixed": lambda k: k if k % 2 else f"c{k}",
    }[kind]
    ids, own = ([make(k) for k in range(size)] for size in (n, m))
    X = named(bags, ids=ids, instance_ids=own)
    found = explain(Pooled("mean").fit(X), X)
    stored = json.loads(found.write(tmp_path)["json"].read_text(encoding="utf-8"))
    assert len({str(bag["bag"]) for bag in stored["bags"]}) == n
    written = [row["id"] for bag in stored["bags"] for row in bag["instances"]]
    with (tmp_path / "instances.csv").open(newline="", encoding="utf-8") as file:
        assert [row["id"] for row in csv.DictReader(file)] == [str(v) for v in written]
    assert len(found.to_frame()) == len(found.to_frame("pyarrow")) == m


def test_names_that_look_like_formulas_are_drawn_as_they_are(bags, tmp_path):
    odd = r"<b>$\frac$" + "\n" + "a" * 300
    X = named(
        bags,
        ids=[f"{odd}{k}" for k in range(len(bags))],
        instance_ids=[odd] * bags.n_instances,
        feature_names=[odd, r"$\x$", "US$5"],
        coords=bags.coords,
    )
    model = Pooled("mean", classes=("$a$", r"$\b$")).fit(X)
    found = explain(model, X)
    kinds = {"instances", "json", "picture", "heatmaps", "geojson"}
    assert set(found.write(tmp_path)) == kinds
    assert len(list((tmp_path / "heatmaps").glob("*.png"))) == len(bags)
    assert len(list((tmp_path / "geojson").glob("*.geojson"))) == len(bags)
    assert {p.parent for p in tmp_path.rglob("*.geojson")} == {tmp_path / "geojson"}
    figure = found.plot(1)
    assert figure.axes[0].get_title().startswith(r"<b>\$\frac\$ aaa")
    assert found.columns()["id"] == [odd] * bags.n_instances


def test_one_coordinate_is_no_map(bags, tmp_path):
    X = named(bags, coords=bags.coords[:, :1])
    found = explain(Pooled("mean").fit(X), X)
    assert "heatmaps" not in found.write(tmp_path)
    assert found.columns()["x"] == bags.coords[:, 0].tolist()


def test_several_targets_need_a_model_of_one():
    X, y = make_bags(20, random_state=0)
    members = [("mean", SimpleMIRegressor())]
    model = BagRegressor(members, cv=2).fit(X, np.column_stack([y, X.sizes]))
    with pytest.raises(ValueError, match="2 values per bag: fit a model of one target"):
        explain(model, X)
    with pytest.raises(ValueError, match="2 targets: fit a model of one target"):
        member_contributions(model, X)


def test_several_labels_a_bag():
    """With several labels, pos_label or the model of one label is required."""
    X, y = make_bags(20, random_state=0)
    Y = np.column_stack([y, 1 - y])
    each = OneVsRestClassifier(WrapperMI()).fit(X, Y)
    with pytest.raises(ValueError, match=r"2 labels per bag: pass one of \[0, 1\]"):
        explain(each, X)
    both = instance_importance(each, X).values
    for k in (0, 1):
        found = explain(each, X, pos_label=k)
        alone = each.estimators_[k].decision_function([row[None] for row in X.data])
        np.testing.assert_allclose(found.scores, alone, atol=1e-12)
        np.testing.assert_array_equal(both[:, k], found.scores)
    apart = MultiOutputClassifier(WrapperMI()).fit(X, Y)
    with pytest.raises(ValueError, match=r"such as model.estimators_\[0\]"):
        explain(apart, X)
    saved = fit_file(as_problem(X, Y), "WrapperMI", grid="none").model
    with pytest.raises(ValueError, match=r"such as model.estimators_\[0\]"):
        explain(saved, X)
    explain(saved.estimators_[0], X)


def test_text_names_bags_predictions_and_key_instances(bags):
    found = explain(Pooled("max").fit(bags), bags)
    lines = repr(found).splitlines()
    assert lines[0].startswith(f"Explanation(n_bags={len(bags)}, ")
    i = int(np.argmax(found.bag_scores))
    row = int(bags.offsets[i] + found.key[i])
    assert lines[1].startswith(f"  bag {bags.ids[i]}: predicted ")
    assert f"key instance {bags.instance_ids[row]}, score" in lines[1]


def test_html_shows_the_bags_with_the_highest_scores_first(bags):
    found = explain(Pooled("max").fit(bags), bags)
    html = found._repr_html_()
    order = np.argsort(-found.bag_scores, kind="stable")
    first = [f"<td>{bags.ids[i]}</td>" for i in order]
    places = [html.index(cell) for cell in first]
    assert places == sorted(places)
    assert html.count("<circle") == bags.n_instances
    assert html.count("r='4.5'") == len(bags)
