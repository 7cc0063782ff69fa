"""Pictures of instances, from arrays, files and folders."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["as_images"]

MOST_BYTES = 200_000_000
LARGEST, SMALLEST = 128, 16
KINDS = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".gif", ".webp")


def as_images(images: Any, X: Any) -> NDArray[Any] | None:
    """Return one picture per instance.

    Parameters
    ----------
    images : array, path, list of paths or None
        One of

        - an array of shape (n_instances, height, width[, 3]), in the order of
          ``X.data``;
        - a ``.npy`` file with such an array, or a ``.npz`` file with one called
          "images" (or with one array only);
        - a list of picture files, one per instance;
        - a folder with a picture for each of ``X.instance_ids``, named after it.
    X : Bags
        The bags.

    Returns
    -------
    ndarray or None
        Pictures from files are shrunk, and padded to squares of 8-bit colours.
    """
    if images is None:
        return None
    if isinstance(images, str | os.PathLike):
        path = Path(images)
        if path.is_dir():
            return _read(_in_folder(path, X))
        images = _from_array_file(path)
    if isinstance(images, np.ndarray) and images.dtype.kind not in "OUS":
        return _checked(images, X)
    listed = [Path(one) for one in images]
    if len(listed) != X.n_instances:
        raise ValueError(
            f"images names {len(listed)} files for {X.n_instances} instances."
        )
    return _read(listed)


def _checked(images: NDArray[Any], X: Any) -> NDArray[Any]:
    if images.ndim not in (3, 4) or (
        images.ndim == 4 and images.shape[3] not in (3, 4)
    ):
        raise ValueError(
            "images must have shape (n_instances, height, width) or, in colour, (..., "
            f"3), got {images.shape}."
        )
    if len(images) != X.n_instances:
        raise ValueError(
            f"images has {len(images)} entries for {X.n_instances} instances."
        )
    return images[..., :3] if images.ndim == 4 else images


def _from_array_file(path: Path) -> NDArray[Any]:
    if not path.exists():
        raise FileNotFoundError(f"there is no file or folder of images at {path}.")
    if path.suffix == ".npy":
        return np.asarray(np.load(path, allow_pickle=False))
    if path.suffix != ".npz":
        raise ValueError(
            f"{path.name} holds no array: images are read from .npy, .npz, a folder, or"
            " a list of picture files."
        )
    with np.load(path, allow_pickle=False) as stored:
        names = list(stored)
        name = "images" if "images" in names else names[0]
        if name != "images" and len(names) > 1:
            raise ValueError(
                f"{path.name} holds {', '.join(names)}: none of them is called images."
            )
        return np.asarray(stored[name])


def _in_folder(folder: Path, X: Any) -> list[Path]:
    if X.instance_ids is None:
        raise ValueError(
            f"the pictures in {folder} are found by the ids of instances, which the "
            "bags lack: name a column of the table as instance id."
        )
    known = {
        key: path
        for path in sorted(folder.iterdir())
        if path.suffix.lower() in KINDS
        for key in (path.name, path.stem)
    }
    names = [str(one) for one in X.instance_ids]
    missing = [name for name in names if name not in known]
    if missing:
        raise FileNotFoundError(
            f"{folder} has no picture for {len(missing)} of {len(names)} instances, "
            f"the first of them {missing[0]!r}."
        )
    return [known[name] for name in names]


def _read(paths: list[Path]) -> NDArray[np.uint8]:
    """Read picture files, as large as fits into memory together."""
    from PIL import Image  # comes with matplotlib

    room = int(np.sqrt(MOST_BYTES / (3 * max(1, len(paths)))))
    side = int(np.clip(room, SMALLEST, LARGEST))
    made = np.full((len(paths), side, side, 3), 255, dtype=np.uint8)
    largest = 1
    for k, path in enumerate(paths):
        try:
            with Image.open(path) as opened:
                picture = opened.convert("RGB")
        except OSError as error:
            raise ValueError(f"{path} cannot be read as a picture: {error}") from None
        picture.thumbnail((side, side))
        width, height = picture.size
        largest = max(largest, width, height)
        top, left = (side - height) // 2, (side - width) // 2
        made[k, top : top + height, left : left + width] = np.asarray(picture)
    spare = (side - largest) // 2  # small pictures need no wide margins
    return made[:, spare : side - spare, spare : side - spare]
