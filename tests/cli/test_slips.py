"""What careless people write: one line says what to do, before any work."""

import gzip
import shutil

import numpy as np
import pytest

ROLES = ["--bag", "slide", "--label", "diagnosis"]
QUICK = ["--methods", "SimpleMI", "--grid", "none", "--jobs", 1, "--time-limit", 0]


def test_the_label_is_asked_for_before_columns_are_complained_of(run, slides):
    status, _, err = run("compare", slides, "--bag", "slide")
    assert status == 2
    assert "error: " in err
    assert "name it with --label (real values: --target)" in err
    assert "--drop" not in err


def test_the_positive_class_is_asked_for_before_anything_is_said(run, slides):
    words = [*ROLES, "--group", "patient", "--drop", "stain", "--drop", "tile"]
    status, _, err = run("compare", slides, *words)
    assert status == 1
    assert err.startswith("error: the labels are 'ill' and 'well', and it is not")
    assert "Set --positive ill or --positive well." in err


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--bag", "stain"], "--bag takes one value and got slide and stain"),
        (["--methods", "SimpleMI", "--methods=MILR"], "got SimpleMI and MILR"),
        (["-j", "1", "--jobs", "2"], "--jobs takes one value and got 1 and 2"),
    ],
)
def test_an_option_given_twice_is_refused(run, slides, more, message):
    status, _, err = run("compare", slides, *ROLES, *more)
    assert status == 2
    assert message in err


def test_columns_may_be_listed_by_commas(run, slides, tmp_path):
    lists = ["--drop", "stain,tile", "--positive", "ill", "--group", "patient"]
    words = [*ROLES, *lists, *QUICK, "--out", tmp_path / "out"]
    status, _, err = run("compare", slides, *words)
    assert status == 0, err
    assert "n_features=2" in err
    status, _, err = run("compare", slides, *ROLES, "--drop", "stain,tale")
    assert status == 1
    assert "there is no column 'tale'" in err
    # A column may be called so.
    text = slides.read_text(encoding="utf-8").replace("stain", '"stain,tile"', 1)
    slides.write_text(text, encoding="utf-8")
    words = [*ROLES, *lists, "--drop", "tile", *QUICK, "--out", tmp_path / "two"]
    status, _, err = run("compare", slides, *words)
    assert status == 0, err
    assert "n_features=2" in err


@pytest.mark.filterwarnings("default::bagwise.exceptions.DataWarning")
def test_a_group_that_is_dropped_is_told_where_bags_are_split(run, slides, tmp_path):
    drop = ["--drop", "stain,tile,patient", "--positive", "ill"]
    status, _, err = run(
        "compare", slides, *ROLES, *drop, *QUICK, "--out", tmp_path / "out"
    )
    assert status == 0
    assert "'patient' is excluded" in err
    assert "--group patient" in err
    model = tmp_path / "out" / "model.bagwise"
    status, _, err = run("predict", model, slides, *ROLES, *drop)
    assert (status, err) == (0, "")


def test_a_format_can_be_told(run, slides, tmp_path):
    path = tmp_path / "slides.table"
    shutil.copyfile(slides, path)
    words = [*ROLES, "--drop", "stain,tile", "--group", "patient", "--positive", "ill"]
    status, _, err = run("compare", path, *words)
    assert status == 1
    assert "Give --format FORMAT" in err
    words += ["--format", "csv", *QUICK, "--out", tmp_path / "out"]
    status, _, err = run("compare", path, *words)
    assert status == 0, err
    with gzip.open(path, "wb") as file:  # packed or not is seen by itself
        file.write(slides.read_bytes())
    status, _, err = run("compare", path, *words)
    assert status == 0, err


def classes_and_values(folder):
    """Write a table of three classes and whole numbers."""
    rng = np.random.default_rng(0)
    lines = ["bag,kind,count,y,u"]
    for i in range(60):
        for _ in range(2):
            u = rng.normal()
            lines.append(f"b{i},{'abc'[i % 3]},{i % 12 * (i > 1)},{i / 7:.3f},{u:.3f}")
    path = folder / "many.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--label", "kind", "--positive", "a", "--drop", "count,y"],
            "--positive names one of two classes, 'a', but the data have 3, 'a', 'b'",
        ),
        (
            ["--target", "y", "--positive", "a", "--drop", "count,kind"],
            "--positive names one of two classes, 'a', but the data have values; omit",
        ),
        (
            ["--label", "count", "--drop", "kind,y", "--folds", "5", "--grid", "none"],
            "treated as classes. Set --task regression to predict them as values",
        ),
        (
            ["--label", "kind", "--drop", "count,y", "--time-budget", "0"],
            "error: --time-budget must be a positive time",
        ),
    ],
)
def test_refused_before_any_work(run, tmp_path, words, message):
    out = tmp_path / "out"
    path = classes_and_values(tmp_path)
    status, _, err = run("compare", path, "--bag", "bag", *words, "--out", out)
    assert status == 1
    assert message in err
    assert not out.exists()


def test_no_words_are_a_question_and_no_error(run):
    status, _, err = run()
    assert status == 2
    assert err.startswith("Usage: bagwise")
    assert "compare" in err
    assert "error" not in err.replace("traceback of an error", "")


def test_a_budget_too_short_for_any_run_says_what_is_left(run, slides, tmp_path):
    words = [*ROLES, "--drop", "stain,tile", "--group", "patient", "--positive", "ill"]
    words += [*QUICK, "--out", tmp_path / "out", "--time-budget", 1e-9]
    _, out, err = run("compare", slides, *words)
    assert "error" not in err
    assert "No method finished: 10 runs have not ended." in out
    assert (tmp_path / "out" / "report.html").exists()
