"""What a table means: options, bagwise.toml, and messages in their words."""

import csv
import io
import json

import numpy as np
import pytest

from bagwise.comparison import Method, choose
from bagwise.comparison.store import Store

ROLES = ["--bag", "slide", "--label", "diagnosis", "--instance-id", "tile"]
ROLES += ["--group", "patient", "--drop", "stain", "--positive", "ill"]
QUICK = ["--methods", "SimpleMI", "--grid", "none", "--jobs", 1, "--time-limit", 0]


def test_messages_name_options_and_all_columns_at_once(run, slides):
    status, _, err = run("compare", slides, "--bag", "slide", "--label", "diagnosis")
    assert status == 1
    for column in ("'patient'", "'stain'", "'tile'"):
        assert column in err
    assert "--drop" in err
    assert "--instance-id tile" in err
    assert "--group" in err
    assert "drop=" not in err
    assert "instance_id=" not in err


def test_a_missing_label_is_asked_for_by_its_option(run, slides):
    words = ["--bag", "slide", "--drop", "stain", "--drop", "tile", "--drop", "patient"]
    status, _, err = run("fit", slides, *words, "--drop", "diagnosis")
    assert status == 2
    assert "--label" in err


def test_too_few_bags_are_told_in_options(run, tmp_path):
    path = tmp_path / "few.csv"
    rows = [f"b{i},{i % 2},{i}.5" for i in range(6)]
    path.write_text("bag,y,u\n" + "\n".join(rows) + "\n", encoding="utf-8")
    status, _, err = run("compare", path, "--bag", "bag", "--label", "y", *QUICK)
    assert status == 1
    assert "leave one bag out, or set --grid none" in err
    assert "LeaveOneBagOut" not in err


def test_columns_make_no_sense_for_a_known_set(run):
    status, _, err = run("compare", "digits", "--bag", "slide")
    assert status == 2
    assert "omit --bag" in err


def test_settings_next_to_the_data(run, slides, tmp_path):
    settings = tmp_path / "bagwise.toml"
    settings.write_text(
        'bag = "slide"\nlabel = "diagnosis"\ngroup = "patient"\npositive = "ill"\n'
        '["slides.csv"]\ndrop = ["stain", "tile"]\n',
        encoding="utf-8",
    )
    named = tmp_path / "study.toml"
    named.write_text(
        'folds = 3\npositive = "well"\n'
        'methods = ["SimpleMI"]\ngrid = "none"\njobs = 1\ntime-limit = 0\n'
        '["slides.csv"]\nrepeats = 2\n',
        encoding="utf-8",
    )
    out, model = tmp_path / "out", tmp_path / "m.bagwise"
    config = ["--config", named]
    # Options of other commands do no harm.
    status, text, _ = run("fit", slides, *config, "--out", model, "--json")
    assert status == 0, text
    # The command line goes first, then the named file, then the one that was found.
    status, text, err = run("compare", slides, *config, "--out", out, "--folds", 4)
    assert status == 0
    assert "bagwise.toml: bag = slide" in err
    assert "study.toml: positive = well" in err
    assert "classes: ill 18, well 18 (positive)" in err
    assert "repeats = 2" in err
    assert "folds = 3" not in err
    assert "4-fold" in text


