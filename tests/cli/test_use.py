"""`evaluate`, `check`, and prediction sets on the command line."""

import csv
import io
import json

import numpy as np
import pytest

import bagwise
import bagwise.compose
import bagwise.datasets
from bagwise.cli import main

COLUMNS = ["--bag", "pid", "--label", "active", "--group", "patient"]


def write_table(path, n, seed, shift=0.0):
    rng = np.random.default_rng(seed)
    lines = ["pid,patient,site,active,u,v"]
    for i in range(n):
        for _ in range(rng.integers(3, 9)):
            u, v = rng.normal(size=2) + i % 2 + shift
            label = "pos" if i % 2 else "neg"
            lines.append(f"m{i},p{i // 2},s{i % 3},{label},{u:.4f},{v:.4f}")
    path.write_text("\n".join(lines) + "\n")
    return path


def run(capsys, *words):
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    captured = capsys.readouterr()
    return int(end.value.code or 0), captured.out, captured.err


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("use")
    table = write_table(folder / "train.csv", 60, 0)
    words = ["compare", table, *COLUMNS, "--drop", "site", "--positive", "pos"]
    words += ["--methods", "Mean + logistic,MI-SVM", "--grid", "none", "--jobs", 1]
    words += ["--time-limit", 0, "--out", folder / "out", "--conformal", 0.2, "--json"]
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    assert not end.value.code
    write_table(folder / "new.csv", 50, 1)
    write_table(folder / "moved.csv", 50, 2, shift=1.0)
    return folder


def test_evaluate_writes_a_report_and_speaks_json(capsys, folder):
    model, out = folder / "out" / "model.bagwise", folder / "evaluation"
    words = ["evaluate", model, folder / "new.csv", *COLUMNS, "--out", out]
    words += ["--by", "site", "--by", "patient", "--against", model]
    words += ["--drop", "site"]  # a subgroup may be left out of the features by name
    status, text, _ = run(capsys, *words, "--json")
    found = json.loads(text)
    assert status == 0
    assert (found["n_bags"], found["n_groups"], found["positive"]) == (50, 25, "pos")
    assert {row["by"] for row in found["subgroups"]} == {"site", "patient"}
    assert sum(r["n_bags"] for r in found["subgroups"] if r["by"] == "site") == 50
    assert all(test["effect"] == 0 for test in found["against"]["tests"])
    assert json.loads((out / "evaluation.json").read_text())["n_bags"] == 50
    page = (out / "report.html").read_text(encoding="utf-8")
    for text in ("Operating point", "Calibration", "Subgroups", "site = s1"):
        assert text in page
    X, y = bagwise.read_bags(
        folder / "new.csv", "pid", "active", group="patient", drop=["site"]
    )
    python = bagwise.evaluate(model, X, y)
    assert found["figures"][0]["mean"] == python.figures[0]["mean"]


def test_evaluate_for_people(capsys, folder):
    model = folder / "out" / "model.bagwise"
    words = ["evaluate", model, folder / "new.csv", *COLUMNS, "--drop", "site"]
    words += ["--out", folder / "e2", "--sensitivity", 0.9]
    status, out, _ = run(capsys, *words)
    assert status == 0
    assert "on 50 bags of 25 groups" in out.replace("\n", " ")
    assert "report.html" in out


@pytest.mark.filterwarnings("default:.*Other columns")
def test_columns_are_matched_by_name(capsys, folder):
    """Other columns and another order give the same figures and outlier scores."""
    model, lines = folder / "out" / "model.bagwise", []
    for line in (folder / "new.csv").read_text(encoding="utf-8").splitlines():
        cells = line.split(",")
        lines.append(",".join([*cells[::-1], "9" if lines else "more"]))
    mixed = folder / "mixed.csv"
    mixed.write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = []
    for data in (folder / "new.csv", mixed):
        words = [data, *COLUMNS, "--drop", "site", "--out"]
        status, _, err = run(capsys, "evaluate", model, *words, folder / "e3")
        assert status == 0, err
        assert err.count("Other columns are ignored: 'more'") == (data == mixed)
        figures = json.loads((folder / "e3" / "evaluation.json").read_text())["figures"]
        status, _, err = run(
            capsys, "predict", model, *words, folder / "p3.csv", "--outlier"
        )
        assert status == 0, err
        assert err.count("Other columns are ignored: 'more'") == (data == mixed)
        found.append((figures, (folder / "p3.csv").read_text(encoding="utf-8")))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--threshold", 0.5, "--sensitivity", 0.9], "exclude each other"),
        (["--sensitivity", 2], "at most 1"),
        (["--by", "weight"], "weight"),
        (["--against", "nothing.bagwise"], "nothing.bagwise"),
    ],
)
def test_mistakes_are_one_line(capsys, folder, words, message):
    model = folder / "out" / "model.bagwise"
    base = ["evaluate", model, folder / "new.csv", *COLUMNS, "--drop", "site"]
    status, _, err = run(capsys, *base, *words, "--out", folder / "no")
    assert status in (1, 2)
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert not (folder / "no").exists()


