"""Real values on the command line: compare, fit, predict, explain, and bad targets."""

import csv
import io
import json

import numpy as np
import pytest

from bagwise.cli import main
from bagwise.datasets import make_regression_bags

BAGS = ["--bag", "molecule", "--group", "series", "--instance-id", "conformer"]
TARGET = [*BAGS, "--target", "pIC50"]


def run(capsys, *words):
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    captured = capsys.readouterr()
    return int(end.value.code or 0), captured.out, captured.err


@pytest.fixture
def write(tmp_path):
    X, y = make_regression_bags(30, n_features=3, kind="mean", random_state=3)

    def write_(name="ligands", *, n=30, gaps=False, **changed):
        values = [f"{v + 6:.3f}" for v in y]
        for place, text in changed.items():
            values[int(place.removeprefix("m"))] = text
        lines = ["molecule,series,conformer,pIC50,logP,tpsa,mw"]
        for i, bag in enumerate(X[:n]):
            for k, row in enumerate(bag):
                cells = [f"{v:.4f}" for v in row]
                if gaps and k == 1:
                    cells[1] = ""
                head = f"m{i},s{i // 2},m{i}-{k},{values[i]}"
                lines.append(",".join([head, *cells]))
        path = tmp_path / f"{name}.csv"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    write_.y = y + 6
    return write_


def compare_words(path, out, *more):
    words = ["compare", path, *TARGET, "--methods", "Mean + ridge", "--folds", 3]
    return [*words, "--jobs", 1, "--time-limit", 0, "--out", out, *more]


def test_compare_then_predict_and_explain(capsys, write, tmp_path):
    path, out = write(), tmp_path / "out"
    status, said, err = run(capsys, *compare_words(path, out, "--json"))
    assert status == 0, err
    found = json.loads(said)
    assert found["metric"] == "r2"
    assert found["ranking"][0]["r2"] > 0.5
    assert found["provenance"]["groups"] == "15, never split"
    page = (out / "report.html").read_text("utf-8")
    for part in ("Predicted against true", "Residuals against predicted values"):
        assert part in page
    assert "standard assumption" not in page  # which is about classes
    model = out / "model.bagwise"
    status, said, _ = run(capsys, "predict", model, path, *TARGET)
    rows = list(csv.DictReader(io.StringIO(said)))
    assert status == 0
    assert list(rows[0]) == ["bag", "value"]
    told = np.array([float(row["value"]) for row in rows])
    assert np.corrcoef(told, write.y)[0, 1] > 0.7
    status, _, _ = run(capsys, "explain", model, path, *TARGET, "--out", tmp_path / "e")
    with (tmp_path / "e" / "instances.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert status == 0
    assert rows[0]["id"] == "m0-0"
    assert 0 < np.mean([float(row["score"]) for row in rows]) < 12  # in units of y


def test_gaps_need_a_word_and_are_filled(capsys, write, tmp_path):
    path = write(gaps=True)
    words = compare_words(path, tmp_path / "out")
    status, _, err = run(capsys, *words)
    assert status != 0
    assert "--impute median" in err
    status, _, err = run(capsys, *words, "--impute", "median")
    assert status == 0, err
    model = tmp_path / "out" / "model.bagwise"
    status, said, _ = run(capsys, "predict", model, path, *TARGET, "--impute", "median")
    assert status == 0
    assert len(said.splitlines()) == 31


def test_fit_takes_a_regressor_for_values(capsys, write, tmp_path, monkeypatch):
    from bagwise.cli import _models

    monkeypatch.setitem(_models.DEFAULTS, "regression", "Mean + ridge")
    model = tmp_path / "m.bagwise"
    status, said, err = run(capsys, "fit", write(), *TARGET, "--out", model)
    assert status == 0, err
    assert "mean squared error" in said
    status, _, err = run(
        capsys, "fit", write(), *TARGET, "--method", "SimpleMI", "--out", model
    )
    assert status != 0
    assert "--task is regression, and SimpleMI is for classification" in err


def test_the_default_for_values_is_the_stack():
    from bagwise.cli._models import DEFAULTS

    assert DEFAULTS["regression"] == "BagRegressor"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"m5": ""}, "column 'pIC50', the label, is empty"),
        ({"m5": "NA"}, "column 'pIC50', the label, is empty"),
        ({"m5": ">9"}, "bag m5 has '>9'; text labels are for classification"),
        ({"m5": "inf"}, "bag m5 has 'inf'"),
        ({f"m{i}": "6.5" for i in range(30)}, "all bags have the value 6.5"),
        ({"n": 6}, "too few groups: there are 3"),
    ],
)
def test_bad_targets(capsys, write, tmp_path, options, message):
    path = write("bad", **options)
    words = ["compare", path, *TARGET, "--jobs", 1, "--out", tmp_path / "out"]
    status, _, err = run(capsys, *words)
    assert status != 0
    assert message in " ".join(err.split())
    assert not (tmp_path / "out" / "runs.sqlite").exists()  # before any work


def test_a_label_and_a_target(capsys, write):
    words = ["compare", write(), *TARGET, "--label", "logP"]
    status, _, err = run(capsys, *words)
    assert status != 0
    assert "--label is for classes and --target for values" in err