def test_new_bags_need_no_label_that_settings_name(run, slides, tmp_path):
    settings = tmp_path / "bagwise.toml"
    settings.write_text(
        'bag = "slide"\nlabel = "diagnosis"\npositive = "ill"\nfeatures = ["u", "v"]\n',
        encoding="utf-8",
    )
    study = tmp_path / "study.toml"
    study.write_text('set = ["SimpleMI.pooling=max", "MILES.C=1"]\n', encoding="utf-8")
    model, new = tmp_path / "m.bagwise", tmp_path / "new.csv"
    method = ["--method", "SimpleMI", "--grid", "none", "--json", "--config", study]
    status, *_ = run("fit", slides, "--out", model, *method)
    assert status == 0
    new.write_text("slide,u,v\nx,3.0,3.0\ny,-1.0,-1.0\n", encoding="utf-8")
    status, out, _ = run("predict", model, new)
    assert status == 0
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["label"] for row in rows] == ["ill", "well"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('bga = "slide"\n', "there is no option 'bga'; did you mean 'bag'?"),
        ('folds = "many"\n', "folds is a whole number, got 'many'"),
        ("retry-failed = 1\n", "retry-failed is true or false, got 1"),
        ("bag = \n", "study.toml: "),
        ('config = "other.toml"\n', "a settings file cannot name another one"),
        ("context = 1\n", "there is no option 'context'"),
    ],
)
def test_settings_that_cannot_be_meant(run, slides, tmp_path, text, message):
    study = tmp_path / "study.toml"
    study.write_text(text, encoding="utf-8")
    status, _, err = run("compare", slides, *QUICK, "--config", study)
    assert status == 2
    assert message in err
    assert "study.toml" in err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('bga = "slide"\n', "there is no option 'bga'; did you mean 'bag'?"),
        ("task = 1.5e\n", "bagwise.toml: "),
        ("bag = true\n", "bag is text, got True"),
        ('"slides.csv" = 3\n', "there is no option 'slides.csv'"),
    ],
)
def test_found_settings_that_cannot_be_meant(run, slides, tmp_path, text, message):
    (tmp_path / "bagwise.toml").write_text(text, encoding="utf-8")
    status, _, err = run("compare", slides, *QUICK)
    assert status == 2
    assert message in err
    assert "bagwise.toml" in err


def test_a_named_file_has_to_be_there(run, slides, tmp_path):
    status, _, err = run("compare", slides, "--config", tmp_path / "none.toml")
    assert status == 2
    assert "--config: there is no file" in err


def test_two_words_as_labels_need_a_choice(run, slides, tmp_path):
    roles = ROLES[: ROLES.index("--positive")]
    status, _, err = run("compare", slides, *roles, *QUICK)
    assert status == 1
    assert "--positive ill or --positive well" in err
    status, text, _ = run(
        "compare", slides, *ROLES, *QUICK, "--json", "--out", tmp_path / "out"
    )
    assert status == 0
    assert json.loads(text)["provenance"]["positive class"] == "ill"


def test_gaps_are_filled_where_asked(run, tmp_path):
    path = tmp_path / "gaps.csv"
    rows = [f"b{i // 2},{i // 2 % 2},{'' if i % 7 == 0 else i}" for i in range(60)]
    path.write_text("bag,y,u\n" + "\n".join(rows) + "\n", encoding="utf-8")
    words = ["compare", path, "--bag", "bag", "--label", "y", *QUICK]
    status, _, err = run(*words)
    assert status == 1
    assert "u" in err
    status, *_ = run(*words, "--impute", "median", "--out", tmp_path / "out")
    assert status == 0
    # A model that fills gaps needs no option to do so, and one that does not says so.
    roles, model = ["--bag", "bag", "--label", "y"], tmp_path / "out" / "model.bagwise"
    status, text, err = run("predict", model, path, *roles)
    assert status == 0, err
    assert len(text.splitlines()) == 31
    whole = tmp_path / "whole.csv"
    whole.write_text(
        path.read_text(encoding="utf-8").replace(",\n", ",1\n"), encoding="utf-8"
    )
    plain = tmp_path / "plain.bagwise"
    words = ["--method", "SimpleMI", "--grid", "none", "--out", plain]
    assert run("fit", whole, *roles, *words)[0] == 0
    status, _, err = run("predict", plain, path, *roles)
    assert status == 1
    assert "contains NaN: bag b0" in err


