"""Training records of model files: kept, checked and bounded."""

import numpy as np
import pytest

import bagwise
from bagwise.compose import SimpleMI
from bagwise.datasets import make_bags
from bagwise.io._schema import DamagedFile
from bagwise.io.record import ModelRecord, plain

HELD = {"truth": np.array([0, 1, 1]), "score": np.array([-1.0, 0.5, 2.0])}
REFERENCE = {
    "summaries": np.ones((4, 5)),
    "sizes": np.array([1, 2, 3, 4]),
    "low": np.zeros(2),
    "high": np.ones(2),
}
ABOUT = {"method": "SimpleMI", "params": {"C": 1.0}, "figures": [{"mean": 0.9}]}


def state(**changes):
    return {"about": ABOUT, "held_out": HELD, "reference": REFERENCE} | changes


def deep(depth):
    return {"a": deep(depth - 1)} if depth else 1


def test_a_record_is_a_part_of_a_model_file(tmp_path):
    X, y = make_bags(random_state=0)
    model = SimpleMI().fit(X, y)
    model.training_record_ = ModelRecord(ABOUT, HELD, REFERENCE)
    bagwise.save(model, tmp_path / "m.bagwise")
    found = bagwise.load(tmp_path / "m.bagwise")
    record = found.training_record_
    assert record.about == ABOUT
    for part, known in ((record.held_out, HELD), (record.reference, REFERENCE)):
        assert part.keys() == known.keys()
        for name, values in known.items():
            np.testing.assert_array_equal(part[name], values)
    np.testing.assert_array_equal(found.predict(X), model.predict(X))
    del model.training_record_
    bagwise.save(model, tmp_path / "plain.bagwise")
    assert not hasattr(bagwise.load(tmp_path / "plain.bagwise"), "training_record_")


@pytest.mark.parametrize(
    "changes",
    [
        {"about": [1]},
        {"about": {"model": SimpleMI()}},
        {"about": {"a": float("nan")}},
        {"about": {"a": "x" * 200_000}},
        {"about": {1: 2}},
        {"about": deep(20)},
        {"about": {"a": list(range(300_000))}},
        {"held_out": {"truth": HELD["truth"], "score": np.ones(4)}},
        {"held_out": {"secret": np.ones(3)}},
        {"held_out": {"score": np.array(["a", "b"])}},
        {"held_out": {"score": np.array([np.inf])}},
        {"held_out": {"score": np.ones((2, 2, 2))}},
        {"held_out": {"score": [1.0, 2.0]}},
        {"held_out": {"score": np.array([object()])}},
        {"held_out": {"score": np.empty(0)}},
        {"reference": {**REFERENCE, "sizes": np.array([1])}},
        {"reference": {**REFERENCE, "low": np.zeros(3)}},
        {"more": 1},
    ],
)
def test_what_is_no_record_is_refused(changes, tmp_path):
    with pytest.raises(DamagedFile):
        ModelRecord.from_state(state(**changes))


def test_a_record_that_could_not_be_loaded_is_not_saved(tmp_path):
    X, y = make_bags(random_state=0)
    model = SimpleMI().fit(X, y)
    model.training_record_ = ModelRecord({"a": float("inf")}, HELD, REFERENCE)
    with pytest.raises(ValueError, match="cannot be saved"):
        bagwise.save(model, tmp_path / "m.bagwise")
    assert not list(tmp_path.iterdir())


def test_values_become_plain():
    given = {"a": np.float64(2.0), 1: (np.nan, True, None), "b": np.arange(2)}
    assert plain(given) == {"a": 2.0, "1": [None, True, None], "b": [0, 1]}
