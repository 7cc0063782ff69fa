"""A second table with one row per bag, joined to the instances."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import bagwise
from bagwise.comparison.leaks import find_leaks
from bagwise.comparison.problem import as_problem
from bagwise.compose import SimpleMI
from bagwise.exceptions import (
    DataError,
    DataWarning,
    ParameterError,
    UnknownColumnError,
)

ROWS = pd.DataFrame(
    {
        "customer": [3, 1, 1, 2, 3],
        "amount": [5.0, 1.0, 2.0, 4.0, 7.0],
        "shop": ["a", "b", "a", "c", "b"],
    }
)
OWN = pd.DataFrame(
    {
        "customer": [1, 2, 3],
        "age": [30.5, 40.0, 50.0],
        "region": ["north", "south", "north"],
        "fraud": ["no", "yes", "no"],
        "house": ["x", "y", "z"],
    }
)
ROLES = {"bag": "customer", "label": "fraud", "group": "house", "encode": "auto"}


def write(folder, rows=ROWS, own=OWN, suffix=".csv"):
    paths = folder / f"rows{suffix}", folder / f"own{suffix}"
    for table, path in zip((rows, own), paths, strict=True):
        if suffix == ".xlsx":
            pytest.importorskip("openpyxl")
            table.to_excel(path, index=False)
        elif suffix == ".parquet":
            table.to_parquet(path)
        else:
            table.to_csv(path, index=False)
    return paths


def same(found, expected):
    (X, y), (other, labels) = found, expected
    np.testing.assert_array_equal(X.decoded(), other.decoded())
    assert X.feature_names.tolist() == other.feature_names.tolist()
    assert X.ids.tolist() == other.ids.tolist()
    assert X.groups.tolist() == other.groups.tolist()
    assert list(y) == list(labels)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".xlsx"])
def test_equal_to_a_join_by_hand(tmp_path, suffix):
    expected = bagwise.from_frame(ROWS.merge(OWN, on="customer", how="left"), **ROLES)
    assert expected[0].ids.tolist() == [3, 1, 2]
    rows, own = write(tmp_path, suffix=suffix)
    same(bagwise.read_bags(rows, bag_features=own, **ROLES), expected)
    same(bagwise.read_bags(rows, bag_features=OWN, **ROLES), expected)
    same(bagwise.from_frame(ROWS, bag_features=OWN, **ROLES), expected)


def test_embeddings_see_the_columns_of_bags():
    X, y = bagwise.from_frame(
        ROWS.drop(columns="shop"),
        *("customer", "fraud"),
        bag_features=OWN,
        drop=["house", "region"],
    )
    model = SimpleMI(LogisticRegression()).fit(X, y)
    rows = np.array([[6.0, 50.0], [1.5, 30.5], [4.0, 40.0]])
    plain = LogisticRegression().fit(rows, y)
    np.testing.assert_allclose(
        model.decision_function(X), plain.decision_function(rows)
    )


def test_a_stack_learns_from_columns_of_bags():
    rng = np.random.default_rng(0)
    age = rng.normal(size=40)
    rows = pd.DataFrame({"bag": np.repeat(np.arange(40), 3), "u": rng.normal(size=120)})
    own = pd.DataFrame({"bag": np.arange(40), "age": age, "y": (age > 0).astype(int)})
    X, y = bagwise.from_frame(rows, "bag", "y", bag_features=own)
    model = bagwise.BagClassifier(random_state=0).fit(X[:30], y[:30])
    assert model.score(X[30:], y[30:]) >= 0.9


def test_columns_of_bags_are_no_surprise():
    """They are constant within bags on purpose: compare does not warn of them."""
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    own = pd.DataFrame({"bag": np.arange(40), "y": y})
    own["age"] = rng.integers(20, 60, 40)
    rows = pd.DataFrame({"bag": np.repeat(own.bag, 2), "u": rng.normal(size=80)})
    X, labels = bagwise.from_frame(rows, "bag", "y", bag_features=own)
    assert X.bag_features == ("age",)
    find_leaks(as_problem(X[:30], labels[:30])).warn()
    with pytest.warns(DataWarning, match="'age' .whole numbers shared"):
        merged = bagwise.from_frame(rows.merge(own, on="bag"), "bag", "y")
    found = find_leaks(as_problem(*merged))
    with pytest.warns(DataWarning, match="'age'"):
        found.warn()


def test_all_problems_in_one_message(tmp_path):
    own = pd.concat([OWN.iloc[:2], OWN.iloc[:1]])
    rows = ROWS.assign(customer=[3, 1, 1, 2, 4])
    paths = write(tmp_path, rows, own)
    with pytest.raises(DataError) as caught:
        bagwise.read_bags(paths[0], bag_features=paths[1], **ROLES)
    message = str(caught.value)
    assert "two rows of one bag (1): '1' in line 4" in message
    assert "no row for the bag (2): '3', '4'" in message
    encoded = {**ROLES, "encode": ["shop", "region"]}
    with pytest.warns(DataWarning, match="left out"):
        X, y = bagwise.read_bags(
            paths[0], bag_features=paths[1], on_missing="drop", **encoded
        )
    assert X.ids.tolist() == [1, 2]
    assert y.tolist() == ["no", "yes"]


def test_what_is_refused(tmp_path):
    with pytest.raises(DataError, match="'amount' in both tables"):
        bagwise.from_frame(ROWS, bag_features=OWN.assign(amount=1.0), **ROLES)
    with pytest.raises(UnknownColumnError, match="no column 'customer'"):
        bagwise.from_frame(ROWS, bag_features=OWN.rename(columns=str.upper), **ROLES)
    with pytest.raises(UnknownColumnError, match="no column 'fruad'"):
        bagwise.from_frame(ROWS, bag_features=OWN, **{**ROLES, "label": "fruad"})
    with pytest.raises(ParameterError, match="bag_features"):
        bagwise.read_bags(tmp_path / "x.npz", bag_features=OWN)
    with pytest.warns(
        DataWarning, match="1 rows belong to bags without instances.*'2'"
    ):
        bagwise.from_frame(ROWS[ROWS.customer != 2], bag_features=OWN, **ROLES)
    gaps = OWN.assign(age=[30.5, None, 50.0])
    rows, own = write(tmp_path, ROWS, gaps)
    with pytest.raises(DataError, match=r"'age' \(1 of 5, first in line 5\)"):
        bagwise.read_bags(rows, bag_features=own, **ROLES)