def test_check_has_a_status_for_pipelines(capsys, folder):
    reference = ["--reference", folder / "out" / "model.bagwise"]
    words = [*COLUMNS, "--drop", "site", *reference]
    status, out, _ = run(capsys, "check", folder / "new.csv", *words)
    assert (status, "No difference" in out) == (0, True)
    status, out, _ = run(capsys, "check", folder / "moved.csv", *words)
    assert (status, "differ from the training bags" in out) == (3, True)
    status, out, _ = run(capsys, "check", folder / "moved.csv", *words, "--json")
    found = json.loads(out)
    assert (status, found["shifted"]) == (3, True)
    assert found["drift"][0]["p"] <= 0.05
    words[words.index("site")] = "site,v"
    status, out, _ = run(capsys, "check", folder / "new.csv", *words, "--json")
    assert (status, json.loads(out)["missing"]) == (3, ["v"])
    words[words.index("site,v")] = "nothing"
    status, _, err = run(capsys, "check", folder / "new.csv", *words)
    assert (status, "nothing" in err) == (1, True)


def test_predict_adds_sets_and_outliers_on_request(capsys, folder):
    model = folder / "out" / "model.bagwise"
    words = ["predict", model, folder / "new.csv", *COLUMNS, "--drop", "site"]
    status, out, _ = run(capsys, *words, "--prediction-sets", "--outlier")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert status == 0
    assert {row["prediction_set"] for row in rows} <= {"", "neg", "pos", "neg|pos"}
    assert all(0 <= float(row["outlier"]) <= 1 for row in rows)
    truth = ["neg", "pos"] * 25
    covered = [t in r["prediction_set"] for t, r in zip(truth, rows, strict=True)]
    assert np.mean(covered) > 0.6
    _, out, _ = run(capsys, *words, "--alpha", 0.001)
    rows = list(csv.DictReader(io.StringIO(out)))
    assert {row["prediction_set"] for row in rows} == {"neg|pos"}
    _, out, _ = run(capsys, *words)
    assert out.splitlines()[0] == "bag,label,score_of_pos,probability_of_pos"


def test_fit_can_store_what_prediction_sets_need(capsys, folder, tmp_path):
    model = tmp_path / "m.bagwise"
    fit = ["fit", folder / "train.csv", *COLUMNS, "--drop", "site", "--out", model]
    fit += ["--positive", "pos", "--method", "Mean + logistic", "--grid", "none"]
    predict = ["predict", model, folder / "new.csv", *COLUMNS, "--drop", "site"]
    run(capsys, *fit)
    status, _, err = run(capsys, *predict, "--prediction-sets")
    assert (status, "--conformal 0.1" in err) == (1, True)
    assert run(capsys, *fit, "--conformal", 0.1, "--conformal-per-class")[0] == 0
    record = bagwise.load(model).training_record_
    assert record.about["conformal"] == {"alpha": 0.1, "per_class": True}
    assert len(record.held_out["truth"]) == 60
    assert run(capsys, *predict, "--prediction-sets")[0] == 0
    assert run(capsys, *fit, "--conformal", 10)[0] == 1


def test_a_folder_of_test_slides_has_its_own_labels(capsys, tmp_path):
    rng = np.random.default_rng(0)
    for part, n in (("one", 30), ("two", 16)):
        (tmp_path / part).mkdir()
        lines = ["slide,patient,scanner,label"]
        for i in range(n):
            rows = rng.normal(size=(rng.integers(4, 9), 3)) + i % 2
            np.save(tmp_path / part / f"s{i}.npy", rows)
            lines.append(f"s{i},{part}{i // 2},c{i % 2},{i % 2}")
        (tmp_path / f"{part}.csv").write_text("\n".join(lines) + "\n")
    columns = ["--bag", "slide", "--label", "label", "--group", "patient"]
    words = ["compare", tmp_path / "one", *columns, "--labels", tmp_path / "one.csv"]
    words += ["--methods", "SimpleMI", "--grid", "none", "--jobs", 1, "--json"]
    words += ["--out", tmp_path / "out", "--time-limit", 0]
    test = ["--test", tmp_path / "two", "--test-labels", tmp_path / "two.csv"]
    status, out, err = run(capsys, *words, *test)
    assert status == 0, err
    assert json.loads(out)["protocol"]["kind"] == "train_test"
    model = tmp_path / "out" / "model.bagwise"
    words = ["evaluate", model, tmp_path / "two", *columns, "--json"]
    words += ["--labels", tmp_path / "two.csv", "--by", "scanner"]
    status, out, err = run(capsys, *words, "--out", tmp_path / "e")
    assert status == 0, err
    assert [row["level"] for row in json.loads(out)["subgroups"]] == ["c0", "c1"]


