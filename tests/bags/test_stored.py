"""Bags whose instances stay on disk: selections, half precision, pieces, memory."""

import numpy as np
import pytest

from bagwise.bags import Bags, _bags, check_bags
from bagwise.bags import chunks as _chunks
from bagwise.bags import stored as _stored
from bagwise.bags.chunks import Chunks, larger_than_chunk
from bagwise.bags.stored import StoredRows, map_behind, temporary_map


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """The same bags in memory and as a map of half precision, nothing being small."""
    monkeypatch.setattr(_stored, "COPIED_BELOW", 0)
    monkeypatch.setattr(_chunks, "_CHUNK_BYTES", 4 * 3 * 12)
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 8, 20)
    rows = rng.normal(size=(sizes.sum(), 3)).astype(np.float16)
    np.save(tmp_path / "rows.npy", rows)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    coords = rng.normal(size=(len(rows), 2))
    plain = Bags(rows.astype(np.float32), offsets, coords=coords)
    return plain, Bags(mapped, offsets, coords=coords)


def test_half_precision_stays_on_disk(stored):
    plain, X = stored
    assert X.dtype == np.float16
    assert X.on_disk
    assert not plain.on_disk
    assert larger_than_chunk(X)
    assert map_behind(X[3:9]._stacked) is map_behind(X._stacked)
    np.testing.assert_array_equal(X.data, plain.data)


@pytest.mark.parametrize(
    "key",
    [
        np.array([4, 5, 6, 2, 19, 0]),
        np.arange(20) % 3 == 0,
        slice(None, None, 2),
        slice(18, 3, -4),
        np.array([7]),
        np.array([7, 7, 8, 7]),
    ],
    ids=["array", "mask", "step", "backwards", "one", "repeated"],
)
def test_selections_read_nothing_and_are_right(stored, key):
    plain, X = stored
    part, expected = X[key], plain[key]
    assert isinstance(part._stacked, StoredRows)
    assert part._stacked.source is X._stacked
    np.testing.assert_array_equal(part.data, expected.data)
    np.testing.assert_array_equal(part.offsets, expected.offsets)
    np.testing.assert_array_equal(part.coords, expected.coords)
    for one, other in zip(part, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    rows = np.random.default_rng(1).integers(0, part.n_instances, 15)
    taken = part.take_rows(rows)
    assert taken.dtype == np.float32
    np.testing.assert_array_equal(taken, expected.data[rows])
    again = np.arange(len(part))[::-1]
    np.testing.assert_array_equal(part[again].data, expected[again].data)
    inner = slice(len(part) // 3, len(part))
    np.testing.assert_array_equal(part[inner].data, expected[inner].data)


def test_pieces_are_whole_bags_in_single_precision(stored):
    plain, X = stored
    y, weight = np.arange(20), np.linspace(1.0, 2.0, 20)
    for bags, same in ((X, plain), (X[::2], plain[::2])):
        chosen = np.arange(20) if bags is X else np.arange(0, 20, 2)
        pieces = list(Chunks(bags, y[chosen], weight[chosen]))
        assert len(pieces) > 3
        joined = Bags.concatenate([piece.X for piece in pieces])
        assert joined.dtype == np.float32
        np.testing.assert_array_equal(joined.data, same.data)
        np.testing.assert_array_equal(joined.offsets, same.offsets)
        np.testing.assert_array_equal(np.concatenate([p.y for p in pieces]), y[chosen])
    total, count = Chunks(X, y, weight).sum(
        lambda piece: (piece.X.data.sum(axis=0, dtype=float), piece.X.n_bags)
    )
    np.testing.assert_allclose(total, plain.data.sum(axis=0, dtype=float), atol=1e-5)
    assert count == 20


def test_checks_bring_bags_into_memory_for_those_who_need_it(stored, monkeypatch):
    plain, X = stored
    for bags, same in ((X, plain), (X[::2], plain[::2])):
        kept = check_bags(bags, accept_sparse=True, chunked=True)
        assert kept._stacked is bags._stacked
        copied = check_bags(bags, accept_sparse=True)
        assert not copied.on_disk
        assert copied.dtype == np.float32
        np.testing.assert_array_equal(copied.data, same.data)
    monkeypatch.setenv("BAGWISE_MEMORY", "1B")
    with pytest.raises(ValueError, match=r"instances of 20 bags would take.*chunks"):
        check_bags(X, accept_sparse=True)


@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "infinity")])
def test_what_is_not_finite_is_named(tmp_path, value, word):
    rows = np.ones((6, 2), dtype=np.float16)
    rows[4, 1] = value
    np.save(tmp_path / "rows.npy", rows)
    X = Bags(np.load(tmp_path / "rows.npy", mmap_mode="r"), [0, 2, 6])
    with pytest.raises(ValueError, match=f"{word}: bag 1, instance 2, column 1"):
        check_bags(X, accept_sparse=True, chunked=True)


def test_changes_of_a_copy_on_write_map_survive(tmp_path):
    np.save(tmp_path / "rows.npy", np.zeros((6, 2)))
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="c")
    mapped[:] = 3.0
    X = Bags(mapped, [0, 2, 6])
    assert [float(chunk.data.mean()) for chunk in X.iter_chunks(2)] == [3.0, 3.0]
    np.testing.assert_array_equal(X.data, 3.0)


def test_temporary_maps_leave_no_file(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    out = temporary_map((5, 2), np.float32)
    out[:] = 4.0
    assert not list(tmp_path.iterdir())
    np.testing.assert_array_equal(out, 4.0)


def test_many_rows_are_read_a_few_at_a_time(stored, monkeypatch):
    plain, X = stored
    forgotten = []
    monkeypatch.setattr(_bags, "_ROWS_AT_ONCE", 7)
    monkeypatch.setattr(_bags, "forget_pages", forgotten.append)
    rows = np.random.default_rng(0).permutation(X.n_instances)
    found = X.take_rows(rows)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, plain.data[rows])
    assert len(forgotten) == -(-len(rows) // 7)
    part = X[[3, 1, 7]]
    rows = np.arange(part.n_instances)[::-1]
    np.testing.assert_array_equal(part.take_rows(rows), plain[[3, 1, 7]].data[rows])
