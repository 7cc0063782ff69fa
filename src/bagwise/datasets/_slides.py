"""Simulated slides: patches on a plane whose features depend on the tissue."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from bagwise.bags import Bags, Ragged
from bagwise.datasets._generators import IntRange, check_count, check_range, offsets_of

TISSUES = ("stroma", "epithelium", "fat", "tumor")
_PATCH = 256


def make_slides(
    n_slides: int = 40,
    folder: str | os.PathLike[str] | None = None,
    *,
    slides_per_patient: IntRange = (1, 3),
    n_patches: IntRange = (150, 400),
    n_features: int = 32,
    tumor_share: tuple[float, float] = (0.02, 0.15),
    separation: float = 2.0,
    stain: float = 0.3,
    random_state: Any = None,
    return_instance_labels: bool = False,
) -> Any:
    """Simulate slides of tissue, as a replacement for a folder of real features.

    A slide is a blob of patches on a grid. Smooth fields decide which patches are
    stroma, epithelium or fat; slides of positive patients also have one to three
    round regions of tumor. A patch's features are the profile of its tissue, plus the
    stain of its slide, plus noise. All slides of a patient have the patient's label.

    Parameters
    ----------
    n_slides : int, default=40
        Number of slides.
    folder : path, default=None
        If given, every slide is also written there as an h5 file in half precision,
        with the datasets ``features`` and ``coords``, next to ``clini.csv`` with the
        columns ``slide_id``, ``patient_id`` and ``tumor``. Needs h5py.
    slides_per_patient : int or (int, int), default=(1, 3)
        Number of slides per patient, or its range.
    n_patches : int or (int, int), default=(150, 400)
        Number of patches per slide, or its range.
    n_features : int, default=32
        Number of features.
    tumor_share : (float, float), default=(0.02, 0.15)
        Range of the share of tumor patches in a slide of a positive patient.
    separation : float, default=2.0
        Distance between the profiles of tissues, in units of the noise.
    stain : float, default=0.3
        Standard deviation of the shift that all patches of a slide share.
    random_state : int, RandomState or None, default=None
        Random seed.
    return_instance_labels : bool, default=False
        Whether the tissue of each patch is returned, too.

    Returns
    -------
    X : Bags
        The slides, with patients as `groups` and the corners of patches as `coords`.
    y : ndarray of shape (n_slides,)
        1 for slides of patients with a tumor.
    tissue : Ragged
        1 for tumor patches. Only if `return_instance_labels`.

    Examples
    --------
    >>> from bagwise.datasets import make_slides
    >>> X, y = make_slides(6, random_state=0)
    >>> X.n_bags, X.coords.shape[1], len(set(X.groups)) < 6
    (6, 2, True)
    """
    n_slides = check_count(n_slides, "n_slides", least=2)
    n_features = check_count(n_features, "n_features", least=2)
    per_patient = check_range(slides_per_patient, "slides_per_patient")
    sizes = check_range(n_patches, "n_patches", least=20)
    low, high = tumor_share
    if not 0 < low <= high < 0.5:
        raise ValueError(f"tumor_share must satisfy 0 < a <= b < 0.5, got {low, high}.")
    rng = check_random_state(random_state)
    profiles = rng.normal(size=(len(TISSUES), n_features))
    profiles *= separation / np.linalg.norm(profiles, axis=1, keepdims=True)
    patient = _patients(n_slides, per_patient, rng)
    n_patients = int(patient[-1]) + 1
    positive = rng.permutation(np.arange(n_patients) % 2).astype(np.int64)
    rows, places, kinds = [], [], []
    for i in range(n_slides):
        size = int(rng.randint(sizes[0], sizes[1] + 1))
        share = rng.uniform(low, high) if positive[patient[i]] else 0.0
        where = _blob(size, rng)
        kind = _tissue(where, share, rng)
        features = profiles[kind] + rng.normal(size=(size, n_features))
        rows.append(features + stain * rng.normal(size=n_features))
        places.append(where * _PATCH)
        kinds.append(kind)
    y = positive[patient]
    X = Bags(
        np.concatenate(rows),
        offsets_of([len(r) for r in rows]),
        ids=np.array([f"slide_{i:03d}" for i in range(n_slides)], dtype=object),
        groups=np.array([f"patient_{p:03d}" for p in patient], dtype=object),
        coords=np.concatenate(places),
    )
    if folder is not None:
        _write(Path(folder), X, y)
    if not return_instance_labels:
        return X, y
    tumor = np.concatenate(kinds) == TISSUES.index("tumor")
    return X, y, Ragged(tumor.astype(np.int64), X.offsets)


def _patients(
    n_slides: int, per_patient: tuple[int, int], rng: np.random.RandomState
) -> npt.NDArray[np.int64]:
    """Return the patient of each slide, one after the other; at least two of them."""
    patient: list[int] = []
    while len(patient) < n_slides:
        count = int(rng.randint(per_patient[0], per_patient[1] + 1))
        if not patient:
            count = min(count, n_slides - 1)
        owner = patient[-1] + 1 if patient else 0
        patient += [owner] * min(count, n_slides - len(patient))
    return np.array(patient, dtype=np.int64)


def _blob(size: int, rng: np.random.RandomState) -> npt.NDArray[np.int64]:
    """Return `size` places of a grid that lie together in a wobbly disc."""
    reach = int(np.ceil(1.5 * np.sqrt(size))) + 2
    grid = np.stack(np.meshgrid(*[np.arange(-reach, reach + 1)] * 2), axis=-1)
    grid = grid.reshape(-1, 2)
    angle = np.arctan2(grid[:, 1], grid[:, 0])
    wobble = sum(
        rng.normal(scale=0.15) * np.cos(k * angle + rng.uniform(0, 2 * np.pi))
        for k in (1, 2, 3)
    )
    distance = np.hypot(grid[:, 0], grid[:, 1]) * (1.0 + np.clip(wobble, -0.5, 0.5))
    chosen = grid[np.argsort(distance, kind="stable")[:size]]
    return np.asarray(chosen - chosen.min(axis=0))


def _tissue(
    where: npt.NDArray[np.int64], share: float, rng: np.random.RandomState
) -> npt.NDArray[np.int64]:
    """Return the tissue of each place: smooth fields, and round regions of tumor."""
    span = where.max(axis=0) + 1.0
    fields = np.zeros((len(where), 3))
    for k in range(3):
        for _ in range(4):
            wave = rng.normal(size=2) * 2 * np.pi / span
            fields[:, k] += np.cos(where @ wave + rng.uniform(0, 2 * np.pi))
    kind = fields.argmax(axis=1)
    count = int(np.ceil(share * len(where)))
    if count:
        centers = where[rng.choice(len(where), size=rng.randint(1, 4), replace=False)]
        away = np.linalg.norm(where[:, None, :] - centers[None], axis=2).min(axis=1)
        kind[np.argsort(away, kind="stable")[:count]] = TISSUES.index("tumor")
    return np.asarray(kind, dtype=np.int64)


def _write(folder: Path, X: Bags, y: npt.NDArray[np.int64]) -> None:
    try:
        import h5py
    except ImportError:
        raise ImportError(
            'writing slides needs h5py: pip install "bagwise[h5]".'
        ) from None
    folder.mkdir(parents=True, exist_ok=True)
    assert X.coords is not None
    assert X.groups is not None
    lines = ["slide_id,patient_id,tumor"]
    for i, bag in enumerate(X):
        inside = slice(X.offsets[i], X.offsets[i + 1])
        with h5py.File(folder / f"{X.ids[i]}.h5", "w") as file:
            file["features"] = bag.astype(np.float16)
            file["coords"] = X.coords[inside].astype(np.int32)
            file["coords"].attrs["patch_size"] = _PATCH
        lines.append(f"{X.ids[i]},{X.groups[i]},{y[i]}")
    (folder / "clini.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
