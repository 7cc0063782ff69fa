"""Results for a paper: opened again, figures, tables, the methods section."""

import json
import re
import warnings
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import bagwise
from bagwise.bags import Bags
from bagwise.cli import main
from bagwise.comparison import (
    Comparison,
    CrossValidation,
    Leaderboard,
    description,
)
from bagwise.comparison.leaderboard import critical_difference
from bagwise.compose import SimpleMI
from bagwise.datasets import make_bags
from bagwise.report import methods_text, write_figure

METHODS = ["SimpleMI", "MILR", "MI-SVM (linear)"]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    X, y = make_bags(60, random_state=0)
    coords = np.concatenate([np.indices((n, 1))[:, :, 0].T for n in X.sizes])
    X = Bags(
        X.data,
        X.offsets,
        groups=[f"p{i // 2}" for i in range(60)],
        ids=[f"bag_{i}" for i in range(60)],
        coords=coords * 100,
    )
    options = {"methods": METHODS, "grid": "none", "n_jobs": 1, "progress": False}
    found = bagwise.compare(X, y, out=folder, name="50% & more", **options)
    return folder, found


def noisy_mean(X):
    noise = np.random.default_rng(0).normal(size=len(X))
    return np.array([bag[:, 0].mean() for bag in X]) + noise


