import io
import os
import sqlite3

import numpy as np
import pytest
from toy_methods import toy

from bagwise.comparison.description import run_key
from bagwise.comparison.run_one import Outcome
from bagwise.comparison.store import COLUMNS, Store, StoreError


def outcome(value=0.5):
    return Outcome(
        "ok",
        {"accuracy": value, "auroc": None},
        {"fit": 0.1, "tune": 0.2, "predict": 0.3},
        1234,
        {"C": 1.0},
        {"test": np.arange(3), "score": np.array([0.1, -0.2, value])},
        ["Warning: once"],
    )


@pytest.fixture
def runs(toy_runs):
    return {run_key(run): run for run in toy_runs(toy("a"), toy("b"))}


def test_a_row_comes_back_as_it_went_in(tmp_path, runs):
    key, run = next(iter(runs.items()))
    with Store(tmp_path / "s.sqlite") as store:
        put = store.put(key, run, outcome())
    with Store(tmp_path / "s.sqlite") as store:
        (row,) = store.rows()
        arrays = store.arrays(key)
    assert row == put
    assert row["accuracy"] == 0.5
    assert row["auroc"] is None
    assert row["params"] == {"C": 1.0}
    assert row["description"]["fold"] == run.fold
    assert row["data_hash"] == run.data.hash
    np.testing.assert_array_equal(arrays["score"], [0.1, -0.2, 0.5])


def test_a_result_stays_and_a_failure_gives_way(tmp_path, runs):
    (first, run), (second, other) = list(runs.items())[:2]
    with Store(tmp_path / "s.sqlite") as store:
        store.put(first, run, outcome(0.5))
        store.put(first, run, outcome(0.9))
        store.put(second, other, Outcome.failure("Oops: x", "trace"))
        assert store.status() == {first: "ok", second: "failed"}
        store.put(second, other, outcome(0.7))
        rows = store.rows([second, first])
    assert [row["accuracy"] for row in rows] == [0.7, 0.5]


@pytest.mark.parametrize("column", ["row", "arrays"])
@pytest.mark.parametrize("damage", ["bit", "other row", "nothing", "text"])
def test_a_damaged_row_is_one_clear_line(tmp_path, runs, column, damage):
    path = tmp_path / "s.sqlite"
    with Store(path) as store:
        for value, (key, run) in enumerate(runs.items()):
            store.put(key, run, outcome(value / 4))
    with sqlite3.connect(path) as db:
        query = f"SELECT key, {column} FROM runs"
        (key, content), (_, other), *_ = db.execute(query).fetchall()
        changed = {
            "bit": content[:40] + bytes([content[40] ^ 1]) + content[41:],
            "other row": other,
            "nothing": None,
            "text": "text",
        }[damage]
        db.execute(f"UPDATE runs SET {column} = ? WHERE key = ?", (changed, key))
    db.close()
    with Store(path) as store:
        with pytest.raises(StoreError, match=f"row {key} .*is damaged.*delete"):
            store.rows() if column == "row" else store.arrays(key)


def test_a_full_disk_is_one_clear_line_and_loses_nothing(tmp_path, runs):
    (first, run), (second, other) = list(runs.items())[:2]
    with Store(tmp_path / "s.sqlite") as store:
        store.put(first, run, outcome())
        (pages,) = store._db.execute("PRAGMA page_count").fetchone()
        store._db.execute(f"PRAGMA max_page_count={pages}")
        large = outcome()
        large.arrays["instances"] = np.ones(200_000)
        with pytest.raises(StoreError, match="no space left.*finished before is kept"):
            store.put(second, other, large)
        assert store.status() == {first: "ok"}
        store._db.execute("PRAGMA max_page_count=1000000")
        store.put(second, other, large)
        assert len(store) == 2


