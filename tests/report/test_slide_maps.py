"""Maps of bags: their bytes, and how the page shows them."""

import base64

import numpy as np
import pytest
from report_helpers import make_comparison

from bagwise import Bags
from bagwise.report import write_report
from bagwise.report._bags import LEAST_CELLS, MAX_BYTES, slide_maps
from bagwise.report._page import report_context


def with_places(comparison, side=256):
    """Return bags with coordinates: rows of 40 patches each."""
    X = comparison.problem.X
    rows = np.concatenate([np.arange(n) for n in X.sizes])
    coords = side * np.column_stack([rows % 40, rows // 40])
    placed = Bags(X.data, X.offsets, ids=X.ids, coords=coords)
    object.__setattr__(comparison.problem, "X", placed)
    return comparison


def test_cells_hold_the_mean_percentile_of_their_instances():
    places = np.array([[0, 0], [256, 0], [256, 512], [10, 10], [266, 10]])
    X = Bags(np.zeros((5, 1)), [0, 3, 5], coords=places)
    heat = np.array([0.0, 50.0, 100.0, 20.0, 80.0])
    found = slide_maps(X, [0, 1], {"m": heat})
    assert found["frames"] == [[2, 3, 0.0, 0.0, 256.0], [2, 1, 10.0, 10.0, 256.0]]
    first, second = (base64.b64decode(text) for text in found["cells"]["m"])
    assert list(first) == [1, 128, 0, 0, 0, 255]
    assert list(second) == [1 + round(2.54 * 20), 1 + round(2.54 * 80)]


def test_many_large_pictures_are_coarse_and_few():
    side, n_bags = 220, 40
    one = np.stack(np.meshgrid(np.arange(side), np.arange(side)), -1).reshape(-1, 2)
    X = Bags(
        np.zeros((n_bags * side**2, 1)),
        side**2 * np.arange(n_bags + 1),
        coords=np.tile(one, (n_bags, 1)),
    )
    heat = {name: np.full(X.n_instances, 30.0) for name in "abcdefghijklmnopqrstuvwxyz"}
    found = slide_maps(X, range(n_bags), heat)
    drawn = [text for texts in found["cells"].values() for text in texts if text]
    sizes = [len(base64.b64decode(text)) for text in drawn]
    assert 0.8 * LEAST_CELLS < min(sizes) <= max(sizes) <= LEAST_CELLS
    assert sum(sizes) <= MAX_BYTES + max(sizes)
    assert len(drawn) < n_bags * len(heat)
    assert base64.b64decode(drawn[0])[0] == 1 + round(2.54 * 30)


def test_no_places_no_pictures():
    X = Bags(np.zeros((4, 2)), [0, 2, 4])
    assert slide_maps(X, [0, 1], {"m": np.zeros(4)}) is None
    line = Bags(np.zeros((4, 2)), [0, 2, 4], coords=np.arange(4)[:, None])
    assert slide_maps(line, [0, 1], {"m": np.zeros(4)}) is None
    unscored = Bags(np.zeros((4, 2)), [0, 2, 4], coords=np.arange(8).reshape(4, 2))
    assert slide_maps(unscored, [0, 1], {"m": np.full(4, np.nan)}) is None


def test_of_large_data_the_scores_of_some_bags_are_kept(monkeypatch):
    from bagwise.comparison import CrossValidation, compare
    from bagwise.comparison import run_one as _run_one
    from bagwise.datasets import make_bags
    from bagwise.report._bags import instance_table
    from bagwise.report.view import View

    X, y = make_bags(24, random_state=0)
    placed = Bags(X.data, X.offsets, coords=X.data[:, :2])
    asked = {"methods": ["MILR"], "protocol": CrossValidation(3), "grid": "none"}
    asked |= {"n_jobs": 1, "time_limit": None, "progress": False}
    whole = instance_table(View(compare(placed, y, **asked)), "MILR")
    monkeypatch.setattr(_run_one, "MAX_STORED_INSTANCES", X.n_instances // 2)
    result = compare(placed, y, **asked)
    assert sum(len(a["instances"]) for a in result.arrays.values()) < len(whole)
    some = instance_table(View(result), "MILR")
    known = ~np.isnan(some)
    bags = np.add.reduceat(known, X.offsets[:-1])
    assert set(bags) <= {0, *X.sizes}
    assert 0.3 < known.mean() < 0.7
    np.testing.assert_array_equal(some[known], whole[known])
    browser = report_context(result)["data"]["browser"]
    assert [bag["id"] for bag in browser["bags"]] == [
        str(i) for i in np.flatnonzero(bags)
    ]
    assert all(browser["maps"]["cells"]["MILR"])


def test_half_precision_does_not_overflow_in_the_page():
    """Sums of many values overflow in half precision."""
    comparison = make_comparison()
    X = comparison.problem.X
    rows = np.tile(X.data + 30.0, (1000, 1)).astype(np.float16)
    large = Bags(rows, np.linspace(0, len(rows), 41).astype(int))
    object.__setattr__(comparison.problem, "X", large)
    object.__setattr__(comparison.problem, "instance_labels", None)
    for array in comparison.arrays.values():
        array.pop("instances")
    browser = report_context(comparison)["data"]["browser"]
    values = [z for row in browser["features"] for _, _, z in row]
    assert np.isfinite(values).all()
    z = (rows[0].astype(float) - rows.mean(0, dtype=float)) / rows.std(0, dtype=float)
    assert abs(browser["features"][0][0][2]) == pytest.approx(np.abs(z).max(), abs=0.01)


@pytest.mark.browser
def test_a_slide_is_a_picture_to_pan_and_zoom(open_file, tmp_path):
    comparison = with_places(make_comparison())
    page = open_file(write_report(comparison, tmp_path / "report.html"))
    canvas = page.locator(".map canvas")
    assert canvas.count() == 1
    painted = """(c) => { const d = c.getContext("2d").getImageData(
        0, 0, c.width, c.height).data; let n = 0;
        for (let i = 3; i < d.length; i += 4) n += d[i] > 0; return n; }"""
    assert canvas.evaluate(painted) > 1000
    assert canvas.get_attribute("data-zoom") == "1.00"
    page.locator(".map-tools button").first.click()
    page.locator(".map-tools button").first.click()
    assert canvas.get_attribute("data-zoom") == "2.25"
    canvas.focus()
    before = canvas.get_attribute("data-at")
    page.keyboard.press("ArrowRight")
    assert canvas.get_attribute("data-at") != before
    box = canvas.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    before = canvas.get_attribute("data-at")
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 60, y, steps=3)
    page.mouse.up()
    assert canvas.get_attribute("data-at") != before
    page.keyboard.press("0")
    assert canvas.get_attribute("data-zoom") == "1.00"
    page.mouse.move(x, y)
    page.mouse.wheel(0, -400)
    page.wait_for_function(
        "() => document.querySelector('.map canvas').dataset.zoom > 1.5"
    )
    page.locator("#bag-method").select_option(index=1)
    assert page.locator(".map canvas").count() == 1
