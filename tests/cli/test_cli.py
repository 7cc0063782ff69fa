import csv
import io
import json

import numpy as np
import pytest

from bagwise.cli import main


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "molecules.csv"
    lines = ["molecule,active,u,<script>"]
    for i in range(40):
        for _ in range(3):
            u, v = rng.normal(size=2) + 2 * (i % 2)
            lines.append(f"m{i},{i % 2},{u:.4f},{v:.4f}")
    path.write_text("\n".join(lines) + "\n")
    return path


COLUMNS = ["--bag", "molecule", "--label", "active"]


def run(capsys, *words):
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    captured = capsys.readouterr()
    return int(end.value.code or 0), captured.out, captured.err


def test_compare_writes_its_files_and_speaks_json(capsys, table, tmp_path):
    words = ["compare", table, *COLUMNS, "--methods", "SimpleMI, WrapperMI"]
    words += ["--out", tmp_path / "out", "--jobs", 1, "--time-limit", 0, "--json"]
    status, out, _ = run(capsys, *words)
    found = json.loads(out)
    assert status == 0
    assert found["ranking"][0]["mean"] > 0.8
    files = ("report.html", "results.csv", "model.bagwise", "runs.sqlite")
    for name in (*files, "comparison.npz"):
        assert (tmp_path / "out" / name).exists(), name
    assert "&lt;script&gt;" in (tmp_path / "out" / "report.html").read_text() or (
        "\\u003cscript\\u003e" in (tmp_path / "out" / "report.html").read_text()
    )


def test_compare_for_people_names_the_report(capsys, table, tmp_path):
    words = ["compare", table, *COLUMNS, "--methods", "SimpleMI", "--grid", "none"]
    words += ["--out", tmp_path / "out", "--jobs", 1, "--time-limit", 0]
    status, out, err = run(capsys, *words)
    assert status == 0
    assert "SimpleMI ranks first" in out.replace("\n", " ")
    assert str(tmp_path / "out" / "report.html") in out
    assert "Holm" in out
    assert "Bags(n_bags=40" in err


def test_fit_predict_explain(capsys, table, tmp_path):
    model = tmp_path / "m.bagwise"
    method = ["--method", "WrapperMI"]
    status, out, _ = run(capsys, "fit", table, *COLUMNS, *method, "--out", model)
    assert status == 0
    assert str(model) in out
    status, out, _ = run(capsys, "predict", model, table, *COLUMNS)
    rows = list(csv.DictReader(io.StringIO(out)))
    assert status == 0
    assert len(rows) == 40
    hits = [int(row["label"]) == int(row["bag"][1:]) % 2 for row in rows]
    assert np.mean(hits) > 0.8
    folder = tmp_path / "explained"
    words = ["explain", model, table, *COLUMNS, "--out", folder, "--json"]
    status, out, _ = run(capsys, *words)
    assert status == 0
    found = json.loads(out)["instances"]
    assert len(found) == 120
    assert sum(row["key"] for row in found) == 40
    assert (folder / "key_instances.png").stat().st_size > 1000
    status, out, _ = run(capsys, *words, "--positive", "0")
    other = json.loads(out)["instances"]
    scores = [row["score"] for row in found]
    np.testing.assert_allclose([-row["score"] for row in other], scores)
    status, _, err = run(capsys, *words, "--positive", "seven")
    assert (status, "--positive is 'seven', which is not one of [0, 1]" in err) == (
        1,
        True,
    )
    np.savez(tmp_path / "pictures.npz", images=np.zeros((120, 4, 4)))
    words += ["--by", "leave_out", "--images", tmp_path / "pictures.npz"]
    status, out, _ = run(capsys, *words)
    assert status == 0
    stored = json.loads((folder / "instances.json").read_text(encoding="utf-8"))
    assert stored["method"] == "leave_out"


def test_datasets_and_methods_are_listed(capsys):
    status, out, _ = run(capsys, "datasets", "--json")
    assert status == 0
    assert json.loads(out)["musk1"]["n_bags"] == 92
    status, out, _ = run(capsys, "methods", "--json")
    entries = {entry["name"]: entry for entry in json.loads(out)}
    assert "SimpleMI" in entries
    assert "yes, measured" in entries["MI-SVM"]["assumption"]
    status, out, _ = run(capsys, "datasets", "digits")
    assert "handwritten" in out


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["compare", "nosuchset"], 1, "nosuchset"),
        (["compare", "nosuch.csv"], 1, "no such file"),
        (["compare", "digits", "--methods", "SimpelMI"], 1, "did you mean"),
        (["predict", "nosuch.bagwise", "digits"], 1, "nosuch.bagwise"),
        (["compare"], 2, "Missing argument"),
        (["nonsense"], 2, "No such command"),
    ],
)
def test_errors_are_one_line_and_a_status(capsys, words, status, message):
    found, out, err = run(capsys, *words)
    assert found == status
    assert message in err
    assert "Traceback" not in err
    assert len([line for line in err.splitlines() if "error:" in line]) == 1
    found, _, err = run(capsys, *words, "--debug")
    assert found == status
    assert "Traceback" in err


def test_a_failed_run_gives_a_status(capsys, table, tmp_path, monkeypatch):
    from bagwise.compose import SimpleMI

    def fit(self, X, y):
        raise ArithmeticError("no")

    monkeypatch.setattr(SimpleMI, "fit", fit)
    words = ["compare", table, *COLUMNS, "--methods", "SimpleMI", "--jobs", 1]
    words += ["--time-limit", 0, "--out", tmp_path / "out"]
    status, _, err = run(capsys, *words)
    assert status == 1
    assert "ArithmeticError" in err


def test_a_locked_store_is_one_line(capsys, table, tmp_path, monkeypatch):
    import sqlite3

    from bagwise.comparison.store import Store

    out = tmp_path / "out"
    out.mkdir()
    Store(out / "runs.sqlite").close()
    holder = sqlite3.connect(out / "runs.sqlite", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    monkeypatch.setattr(Store.__init__, "__kwdefaults__", {"timeout": 0.1})
    words = ["compare", table, *COLUMNS, "--methods", "SimpleMI", "--jobs", 1]
    status, _, err = run(capsys, *words, "--time-limit", 0, "--out", out)
    holder.close()
    assert status == 1
    assert "was locked by another program" in " ".join(err.split())


def test_the_demo(capsys, tmp_path, monkeypatch):
    from bagwise.comparison import _compare

    monkeypatch.setattr(_compare, "DEMO_METHODS", ("SimpleMI", "MILR"))
    words = ["demo", "--out", tmp_path / "demo", "--bags", 40, "--jobs", 1]
    status, out, _ = run(capsys, *words)
    assert status == 0
    last = out.strip().splitlines()[-1]
    assert last == f"report: {tmp_path / 'demo' / 'report.html'}"


def test_no_command_has_two_options_of_one_name():
    from typer.main import get_command

    from bagwise.cli._main import app

    for name, command in get_command(app).commands.items():
        options = [opt for p in command.params for opt in [*p.opts, *p.secondary_opts]]
        assert len(options) == len({*options}), name