@pytest.fixture(scope="module")
def evaluated(folder):
    words = ["evaluate", folder / "out" / "model.bagwise", folder / "new.csv"]
    words += [*COLUMNS, "--by", "site", "--out", folder / "evaluated", "--json"]
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    assert not end.value.code
    return folder / "evaluated" / "evaluation.json"


def test_a_card_states_what_is_known_of_a_model(capsys, folder, evaluated):
    model, out = folder / "out" / "model.bagwise", folder / "card.md"
    status, text, _ = run(capsys, "card", model, "--out", out, "--json")
    assert (status, json.loads(text)) == (0, {"card": str(out)})
    page = out.read_text(encoding="utf-8")
    record = bagwise.load(model).training_record_
    held = record.held_out
    hits = held["label"][held["truth"] == 1]
    for told in (
        "Not evaluated on other data",
        "Subgroups were not compared",
        "| Bags by class | neg: 30, pos: 30 |",
        f"| Sensitivity | {hits.mean():.3f} ",
        f"| Hash of the data | {record.about['data_hash']} |",
        f"| bagwise | {bagwise.__version__} |",
        'bagwise.load("model.bagwise")',
        "| Columns | u, v |",
        "Fitted to only 30 groups of bags",
    ):
        assert told in page
    words = ["card", model, "--evaluation", evaluated, "--out", folder / "card.html"]
    assert run(capsys, *words)[0] == 0
    page = (folder / "card.html").read_text(encoding="utf-8")
    assert "Not evaluated on other data" not in page
    for told in ("Evaluation on new", "Subgroups of new", "site = s1"):
        assert told in page


def test_text_of_an_evaluation_stays_text(capsys, folder, evaluated):
    found = json.loads(evaluated.read_text())
    found["data"] = "<script>alert(1)</script>"
    hostile = folder / "hostile.json"
    hostile.write_text(json.dumps(found))
    words = ["card", folder / "out" / "model.bagwise", "--evaluation", hostile]
    assert run(capsys, *words, "--out", folder / "hostile.html")[0] == 0
    page = (folder / "hostile.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page


@pytest.mark.parametrize("content", ["[]", "{", '{"data": "a"}', '{"figures": 3}'])
def test_a_card_needs_files_of_its_kind(capsys, folder, tmp_path, content):
    model, other = folder / "out" / "model.bagwise", tmp_path / "other.json"
    other.write_text(content)
    words = ["card", model, "--evaluation", other, "--out", tmp_path / "c.md"]
    status, _, err = run(capsys, *words)
    assert (status, "not an evaluation.json" in err) == (1, True)
    status, _, err = run(capsys, "card", model, "--out", tmp_path / "card.pdf")
    assert (status, ".html or .md" in err) == (2, True)
    assert not list(tmp_path.glob("c*"))


def test_a_card_needs_a_training_record(tmp_path):
    from bagwise.report import write_report

    X, y = bagwise.datasets.make_bags(20, random_state=0)
    model = bagwise.compose.SimpleMI().fit(X, y)
    with pytest.raises(ValueError, match="a model card needs the training record"):
        write_report(model, tmp_path / "card.html")


@pytest.mark.parametrize("value", ["nan", "inf", "1.5", "-0.1"])
def test_a_threshold_is_a_probability(capsys, folder, value):
    model = folder / "out" / "model.bagwise"
    words = ["evaluate", model, folder / "new.csv", *COLUMNS, "--drop", "site"]
    status, _, err = run(capsys, *words, "--threshold", value, "--out", folder / "no")
    assert (status, "between 0 and 1" in err) == (1, True)


def test_a_subgroup_is_constant_in_a_bag(capsys, folder):
    model = folder / "out" / "model.bagwise"
    words = ["evaluate", model, folder / "new.csv", *COLUMNS, "--drop", "site"]
    status, _, err = run(capsys, *words, "--by", "u", "--out", folder / "no")
    assert status == 2
    assert err.startswith("error: --by u: ")