def test_groups_reach_the_report(run, slides, tmp_path):
    out = tmp_path / "out"
    status, text, _ = run("compare", slides, *ROLES, *QUICK, "--out", out, "--json")
    assert status == 0
    assert json.loads(text)["ranking"][0]["method"] == "SimpleMI"
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "12 groups" in page
    assert "Accuracy per group" in page


@pytest.mark.parametrize("word", ["-h", "--help"])
def test_help_has_a_short_name(run, word):
    status, out, _ = run("compare", word)
    assert status == 0
    assert "--instance-id" in out


def test_columns_of_predictions_name_their_class(run, slides, tmp_path):
    model = tmp_path / "m.bagwise"
    words = [*ROLES, "--positive", "ill", "--method", "WrapperMI", "--grid", "none"]
    status, *_ = run("fit", slides, *words, "--out", model)
    assert status == 0
    status, out, _ = run("predict", model, slides, *ROLES)
    rows = list(csv.DictReader(io.StringIO(out)))
    assert status == 0
    assert list(rows[0]) == ["bag", "label", "score_of_ill", "probability_of_ill"]
    for row in rows:
        high = float(row["probability_of_ill"]) > 0.5
        assert high == (float(row["score_of_ill"]) > 0) == (row["label"] == "ill")


def test_parameters_are_set(run, slides, tmp_path):
    words = [*ROLES, "--positive", "ill", "--jobs", 1, "--time-limit", 0, "--json"]
    words += ["--out", tmp_path / "out", "--methods", "SimpleMI"]
    status, out, _ = run("compare", slides, *words, "--set", "SimpleMI.pooling=max")
    assert status == 0, out
    with Store(tmp_path / "out" / "runs.sqlite") as store:
        for row in store.rows():
            assert row["description"]["estimator"]["params"]["pooling"] == "max"
            assert "pooling" not in row["params"]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("pooling=max", "--set takes METHOD.PARAM=VALUE"),
        ("MILES.C=1", "MILES is not among the methods"),
        ("SimpleMI.poling=max", "did you mean 'pooling'?"),
    ],
)
def test_parameters_that_cannot_be_meant(run, setting, message):
    words = ["compare", "digits", "--methods", "SimpleMI", "--set", setting]
    status, _, err = run(*words)
    assert status in (1, 2)
    assert message in err


def test_parameters_leave_the_reasons_of_the_choice(run, slides, monkeypatch, tmp_path):
    kept = [m for m in choose.METHODS if m.name in ("SimpleMI", "KI-SVM")]
    monkeypatch.setattr(choose, "METHODS", kept)
    words = [*ROLES, "--positive", "ill", "--jobs", 1, "--time-limit", 0, "--json"]
    words += ["--out", tmp_path / "out", "--set", "SimpleMI.pooling=max"]
    status, out, _ = run("compare", slides, *words)
    assert status == 0, out
    told = {c["method"]: (c["chosen"], c["reason"]) for c in json.loads(out)["choices"]}
    assert told["SimpleMI"][0]
    assert not told["KI-SVM"][0]
    assert "on request" in told["KI-SVM"][1]


