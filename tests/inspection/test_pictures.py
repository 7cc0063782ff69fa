"""Images from arrays, files and folders."""

import numpy as np
import pytest
from PIL import Image

from bagwise import Bags
from bagwise.inspection.pictures import as_images

X = Bags(np.zeros((3, 2)), [0, 2, 3], instance_ids=["p1", "p2", "p3"])


def test_arrays_and_array_files_are_the_same(tmp_path):
    pictures = np.arange(3 * 4 * 5).reshape(3, 4, 5)
    np.save(tmp_path / "a.npy", pictures)
    np.savez(tmp_path / "b.npz", images=pictures, other=np.zeros(2))
    np.savez(tmp_path / "c.npz", pixels=pictures)
    for given in (pictures, tmp_path / "a.npy", str(tmp_path / "b.npz")):
        np.testing.assert_array_equal(as_images(given, X), pictures)
    np.testing.assert_array_equal(as_images(tmp_path / "c.npz", X), pictures)
    assert as_images(None, X) is None
    color = np.zeros((3, 4, 4, 4), dtype=np.uint8)
    assert as_images(color, X).shape == (3, 4, 4, 3)


def test_files_in_a_list_or_a_folder(tmp_path):
    shades = {"p1": (255, 0, 0), "p2": (0, 255, 0), "p3": (0, 0, 255)}
    for k, (name, shade) in enumerate(shades.items()):
        picture = Image.new("RGB", (40 + 10 * k, 300), shade)
        picture.save(tmp_path / f"{name}.png")
    listed = [tmp_path / f"{name}.png" for name in shades]
    for given in (listed, [str(path) for path in listed], tmp_path):
        made = as_images(given, X)
        assert made.dtype == np.uint8
        side = made.shape[1]
        assert made.shape == (3, side, side, 3)
        for one, shade in zip(made, shades.values(), strict=True):
            assert tuple(one[side // 2, side // 2]) == shade
            assert tuple(one[side // 2, 0]) == (255, 255, 255)  # padded


def test_small_pictures_get_no_wide_margins(tmp_path):
    for k, size in enumerate(((8, 14), (5, 5), (13, 2))):
        Image.new("L", size, 10 * k).save(tmp_path / f"p{k + 1}.png")
    made = as_images(tmp_path, X)
    assert made.shape == (3, 14, 14, 3)
    for k, (width, height) in enumerate(((8, 14), (5, 5), (13, 2))):
        assert (made[k] == 10 * k).sum() == 3 * width * height
        assert (made[k, 7, 7] == 10 * k).all()


def test_refuses(tmp_path):
    with pytest.raises(ValueError, match="2 entries for 3"):
        as_images(np.zeros((2, 4, 4)), X)
    with pytest.raises(ValueError, match="shape"):
        as_images(np.zeros((3, 4)), X)
    with pytest.raises(FileNotFoundError, match="nothing"):
        as_images(tmp_path / "nothing.npz", X)
    np.savez(tmp_path / "d.npz", a=np.zeros(2), b=np.zeros(2))
    with pytest.raises(ValueError, match="a, b"):
        as_images(tmp_path / "d.npz", X)
    (tmp_path / "p1.png").write_text("no picture", encoding="utf-8")
    with pytest.raises(FileNotFoundError, match="2 of 3 instances.*'p2'"):
        as_images(tmp_path, X)
    with pytest.raises(ValueError, match="1 files for 3"):
        as_images([tmp_path / "p1.png"], X)
    with pytest.raises(ValueError, match="cannot be read"):
        as_images([tmp_path / "p1.png"] * 3, X)
    nameless = Bags(np.zeros((3, 2)), [0, 2, 3])
    with pytest.raises(ValueError, match="instance ids"):
        as_images(tmp_path, nameless)
    (tmp_path / "x.txt").write_text("", encoding="utf-8")
    with pytest.raises(ValueError, match="list of image files"):
        as_images(tmp_path / "x.txt", X)