def run(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    captured = capsys.readouterr()
    return ended.value.code or 0, captured.out, captured.err


def test_an_opened_comparison_has_the_same_results(results):
    folder, found = results
    opened = Comparison.open(folder)
    assert opened.summary() == found.summary()
    assert opened.cautions == found.cautions
    assert repr(opened) == repr(found)
    for one, two in zip(opened.ranking, found.ranking, strict=True):
        assert one.to_dict() == two.to_dict()
    with pytest.raises(ValueError, match="no instances to fit"):
        opened.fit_best()


@pytest.mark.parametrize(
    ("y", "task"),
    [
        (lambda X, y: np.where(y > 0, "a", "b"), "classification"),
        (lambda X, y: noisy_mean(X), "regression"),
        (lambda X, y: np.arange(60) % 3, "classification"),
    ],
)
def test_other_targets_and_protocols_are_opened(tmp_path, y, task):
    X, labels = make_bags(60, random_state=1)
    target = y(X, labels)
    methods = ["SimpleMI"] if task == "classification" else ["Mean + ridge"]
    found = bagwise.compare(
        X,
        target,
        methods=methods,
        grid="none",
        n_jobs=1,
        progress=False,
        protocol=CrossValidation(3, 2),
        pos_label="a" if target.dtype.kind == "U" else None,
        out=tmp_path / "out",
        store=tmp_path / "elsewhere" / "runs.sqlite",
    )
    with pytest.raises(ValueError, match="a store outside of its folder"):
        Comparison.open(tmp_path / "out")
    store = tmp_path / "elsewhere" / "runs.sqlite"
    opened = Comparison.open(tmp_path / "out", store=store)
    assert repr(opened) == repr(found)
    assert opened.problem.positive == found.problem.positive


def test_copies_stay_one_unit(tmp_path):
    X, y = make_bags(40, random_state=0)
    X, y = Bags.concatenate([X, X]), np.append(y, y)
    options = {"methods": ["SimpleMI"], "grid": "none", "n_jobs": 1, "progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of copies, and of few bags
        found = bagwise.compare(X, y, out=tmp_path, **options)
    opened = Comparison.open(tmp_path)
    assert opened.ranking[0].to_dict() == found.ranking[0].to_dict()
    assert opened.problem.n_copies == 40


@pytest.mark.parametrize("content", [b"", b"no archive", None])
def test_what_is_no_comparison_is_refused(tmp_path, content):
    with pytest.raises(FileNotFoundError, match=r"has no comparison\.npz"):
        Comparison.open(tmp_path)
    if content is None:
        np.savez(tmp_path / "comparison.npz", about=np.array(json.dumps({})))
    else:
        (tmp_path / "comparison.npz").write_bytes(content)
    with pytest.raises(ValueError, match="is damaged|truncated"):
        Comparison.open(tmp_path)


def test_a_file_does_not_choose_what_is_imported(results, tmp_path):
    """Classes of methods are names: nothing is imported for them."""
    folder, _ = results
    (tmp_path / "runs.sqlite").write_bytes((folder / "runs.sqlite").read_bytes())
    with np.load(folder / "comparison.npz") as file:
        arrays = {name: file[name] for name in file.files}
    about = json.loads(str(arrays.pop("about")))
    for method in about["methods"]:
        method["path"] = "antigravity.fly"
    np.savez(tmp_path / "comparison.npz", about=np.array(json.dumps(about)), **arrays)
    allowed = set(description._trusted)
    opened = Comparison.open(tmp_path)
    assert set(description._trusted) - allowed <= {"bagwise.compose.SimpleMI"}
    assert opened.methods[0].path == "antigravity.fly"
    methods_text(opened)
    with pytest.raises(ImportError, match="antigravity"):
        _ = opened.methods[0].weights


# Figures ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    ["ranking", "roc", "precision-recall", "calibration", "confusion", "heatmap"],
)
def test_figures_have_the_width_of_a_column(results, kind, tmp_path):
    path = write_figure(Comparison.open(results[0]), tmp_path / "f.svg", kind)
    root = ET.parse(path).getroot()
    assert float(root.get("width").removesuffix("pt")) <= 89 / 25.4 * 72 + 0.1
    assert "".join(root.itertext()).strip()  # text is text, not outlines


def test_widths_are_names_or_millimeters(results, tmp_path):
    found = Comparison.open(results[0])
    for width, mm in (("single", 89), ("double", 183), (100, 100)):
        path = write_figure(found, tmp_path / "f.svg", width=width)
        points = float(ET.parse(path).getroot().get("width").removesuffix("pt"))
        assert points == pytest.approx(mm / 25.4 * 72, abs=0.1)
    for width in ("wide", 3):
        with pytest.raises(ValueError, match="width"):
            write_figure(found, tmp_path / "f.svg", width=width)


def test_the_figure_shows_the_curve_of_the_methods(results, tmp_path):
    found = Comparison.open(results[0])
    path = write_figure(found, tmp_path / "f.svg", "roc", methods=["MILR"])
    text = "".join(ET.parse(path).getroot().itertext())
    assert "MILR (" in text
    assert "SimpleMI" not in text


def test_key_instances_need_the_instances(results, tmp_path):
    folder, found = results
    path = write_figure(found, tmp_path / "key.pdf", "key-instances")
    assert path.read_bytes().startswith(b"%PDF")
    with pytest.raises(ValueError, match="bagwise explain"):
        write_figure(Comparison.open(folder), path, "key-instances")


def test_values_and_their_errors(tmp_path):
    X, _ = make_bags(60, random_state=1)
    y = noisy_mean(X)
    found = bagwise.compare(
        X, y, methods=["Mean + ridge"], grid="none", n_jobs=1, progress=False
    )
    assert write_figure(found, tmp_path / "v.pdf", "values").is_file()
    for kind, message in (("roc", "for classes"), ("survival", "for times")):
        with pytest.raises(ValueError, match=message):
            write_figure(found, tmp_path / "v.pdf", kind)


def test_mistakes_are_named(results, tmp_path):
    found = Comparison.open(results[0])
    for options, message in (
        ({"kind": "pie"}, "known: ranking"),
        ({"path": tmp_path / "f.doc"}, "ends in"),
        ({"methods": ["other"]}, "no results of 'other'"),
        ({"kind": "critical-difference"}, "needs a Leaderboard"),
        ({"kind": "heatmap", "bags": ["other"]}, "no bag 'other'"),
    ):
        given = {"path": tmp_path / "f.pdf", **options}
        with pytest.raises(ValueError, match=message):
            write_figure(found, **given)


# Tables and texts ---------------------------------------------------------------------


def test_tables_hold_the_ranking(results):
    _, found = results
    lines = found.to_markdown().splitlines()
    assert len(lines) == 2 + len(METHODS)
    first = found.ranking[0]
    assert first.method in lines[2]
    assert f"{first.mean:.3f}" in lines[2]
    latex = found.to_latex(label="tab:own")
    assert r"50\% \& more" in latex
    assert r"\label{tab:own}" in latex
    rows = latex.partition(r"\midrule")[2].partition(r"\bottomrule")[0].strip()
    columns = {len(re.split(r"(?<!\\)&", row)) for row in rows.splitlines()}
    assert columns == {5}


def test_a_difference_is_that_of_the_ranking(results):
    _, found = results
    row = found.ranking[-1]
    cells = found.to_markdown().splitlines()[-1].split(" | ")
    assert cells[3].startswith(f"{-row.effect:.3f}")


def test_the_methods_section_states_what_was_done(results):
    _, found = results
    section = methods_text(found)
    for text in (
        "60 bags",
        "of 30 groups",
        "MILR (Ray and Craven, 2005)",
        "all bags of a group in the same fold",
        "fixed parameters",
        "(Holm, 1979)",
    ):
        assert text in section.text
    assert "inner" not in section.text
    keys = re.findall(r"@\w+\{(\w+),", section.bibtex)
    latex, markdown = (
        methods_text(found, format=f).text for f in ("latex", "markdown")
    )
    cited = {k for c in re.findall(r"\\cite\{(.+?)\}", latex) for k in c.split(",")}
    assert cited == set(keys) == set(re.findall(r"@(\w+)", markdown))
    assert "10.1145/1102351.1102439" in section.bibtex
    with pytest.raises(ValueError, match="format"):
        methods_text(found, format="word")


def test_tuning_is_described(tmp_path):
    X, y = make_bags(60, random_state=0)
    methods = [("own", SimpleMI()), "MILR"]
    found = bagwise.compare(X, y, methods=methods, n_jobs=1, progress=False)
    section = methods_text(found)
    assert "inner 3-fold cross-validation" in section.text
    assert "(Varma and Simon, 2006)" in section.text
    assert "own and MILR" in section.text


def test_every_paper_of_the_catalog_is_read():
    from bagwise.comparison import list_methods
    from bagwise.report._methods_text import reference_of

    for method in list_methods():
        found = reference_of(method)
        if not re.search(r"\d{4}$", method.paper):
            assert found is None, method.name
            continue
        assert found.year.isdigit()
        assert len(found.title) > 5, method.name
        surnames = " ".join(found.surnames)
        assert not re.search(r"\band\b", surnames), method.name


@pytest.mark.parametrize(
    ("name", "surnames", "year", "title", "where"),
    [
        ("Mean + Cox", ["Cox"], "1972", "Regression models and life-", "Journal of"),
        ("MI-SVM", ["Andrews", "Tsochantaridis", "Hofmann"], "2002", "Support", "NIPS"),
        ("EMD ridge", ["Zhang", "Marszalek", "Lazebnik", "Schmid"], "2007", "", "IJCV"),
        ("Statistics + survival boosting", ["Ridgeway"], "1999", "The state of", ""),
        ("SKSC + LS-SVM", ["Langone", "Suykens"], "2013", "Soft kernel", ""),
        (
            "GMIL",
            ["Scott", "Zhang", "Brown"],
            "2003",
            "On generalized",
            "UNL-CSE-2003-5",
        ),
    ],
)
def test_references_are_those_of_the_papers(name, surnames, year, title, where):
    from bagwise.comparison import list_methods
    from bagwise.report._methods_text import reference_of

    found = [m for m in list_methods() if m.name == name]
    if not found:
        pytest.skip("needs scikit-survival")
    reference = reference_of(found[0])
    assert (reference.surnames, reference.year) == (surnames, year)
    assert reference.title.startswith(title)
    assert where in reference.where


# Several data sets --------------------------------------------------------------------


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    folder = tmp_path_factory.mktemp("several")
    found = []
    for seed in range(4):
        X, y = make_bags(40, random_state=seed, shift=1.5)
        methods = METHODS if seed else [*METHODS, "Mean + logistic"]
        options = {"methods": methods, "grid": "none", "n_jobs": 1, "progress": False}
        out = folder / f"set{seed}"
        found.append(bagwise.compare(X, y, name=f"set {seed}", out=out, **options))
    return folder, found


def test_a_leaderboard_ranks_common_methods(several):
    _, found = several
    board = Leaderboard.of(found)
    assert set(board.methods) == set(METHODS)
    assert board.left_out == ["Mean + logistic: not on 3 of 4 data sets"]
    values = {row.method: row.mean for row in found[2].ranking}
    j = board.methods.index("MILR")
    assert board.values[2, j] == values["MILR"]
    assert board.critical_difference == critical_difference(3, 4)
    frame = board.to_frame()
    assert list(frame.index) == list(board.methods)
    np.testing.assert_allclose(frame["set 2"], board.values[2])
    assert frame["mean_rank"].is_monotonic_increasing
    assert len(board.to_markdown().splitlines()) == 5
    assert board.to_latex().count(r"\\") == 4
    auroc = Leaderboard.of(found, metric="auroc")
    assert auroc.values[0, 0] == next(
        row.auroc for row in found[0].ranking if row.method == auroc.methods[0]
    )
    with pytest.raises(ValueError, match="different names"):
        Leaderboard.of([found[0], found[0]])
    with pytest.raises(ValueError, match="unknown metric"):
        Leaderboard.of(found, metric="size")


def test_bars_join_what_is_within_the_difference(several):
    board = Leaderboard.of(several[1])
    for ranks, expected in (
        ([1.0, 1.5, 3.0], [(0, 1)]),
        ([1.0, 1.9, 2.8], [(0, 1), (1, 2)]),
        ([1.0, 2.5, 4.0], []),
        ([1.0, 1.1, 1.2], [(0, 2)]),
    ):
        own = {**vars(board), "ranks": np.array(ranks), "critical_difference": 1.0}
        assert Leaderboard(**own).tied == expected


def test_the_diagram_names_all_methods(several, tmp_path):
    board = Leaderboard.of(several[1])
    path = write_figure(board, tmp_path / "cd.svg", "critical-difference")
    text = "".join(ET.parse(path).getroot().itertext())
    for name in board.methods:
        assert name in text
    with pytest.raises(ValueError, match="one comparison"):
        write_figure(board, tmp_path / "cd.svg", "ranking")


# The command line ---------------------------------------------------------------------


def test_the_commands(capsys, results, several, tmp_path):
    folder, found = results
    status, out, _ = run(capsys, "figure", folder, "--kind", "roc", "--format", "svg")
    assert status == 0
    assert (folder / "roc.svg").is_file()
    status, out, _ = run(capsys, "table", folder)
    assert status == 0
    assert out == found.to_markdown()
    status, out, _ = run(capsys, "methods-text", folder, "--bib", tmp_path / "r.bib")
    assert status == 0
    assert out.startswith(methods_text(found).text)
    assert (tmp_path / "r.bib").read_text() == methods_text(found).bibtex
    status, out, _ = run(capsys, "methods-text", folder, "--json")
    assert json.loads(out)["bibtex"] == methods_text(found).bibtex
    sets = [several[0] / f"set{k}" for k in range(4)]
    status, _, _ = run(capsys, "figure", *sets, "--out", tmp_path / "cd.pdf")
    assert status == 0
    status, out, _ = run(capsys, "table", *sets, "--format", "latex")
    assert out == Leaderboard.of(several[1]).to_latex()
    status, _, err = run(capsys, "figure", tmp_path)
    assert status == 1
    assert "comparison.npz" in err
    status, _, err = run(capsys, "figure", folder, "--format", "gif")
    assert status == 2
