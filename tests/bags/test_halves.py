"""Half precision against NumPy's own conversion."""

import numpy as np

from bagwise import Bags
from bagwise.bags.chunks import Chunks
from bagwise.bags.stored import all_finite, widened

EVERY = np.arange(2**16, dtype=np.uint16).view(np.float16)


def test_every_half_is_converted_exactly():
    expected = EVERY.astype(np.float32)
    for array in (EVERY, EVERY.reshape(256, 256), EVERY[::-1], EVERY.astype(">f2")):
        found = widened(array)
        same = array.astype(np.float32)
        assert found.dtype == np.float32
        assert found.shape == array.shape
        np.testing.assert_array_equal(found, same)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(same))
    assert np.isnan(expected).sum() == np.isnan(widened(EVERY)).sum() > 0


def test_finite_or_not():
    finite = EVERY[np.isfinite(EVERY)]
    assert all_finite(finite)
    assert all_finite(finite[::2])
    for place in (0, 70_000, 99_999):
        for bad in (np.inf, -np.inf, np.nan):
            rows = np.resize(finite, 100_000)
            rows[place] = bad
            assert not all_finite(rows)
            assert not all_finite(np.stack([rows, rows], axis=1)[:, 0])


def test_chunks_that_are_kept_do_not_change(tmp_path, monkeypatch):
    monkeypatch.setattr("bagwise.bags.chunks._CHUNK_BYTES", 4 * 4 * 20)
    rows = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float16)
    np.save(tmp_path / "rows.npy", rows)
    X = Bags(np.load(tmp_path / "rows.npy", mmap_mode="r"), 10 * np.arange(21))
    kept = list(Chunks(X))
    assert len(kept) == 10
    np.testing.assert_array_equal(np.concatenate([p.X.data for p in kept]), rows)
    for one, piece in zip(kept, Chunks(X), strict=True):
        np.testing.assert_array_equal(piece.X.data, one.X.data)
