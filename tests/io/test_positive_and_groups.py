"""The positive one of two labels, and columns that tell what belongs together."""

import warnings

import numpy as np
import pandas as pd
import pytest

from bagwise.exceptions import DataWarning, ParameterError
from bagwise.io import from_frame, read_bags


def table(n_bags=12, size=3):
    """Return rows of bags with words as labels, and four columns about bags."""
    bag = np.repeat(np.arange(n_bags), size)
    return pd.DataFrame(
        {
            "mol": [f"m{b}" for b in bag],
            "what": np.where(bag % 2 == 1, "active", "inactive"),
            "scaffold": [f"s{b // 2}" for b in bag],
            "mixture": bag // 2,
            "sex": bag % 2,
            "u": np.linspace(0, 1, len(bag)),
        }
    )


@pytest.mark.parametrize("positive", ["active", "inactive"])
def test_the_positive_label_becomes_one(tmp_path, positive):
    frame = table().drop(columns=["scaffold", "mixture"])
    path = tmp_path / "t.csv"
    frame.to_csv(path, index=False)
    words = from_frame(frame, "mol", "what")[1]
    weighted = {"weight": "sex", "pos_label": positive}
    for found in (
        from_frame(frame, "mol", "what", pos_label=positive)[1],
        read_bags(path, "mol", "what", pos_label=positive)[1],
        read_bags(path, "mol", "what", **weighted)[1],
    ):
        assert found.dtype == np.int64
        np.testing.assert_array_equal(found == 1, words == positive)


def test_numbers_may_be_written_as_text():
    frame = table().drop(columns=["scaffold", "mixture"])
    plain = from_frame(frame, "mol", "sex", drop=["what"])[1]
    for positive in (0, "0"):
        y = from_frame(frame, "mol", "sex", drop=["what"], pos_label=positive)[1]
        np.testing.assert_array_equal(y, 1 - plain)


@pytest.mark.parametrize(
    ("label", "positive", "message"),
    [
        ("what", "aktiv", "'aktiv', which is not one of .* 'active', 'inactive'"),
        ("scaffold", "s1", "one of two labels, .*there are 6: 's0', 's1'"),
        (None, "active", "no label column. Give label="),
    ],
)
def test_positive_labels_that_cannot_be_meant(tmp_path, label, positive, message):
    path = tmp_path / "t.csv"
    table().to_csv(path, index=False)
    for source in (table(), path):
        read = from_frame if source is not path else read_bags
        with pytest.raises(ValueError, match=message):
            read(source, "mol", label, pos_label=positive, features=["u"])


def test_several_labels_in_an_archive(tmp_path):
    y = np.array([[0, 1], [1, 0], [1, 1]])
    np.savez(tmp_path / "t.npz", X=np.ones((3, 2, 1)), y=y)
    X, found = read_bags(tmp_path / "t.npz")
    assert X.n_bags == 3
    np.testing.assert_array_equal(found, y)
    with pytest.raises(ParameterError, match="one of two labels"):
        read_bags(tmp_path / "t.npz", pos_label=1)


def test_numbers_of_any_name_may_be_a_group():
    frame = table().drop(columns="scaffold")
    with pytest.warns(DataWarning, match=r"'mixture' \(whole numbers shared") as said:
        X, _ = from_frame(frame, "mol", "what")
    assert X.n_features == 3
    (message,) = (str(w.message) for w in said)
    assert "group='mixture'" in message
    assert "'sex'" not in message  # two values are a property, and no folds
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        from_frame(frame, "mol", "what", group="mixture")
        # Where bags are single rows, every column has one value in every bag.
        single = pd.DataFrame({"mol": np.arange(40), "u": np.arange(40) // 2 % 7})
        from_frame(single, "mol")


@pytest.mark.parametrize("as_file", [False, True])
def test_a_group_that_is_left_out_is_named(tmp_path, as_file):
    frame = table().drop(columns="mixture")
    path = tmp_path / "t.csv"
    frame.to_csv(path, index=False)
    source, read = (path, read_bags) if as_file else (frame, from_frame)
    with pytest.warns(DataWarning, match="split across folds") as said:
        X, _ = read(source, "mol", "what", drop=["scaffold"])
    assert X.feature_names.tolist() == ["sex", "u"]
    assert said[0].message.settings == (("group", "scaffold"),)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(source, "mol", "what", group="scaffold")
        read(source, "mol", "what", features=["u"])
        # One that differs inside bags, or is that of each bag, groups nothing.
        mixed = frame.assign(scaffold=np.arange(len(frame)) % 2)
        from_frame(mixed, "mol", "what", drop=["scaffold"])
        own = frame.assign(scaffold=frame["mol"])
        from_frame(own, "mol", "what", drop=["scaffold"])
