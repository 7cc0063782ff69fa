"""Heat maps and files for QuPath."""

import json

import numpy as np
import pytest

from bagwise.inspection import plot_heatmap, to_geojson
from bagwise.inspection.heatmap import rasterize


def test_every_instance_is_at_its_place():
    rng = np.random.default_rng(0)
    cells = rng.permutation(600)[:200]
    coords = np.column_stack([cells % 30, cells // 30]) * 224 + [1000, 5000]
    scores = rng.standard_normal(200)
    ax = plot_heatmap(scores, coords)
    image = ax.images[0]
    table, (left, right, bottom, top) = image.get_array(), image.get_extent()
    width = (right - left) / table.shape[1]
    assert width == 224
    assert bottom > top  # y grows downwards
    for (x, y), score in zip(coords, scores, strict=True):
        row = int((y - top) / (bottom - top) * table.shape[0])
        column = int((x - left) / (right - left) * table.shape[1])
        assert table[row, column] == pytest.approx(score)
    assert (~np.ma.getmaskarray(np.ma.masked_invalid(table))).sum() == 200


def test_means_where_instances_overlap():
    raster, extent = rasterize(
        np.array([1.0, 3.0, 5.0]),
        np.array([[0.0, 0.0], [10.0, 5.0], [60.0, 0.0]]),
        50.0,
    )
    np.testing.assert_array_equal(raster, [[2.0, 5.0]])
    assert extent == (0.0, 100.0, 50.0, 0.0)


def test_colors_meet_at_zero():
    grid = [[0, 0], [1, 0], [2, 0]]
    assert plot_heatmap([-1.0, 0.0, 4.0], grid).images[0].get_clim() == (-4.0, 4.0)
    assert plot_heatmap([1.0, 2.0, 4.0], grid).images[0].get_clim() == (1.0, 4.0)
    centered = plot_heatmap([1.0, 2.0, 4.0], grid, center=2.0)
    assert centered.images[0].get_clim() == (0.0, 4.0)


def test_both_sides_of_the_middle_have_a_scale_of_their_own():
    grid = [[0, 0], [1, 0], [2, 0]]
    norm = (
        plot_heatmap([-9.0, 0.0, 1.0], grid, center=0.5, limits=(-9, 1)).images[0].norm
    )
    np.testing.assert_allclose(norm([-9, -4.25, 0.5, 0.75, 1]), [0, 0.25, 0.5, 0.75, 1])
    norm = plot_heatmap([2.0, 3.0, 4.0], grid, center=5.0, limits=(2, 4)).images[0].norm
    np.testing.assert_allclose(norm([2.0, 3.5, 5.0]), [0, 0.25, 0.5])
    assert plot_heatmap([1.0, 1.0, 1.0], grid, center=1.0, limits=(1, 1)).images
    with pytest.raises(ValueError, match="limits must increase"):
        plot_heatmap([1.0, 2.0, 3.0], grid, limits=(3, 1))


def test_geojson_is_what_qupath_reads(tmp_path):
    path = tmp_path / "slide.geojson"
    made = to_geojson([0.5, -1.0], [[0, 10], [256, 10]], path=path, ids=["a", "b"])
    assert json.loads(path.read_text(encoding="utf-8")) == made
    first, second = made["features"]
    assert made["type"] == "FeatureCollection"
    ring = first["geometry"]["coordinates"][0]
    assert ring == [[0, 10], [256, 10], [256, 266], [0, 266], [0, 10]]
    assert first["properties"]["classification"]["name"] == "Positive"
    assert second["properties"]["classification"]["name"] == "Negative"
    assert second["properties"]["measurements"] == {"score": -1.0}
    assert second["properties"]["name"] == "b"


def test_refuses():
    with pytest.raises(ValueError, match=r"shape \(2, 2\)"):
        plot_heatmap([1.0, 2.0], [[0, 0]])
    with pytest.raises(ValueError, match="one bag"):
        plot_heatmap([], np.zeros((0, 2)))
    with pytest.raises(ValueError, match="finite"):
        plot_heatmap([np.nan], [[0, 0]])
    with pytest.raises(ValueError, match="size must be positive"):
        plot_heatmap([1.0], [[0, 0]], 0)
    with pytest.raises(ValueError, match="side of an instance"):
        plot_heatmap([1.0, 2.0, 3.0], [[0, 0], [1e7, 1e7], [0.5, 0.5]])
    with pytest.raises(ValueError, match="ids has 1"):
        to_geojson([1.0, 2.0], [[0, 0], [1, 0]], ids=["a"])
