"""Drawn slides: what they promise, and that they come back from their files."""

import numpy as np
import pytest

from bagwise.datasets import make_slides
from bagwise.io import read_bags


def test_patients_share_labels_and_regions_hold_together():
    X, y, tumor = make_slides(20, random_state=0, return_instance_labels=True)
    assert X.n_bags == 20
    patients = {}
    for group, label in zip(X.groups, y, strict=True):
        patients.setdefault(group, set()).add(label)
    assert all(len(labels) == 1 for labels in patients.values())
    assert len(patients) < 20
    assert {label for labels in patients.values() for label in labels} == {0, 1}
    for i, part in enumerate(tumor):
        share = part.mean()
        assert (share > 0) == bool(y[i])
        assert share <= 0.15 + 1 / len(part)
        places = X[[i]].coords / 256
        assert len(np.unique(places, axis=0)) == len(places)
        if share:
            # A region: nearly every tumor patch has another beside it.
            inside = places[part == 1]
            gaps = np.abs(inside[:, None] - inside[None]).max(axis=2)
            np.fill_diagonal(gaps, np.inf)
            assert (gaps.min(axis=1) == 1).mean() > 0.5 or len(inside) < 5


def test_features_depend_on_tissue():
    X, _, tumor = make_slides(
        10, separation=4.0, random_state=1, return_instance_labels=True
    )
    inside = X.data[tumor.values == 1].mean(axis=0)
    outside = X.data[tumor.values == 0].mean(axis=0)
    assert np.linalg.norm(inside - outside) > 2.0


def test_same_seed_same_slides():
    first, again = (make_slides(4, random_state=3)[0] for _ in range(2))
    np.testing.assert_array_equal(first.data, again.data)
    np.testing.assert_array_equal(first.coords, again.coords)


def test_files_come_back(tmp_path):
    pytest.importorskip("h5py")
    X, y = make_slides(6, tmp_path, n_patches=40, random_state=0)
    again, labels = read_bags(
        tmp_path,
        labels=tmp_path / "clini.csv",
        bag="slide_id",
        label="tumor",
        group="patient_id",
    )
    np.testing.assert_array_equal(again.data, X.data.astype(np.float16))
    np.testing.assert_array_equal(again.coords, X.coords)
    assert again.groups.tolist() == X.groups.tolist()
    assert labels.tolist() == y.tolist()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"n_slides": 1}, "n_slides"),
        ({"tumor_share": (0.3, 0.2)}, "tumor_share"),
        ({"n_patches": 5}, "n_patches"),
    ],
)
def test_bad_arguments(given, message):
    with pytest.raises(ValueError, match=message):
        make_slides(**{"n_slides": 4, **given})
