"""What `bagwise compare` says about intervals, tests and repeats."""

import json

import pytest

WORDS = ["--bag", "slide", "--label", "diagnosis", "--group", "patient"]
WORDS += ["--features", "u,v", "--positive", "ill", "--grid", "none"]
WORDS += ["--jobs", 1, "--time-limit", 0]


@pytest.mark.parametrize(("words", "repeats"), [([], 2), (["--repeats", 1], 1)])
def test_few_bags_are_partitioned_twice(run, slides, tmp_path, words, repeats):
    methods = ["--methods", "SimpleMI", "--out", tmp_path / "out", "--json"]
    status, out, _ = run("compare", slides, *WORDS, *methods, *words)
    found = json.loads(out)
    assert status == 0
    assert found["protocol"]["n_repeats"] == repeats
    assert found["ranking"][0]["n_folds"] == 5 * repeats
    assert found["ranking"][0]["reliable"]


def test_the_command_speaks_of_patients_and_of_the_corrected_figure(
    run, slides, tmp_path
):
    methods = ["--methods", "SimpleMI, WrapperMI", "--out", tmp_path / "out"]
    status, out, _ = run("compare", slides, *WORDS, *methods)
    text = " ".join(out.split())
    assert status == 0
    for words in (
        "if the study were repeated with new groups of bags, 95 of 100 such intervals",
        "With only 12 groups, it cannot be concluded",
        "Per group (12 groups): AUROC",
        "corrected for its selection among 2 methods",
        "times as many",
    ):
        assert words in text, words
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    for words in ("With only 12 groups", "corrected for its selection", "95 of 100"):
        assert words in page, words
