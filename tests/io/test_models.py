"""Model files: faithful, safe by default, and honest about damage."""

import io
import json
import os
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
import skops.io
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import FunctionTransformer

import bagwise
from bagwise.bags import Bags, Ragged
from bagwise.compose import SimpleMI
from bagwise.datasets import make_bags
from bagwise.io._models import load, save

X, y = make_bags(20, random_state=0)


class Foreign(BaseEstimator):
    """An estimator that no library knows."""


def shout():
    """Return nothing; a function of this module."""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.skops"


@pytest.mark.parametrize(
    "model",
    [
        SimpleMI(LogisticRegression()),
        SimpleMI(RandomForestClassifier(3, random_state=0)),
        CalibratedClassifierCV(SimpleMI(LogisticRegression()), cv=2),
    ],
    ids=["linear", "forest", "calibrated"],
)
def test_round_trip(model, path):
    model.fit(X, y)
    save(model, path)
    again = load(path)
    assert type(again) is type(model)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert os.listdir(path.parent) == [path.name]


def test_bags_and_ragged_survive(path):
    model = LogisticRegression()
    ids = np.array([f"bag {i}" for i in range(20)], dtype=object)
    model.dense_ = X
    model.sparse_ = Bags(
        sp.csr_array(X.data), X.offsets, ids=ids, feature_names=list("abcde")
    )
    model.scores_ = Ragged(X.data[:, 0], X.offsets)
    save(model, path)
    again = load(path)
    np.testing.assert_array_equal(again.dense_.data, X.data)
    np.testing.assert_array_equal(again.sparse_.data.toarray(), X.data)
    np.testing.assert_array_equal(again.sparse_.offsets, X.offsets)
    assert again.sparse_.ids.tolist() == ids.tolist()
    assert again.sparse_.feature_names.tolist() == list("abcde")
    np.testing.assert_array_equal(again.scores_[3], model.scores_[3])


def test_untrusted_types_are_refused_by_name(path):
    save(Foreign(), path)
    with pytest.raises(ValueError, match=r"not trusted: .*test_models\.Foreign"):
        load(path)
    name = f"{Foreign.__module__}.Foreign"
    assert isinstance(load(path, trusted=[name]), Foreign)
    assert isinstance(load(path, trusted=[Foreign]), Foreign)


@pytest.mark.parametrize("bad", [True, "sklearn.svm.SVC"])
def test_trusted_must_be_a_list(path, bad):
    save(LogisticRegression(), path)
    with pytest.raises(TypeError, match="list of type names"):
        load(path, trusted=bad)


@pytest.mark.parametrize(
    "name",
    [
        ("os", "system"),
        ("builtins", "eval"),
        ("numpy.testing._private.utils", "runstring"),
        ("bagwise.io._models", "load"),
        ("bagwise.datasets._fetch", "fetch"),
        ("sklearn.datasets", "fetch_openml"),
        ("scipy.sparse", "save_npz"),
    ],
)
def test_functions_in_a_crafted_file_are_refused(path, name):
    """Neither built nor, outside the trusted packages, even imported."""
    save(FunctionTransformer(np.sqrt), path)
    _edit_schema(path, {"__class__": "sqrt"}, name)
    with pytest.raises(ValueError, match=r"not trusted: .*" + name[1]):
        load(path)


def _edit_schema(path, where, name):
    """Make the file name another object where a node has these entries."""

    def visit(node):
        if isinstance(node, dict):
            if where.items() <= node.items():
                node["__module__"], node["__class__"] = name
            for child in node.values():
                visit(child)
        elif isinstance(node, list):
            for child in node:
                visit(child)

    with zipfile.ZipFile(path) as archive:
        members = {n: archive.read(n) for n in archive.namelist()}
    schema = json.loads(members["schema.json"])
    visit(schema)
    members["schema.json"] = json.dumps(schema).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for member, raw in members.items():
            archive.writestr(member, raw)


def test_version_is_recorded_and_compared(path, monkeypatch):
    save(LogisticRegression(), path)
    with zipfile.ZipFile(path) as archive:
        assert bagwise.__version__ in archive.read("schema.json").decode()
    monkeypatch.setattr("bagwise._version.__version__", "99.0")
    with pytest.warns(UserWarning, match=r"written by bagwise .* this is 99\.0"):
        load(path)