def test_a_locked_store_is_one_clear_line(tmp_path, runs):
    key, run = next(iter(runs.items()))
    path = tmp_path / "s.sqlite"
    with Store(path, timeout=0.1) as store:
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="locked by another program"):
            store.put(key, run, outcome())
        holder.execute("COMMIT")
        holder.close()
        store.put(key, run, outcome())
        assert len(store) == 1


def test_another_kind_of_file_is_refused(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a database at all, but long enough to be looked at\n" * 20)
    with pytest.raises(StoreError, match="not a store"):
        Store(path)
    assert "not a database at all" in path.read_text()


def test_a_store_of_a_later_format_is_refused(tmp_path):
    path = tmp_path / "s.sqlite"
    Store(path).close()
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version=99")
    db.close()
    with pytest.raises(StoreError, match="format 99"):
        Store(path)


def earlier_store(path, **changes):
    """Write a file of the format 3, which had a column for each value."""
    buffer = io.BytesIO()
    np.savez(buffer, test=np.arange(3), score=np.array([0.5, 1.0, -1.0]))
    plain = {
        **{"key": "k0", "identity": "i", "code": "c", "status": "ok", "method": "SAFE"},
        **{"dataset": "musk", "repeat": 0, "fold": 1, "seed": 7, "accuracy": 0.75},
        **{"auroc": None, "fit_time": 0.5, "tune_time": 1.0, "predict_time": 0.25},
        **{"peak_memory": 10, "params": '{"C": 2.0}', "grid_ends": "{}", "error": None},
        **{"traceback": None, "notes": '["once"]', "versions": "{}", "data_hash": "h"},
        **{"description": '{"fold": 1}', "finished": 12.5, "host": "a"},
        **{"arrays": buffer.getvalue()},
    }
    failed = {**plain, "key": "k1", "status": "failed", "arrays": None} | changes
    with sqlite3.connect(path) as db:
        columns = ", ".join(f"{name} BLOB" for name in plain)
        db.execute(f"CREATE TABLE runs ({columns}, PRIMARY KEY (key))")
        db.execute("CREATE TABLE claims (key TEXT PRIMARY KEY, owner TEXT)")
        marks = ", ".join("?" * len(plain))
        for row in (plain, failed):
            db.execute(f"INSERT INTO runs VALUES ({marks})", tuple(row.values()))
        db.execute("PRAGMA user_version=3")
    db.close()


def test_a_store_of_an_earlier_version_opens(tmp_path, runs):
    path = tmp_path / "s.sqlite"
    earlier_store(path)
    key, run = next(iter(runs.items()))
    for _ in range(2):  # when it is converted, and later
        with Store(path) as store:
            assert store.status()["k0"] == "ok"
            row = store.rows(["k0"])[0]
            assert (row["accuracy"], row["auroc"]) == (0.75, None)
            assert row["random_state"] == 7
            assert row["params"] == {"C": 2.0}
            assert row["notes"] == ["once"]
            assert set(row) == set(COLUMNS)
            np.testing.assert_array_equal(store.arrays("k0")["score"], [0.5, 1.0, -1.0])
            assert store.status("k1") == {"k1": "failed"}
            assert store.arrays("k1") == {}
            store.put(key, run, outcome())
            assert len(store) == 3


def test_a_damaged_store_of_an_earlier_version_is_left_alone(tmp_path):
    path = tmp_path / "s.sqlite"
    earlier_store(path, params="{not json")
    for _ in range(2):
        with pytest.raises(StoreError, match="row k1 .* is damaged"):
            Store(path)
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT COUNT(*) FROM runs").fetchone() == (2,)
        assert db.execute("PRAGMA user_version").fetchone() == (3,)
    db.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(StoreError, match="cannot open"):
        Store(tmp_path / "s.sqlite")


@pytest.mark.parametrize("version", [0, 1])
def test_a_file_of_another_program_is_refused_and_left_alone(tmp_path, version):
    path = tmp_path / "notes.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE notes (text)")
        db.execute(f"PRAGMA user_version={version}")
    db.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"another program .*notes"):
        Store(path)
    assert path.read_bytes() == before