def test_real_values_have_a_column_of_their_own(run, tmp_path, monkeypatch):
    own = Method("pooled", "bagwise.compose.SimpleMIRegressor", task="regression")
    monkeypatch.setattr(choose, "METHODS", [*choose.METHODS, own])
    rng = np.random.default_rng(0)
    path, out = tmp_path / "energy.csv", tmp_path / "out"
    lines = ["molecule,energy,u"]
    for i in range(30):
        level = rng.normal()
        for _ in range(3):
            lines.append(f"m{i},{level:.6f},{level + 0.1 * rng.normal():.6f}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    words = ["--bag", "molecule", "--target", "energy"]
    quick = ["--methods", "pooled", "--grid", "none", "--jobs", 1]
    quick += ["--time-limit", 0]
    status, text, _ = run("compare", path, *words, *quick, "--out", out, "--json")
    assert status == 0, text
    (row,) = json.loads(text)["ranking"]
    assert row["r2"] > 0.8
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "Predicted against true" in page
    status, text, _ = run("predict", out / "model.bagwise", path, *words)
    assert status == 0
    rows = list(csv.DictReader(io.StringIO(text)))
    assert list(rows[0]) == ["bag", "value"]
    status, _, err = run("compare", path, *words, "--label", "energy")
    assert status == 2
    assert "--label is for classes and --target for values" in err


def test_a_folder_of_slides(run, tmp_path):
    """From a folder of features to a ranking, patients kept together."""
    pytest.importorskip("h5py")
    from bagwise.datasets import make_slides

    folder = tmp_path / "features"
    make_slides(16, folder, n_patches=30, n_features=6, separation=6, random_state=0)
    words = ["compare", folder, "--labels", folder / "clini.csv", "--bag", "slide_id"]
    words += ["--label", "tumor", "--group", "patient_id", *QUICK, "--json"]
    words += ["--out", tmp_path / "out"]
    status, out, _ = run(*words)
    assert status == 0
    assert json.loads(out)["ranking"][0]["method"] == "SimpleMI"
    (folder / "slide_000.h5").write_bytes(b"truncated")
    status, _, err = run(*words)
    assert status == 1
    assert "'slide_000'" in err
    assert "--on-missing drop" in err.replace("\n", " ")


def test_a_table_with_a_slide_in_a_row(run, tmp_path):
    """Lists of lists in an Arrow table: features and places of whole slides."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    ill = np.arange(24) % 2
    rows = [rng.normal(2 * k, 1.0, (5, 3)).astype(np.float16) for k in ill]
    half = pa.list_(pa.list_(pa.float16()))
    table = pa.table(
        {
            "slide_id": [f"s{i}" for i in range(24)],
            "patient_id": [f"p{i % 2}-{i // 4}" for i in range(24)],
            "MSI": ill,
            "features": pa.array([[list(row) for row in bag] for bag in rows], half),
            "coords": [[[j, i] for j in range(5)] for i in range(24)],
        }
    )
    pq.write_table(table, tmp_path / "slides.parquet")
    words = ["compare", tmp_path / "slides.parquet", "--bag", "slide_id", *QUICK]
    words += ["--label", "MSI", "--group", "patient_id", "--out", tmp_path / "out"]
    status, out, err = run(*words)
    assert status == 0, err
    assert "n_features=3" in err
    assert "12 groups, never split" in err
    assert "Per group (12 groups): AUROC 1.000" in " ".join(out.split())
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert '"maps":{"frames":[[' in page  # slides are pictures


def test_a_broken_row_is_told_with_its_file_and_line(run, slides):
    lines = slides.read_text(encoding="utf-8").splitlines()
    slides.write_text("\n".join([*lines[:7], "s2,p0,H&E", *lines[7:]]) + "\n")
    status, _, err = run("compare", slides, *ROLES, "--positive", "ill", *QUICK)
    assert status == 1
    assert f"{slides}, line 8" in err


def test_a_broken_value_is_told_with_its_file_and_line(run, slides):
    text = slides.read_text(encoding="utf-8").splitlines()
    text[5] = text[5].rpartition(",")[0] + ",1.2.3"
    slides.write_text("\n".join(text) + "\n", encoding="utf-8")
    status, _, err = run("compare", slides, *ROLES, "--positive", "ill", *QUICK)
    assert status == 1
    assert str(slides) in err
    assert "line 6" in err
    assert "'1.2.3'" in err


def test_the_command_says_what_it_took_the_table_for(run, slides, tmp_path):
    words = [*ROLES, "--positive", "ill", *QUICK, "--out", tmp_path / "out"]
    status, _, err = run("compare", slides, *words, "--time-budget", 600)
    assert status == 0
    assert "classes: ill 18 (positive), well 18; 12 groups, never split" in err


def test_weights_and_places_have_columns(run, slides, tmp_path):
    rows = list(csv.reader(io.StringIO(slides.read_text(encoding="utf-8"))))
    head, *body = rows
    lines = [",".join([*head, "w", "px", "py"])]
    for k, row in enumerate(body):
        weight = 1 + int(row[0][1:]) % 3
        lines.append(",".join([*row, str(weight), str(k % 3), "0"]))
    slides.write_text("\n".join(lines) + "\n", encoding="utf-8")
    roles = [*ROLES, "--weight", "w", "--coords", "px", "--coords", "py"]
    out = tmp_path / "out"
    quick = ["SimpleMI,Citation-kNN" if w == "SimpleMI" else w for w in QUICK]
    status, text, err = run("compare", slides, *roles, *quick, "--out", out)
    assert status == 0, err
    assert "weights from 1 to 3" in err
    assert "not supported by Citation-kNN" in " ".join(text.split())
    page = (out / "report.html").read_text(encoding="utf-8")
    assert (
        "in figures all test bags have the same weight; not supported by Citation-kNN"
        in page
    )
    model = out / "model.bagwise"
    status, text, err = run("predict", model, slides, *roles)
    assert status == 0, err
    assert len(list(csv.reader(io.StringIO(text)))) == 37
    status, text, err = run("explain", model, slides, *roles, "--out", tmp_path / "why")
    assert status == 0, err
    assert len(list((tmp_path / "why" / "heatmaps").glob("*.png"))) == 36
    assert len(list((tmp_path / "why" / "geojson").glob("*.geojson"))) == 36
    # Test bags may lack weights, the data themselves may not.
    bare = tmp_path / "bare.csv"
    rows = [line.split(",") for line in lines]
    others = [",".join([*row[:7], *row[8:]]) for row in rows[:1]]
    for row in rows[1:]:  # other patients with other values
        values = [f"q{row[1]}", *row[2:6], row[6] + "1"]
        others.append(",".join([row[0], *values, *row[8:]]))
    bare.write_text("\n".join(others) + "\n", encoding="utf-8")
    words = [*roles, *QUICK, "--out", tmp_path / "two"]
    status, _, err = run("compare", slides, "--test", bare, *words)
    assert status == 0, err
    status, _, err = run("compare", bare, *words)
    assert status == 1
    assert "there is no column 'w'" in err


def test_provenance_names_no_argument_of_python(run, tmp_path):
    path = tmp_path / "values.csv"
    rng = np.random.default_rng(0)
    rows = [f"b{i},{rng.normal():.3f},{rng.normal():.3f}" for i in range(40)]
    path.write_text("bag,y,u\n" + "\n".join(rows) + "\n", encoding="utf-8")
    words = ["--methods", "Mean + ridge", *QUICK[2:], "--out", tmp_path / "out"]
    status, _, err = run("compare", path, "--bag", "bag", "--label", "y", *words)
    assert status == 0, err
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "real values)" in page
    assert "task=" not in page


def test_several_labels_and_labels_to_leave_out(run, tmp_path):
    rng = np.random.default_rng(0)
    lines = ["bag,msi,braf,grade,u"]
    for i in range(40):
        grade = "unknown" if i % 10 == 9 else "high" if i % 2 else "low"
        lines.append(f"b{i},{i % 2},{i // 2 % 2},{grade},{rng.normal():.4f}")
    path = tmp_path / "t.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    words = ["compare", path, "--bag", "bag", *QUICK, "--drop"]
    status, _, err = run(
        *words, "grade", "--label", "msi,braf", "--out", tmp_path / "a"
    )
    assert status == 0, err
    assert "msi" in (tmp_path / "a" / "report.html").read_text(encoding="utf-8")
    one = ["msi,braf", "--label", "grade", "--positive", "high"]
    status, _, err = run(*words, *one, "--exclude-label", "unknown", "--json")
    assert status == 0, err
    status, _, err = run(*words, *one)
    assert status == 1
    assert "'unknown'" in err