def test_lambda_is_refused_when_saving(path):
    with pytest.raises(ValueError, match="lambda"):
        save(FunctionTransformer(lambda v: v), path)
    assert os.listdir(path.parent) == []


def test_function_of_a_module_is_saved_but_not_trusted(path):
    save(FunctionTransformer(shout), path)
    with pytest.raises(ValueError, match=r"test_models\.shout"):
        load(path)


def test_other_files_are_refused(path):
    path.write_bytes(b"")
    with pytest.raises(ValueError, match=r"model\.skops: the file is empty"):
        load(path)
    path.write_text("bag,label\n1,2\n")
    with pytest.raises(ValueError, match="no model file"):
        load(path)
    skops.io.dump(LogisticRegression(), path)
    with pytest.raises(ValueError, match=r"no model file written by bagwise\.save"):
        load(path)
    with pytest.raises(FileNotFoundError):
        load(path.parent / "absent.skops")


def test_existing_file_survives_a_failed_save(path):
    save(LogisticRegression(C=3.0), path)
    with pytest.raises(ValueError, match="lambda"):
        save(FunctionTransformer(lambda v: v), path)
    assert load(path).C == 3.0


def _saved_bytes():
    buffer = io.BytesIO()
    record = {
        "format": "bagwise-model",
        "bagwise_version": bagwise.__version__,
        "model": SimpleMI(LogisticRegression()).fit(X, y),
    }
    skops.io.dump(record, buffer, compression=zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


RAW = _saved_bytes()


@settings(max_examples=40, deadline=None)
@given(st.floats(0, 1, exclude_max=True))
def test_truncated_files_are_refused(tmp_path_factory, share):
    path = tmp_path_factory.mktemp("cut") / "m.skops"
    path.write_bytes(RAW[: int(share * len(RAW))])
    with pytest.raises(ValueError, match=r"m\.skops"):
        load(path)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(RAW) - 1), st.integers(1, 255))
def test_damaged_files_are_refused_or_harmless(tmp_path_factory, place, change):
    """A flipped byte gives the error or, in unused zip fields, the same model."""
    raw = bytearray(RAW)
    raw[place] ^= change
    path = tmp_path_factory.mktemp("flip") / "m.skops"
    path.write_bytes(raw)
    try:
        scores = load(path).decision_function(X)
    except ValueError as error:
        message = str(error)
    else:
        message = "m.skops"
        expected = SimpleMI(LogisticRegression()).fit(X, y).decision_function(X)
        np.testing.assert_array_equal(scores, expected)
    assert "m.skops" in message


def test_offsets_out_of_range_are_refused(path):
    model = LogisticRegression()
    broken = Bags(X.data, X.offsets)
    broken._offsets = np.array([0, 3, 10**9])
    model.bags_ = broken
    save(model, path)
    with pytest.raises(ValueError, match="damaged"):
        load(path)


def test_tree_that_points_outside_is_refused(path):
    model = RandomForestClassifier(1, random_state=0).fit(X.data, X.data[:, 0] > 0)
    tree = model.estimators_[0].tree_
    state = tree.__getstate__()
    nodes = state["nodes"].copy()
    nodes["left_child"][0] = 10**6
    # scikit-learn itself refuses some broken states; both refusals are fine.
    state["nodes"] = nodes
    tree.__setstate__(state)
    save(model, path)
    with pytest.raises(ValueError, match="damaged"):
        load(path)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [("feature_idx", 99, "feature"), ("left", 0, "outside"), ("right", 999, "outside")],
)
def test_boosted_tree_that_points_outside_is_refused(path, field, value, message):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 3))
    model = HistGradientBoostingClassifier(max_iter=2, min_samples_leaf=5)
    model.fit(rows, rows[:, 0] > 0)
    save(model, path)
    np.testing.assert_array_equal(load(path).predict(rows), model.predict(rows))
    model._predictors[0][0].nodes[field][0] = value
    save(model, path)
    with pytest.raises(ValueError, match=message):
        load(path)
