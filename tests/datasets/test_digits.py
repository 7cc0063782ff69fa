"""Digit bags: the label is what the images say."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from bagwise.datasets import load_digit_bags


@settings(max_examples=20, deadline=None)
@given(
    n_bags=st.integers(2, 60),
    positive=st.one_of(
        st.integers(0, 9), st.sets(st.integers(0, 9), min_size=1, max_size=9)
    ),
    low=st.integers(1, 8),
    more=st.integers(0, 6),
    witnesses=st.integers(1, 4),
    seed=st.integers(0, 1000),
)
def test_a_bag_is_positive_iff_it_holds_the_digit(
    n_bags, positive, low, more, witnesses, seed
):
    data = load_digit_bags(
        n_bags,
        positive=positive,
        bag_size=(low, low + more),
        n_witnesses=witnesses,
        random_state=seed,
    )
    chosen = {positive} if isinstance(positive, int) else positive
    assert data.X.n_bags == n_bags
    assert data.y.sum() == n_bags // 2
    for i in range(n_bags):
        held = [d in chosen for d in data.digits[i]]
        assert data.y[i] == any(held)
        assert data.instance_labels[i].tolist() == held
        assert low <= len(held) <= low + more
        if data.y[i]:
            assert sum(held) == min(witnesses, len(held))
    np.testing.assert_array_equal(data.images.reshape(-1, 64) / 16, data.X.data)


def test_images_are_those_of_scikit_learn_and_used_once():
    data = load_digit_bags()
    source = {image.tobytes(): d for image, d in zip(*_source(), strict=True)}
    shown = [image.tobytes() for image in data.images]
    assert [source[s] for s in shown] == data.digits.values.tolist()
    assert len(set(shown)) == len(shown) == data.X.n_instances


def _source():
    digits = load_digits()
    return digits.images, digits.target


def test_seed_fixes_everything():
    a, b, c = (load_digit_bags(30, random_state=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(a.X.data, b.X.data)
    np.testing.assert_array_equal(a.y, b.y)
    assert not np.array_equal(a.y, c.y) or a.X.n_instances != c.X.n_instances
    X, y = load_digit_bags(30, random_state=1, return_X_y=True)
    np.testing.assert_array_equal(X.data, a.X.data)
    np.testing.assert_array_equal(y, a.y)


def test_names_and_description():
    data = load_digit_bags(10, positive=(7, 3))
    assert data.target_names == ["no 3 or 7", "contains 3 or 7"]
    assert data.X.feature_names[9] == "pixel_1_1"
    assert "3 or 7" in data.DESCR


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_bags": 1}, "n_bags"),
        ({"positive": 10}, "positive"),
        ({"positive": range(10)}, "positive"),
        ({"positive": []}, "positive"),
        ({"bag_size": (0, 3)}, "bag_size"),
        ({"bag_size": (5, 3)}, "bag_size"),
        ({"n_witnesses": 0}, "n_witnesses"),
        ({"bag_size": (1.5, 2)}, "bag_size"),
    ],
)
def test_bad_parameters_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        load_digit_bags(**arguments)
