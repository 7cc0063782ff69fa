"""What a stranger's data folder, store or description must not be able to do."""

import contextlib
import hashlib
import json
import socket
import sqlite3
import sys

import pytest

from bagwise.cli._options import DESCRIBES_DATA
from bagwise.comparison.choose import METHODS, find_method
from bagwise.comparison.description import build_estimator, classes_in
from bagwise.comparison.store import Store
from bagwise.io.registry import find_described

ROLES = 'bag = "slide"\nlabel = "diagnosis"\npositive = "ill"\nfeatures = ["u", "v"]\n'
QUICK = ["--methods", "SimpleMI", "--grid", "none", "--jobs", 1, "--time-limit", 0]
COMMANDS = ("compare", "fit", "predict", "explain")


@pytest.fixture
def folder(slides, tmp_path, monkeypatch):
    """Return a downloaded folder, in which the user stands, with an evil module."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "evil.py").write_text(
        "import pathlib\npathlib.Path('PWN').touch()\n\nclass Estimator:\n    pass\n",
        encoding="utf-8",
    )
    yield tmp_path
    sys.modules.pop("evil", None)


def settings(folder, text, name="bagwise.toml"):
    path = folder / name
    path.write_text(text + ROLES, encoding="utf-8")
    return path


def words(command, folder):
    """Return a command with its arguments, on the data of the folder."""
    if command in ("predict", "explain"):
        return [command, folder / "m.bagwise", folder / "slides.csv"]
    return [command, folder / "slides.csv"]


def names_of(folder):
    return sorted(path.name for path in folder.iterdir())


def calls(name, params='command="touch PWN"'):
    return f'SimpleMI.estimator={{class="{name}", params={{{params}}}}}'


@pytest.mark.parametrize("command", ["compare", "fit"])
@pytest.mark.parametrize("where", ["found", "section", "named", "command line"])
def test_no_settings_run_code(run, folder, command, where):
    """Found files set no methods; descriptions anywhere name no functions."""
    text = f"set = ['{calls('os.system')}']\n"
    quick = QUICK if command == "compare" else ["--method", "SimpleMI"]
    line = [*words(command, folder), *quick, "--out", folder / "result"]
    if where == "found":
        settings(folder, text)
    elif where == "section":
        path = settings(folder, "")
        with path.open("a", encoding="utf-8") as file:
            file.write(f'["slides.csv"]\n{text}')
    elif where == "named":
        line += ["--config", settings(folder, text, "study.toml")]
    else:
        settings(folder, "")
        line += ["--set", calls("os.system")]
    before = names_of(folder)
    status, _, err = run(*line)
    assert names_of(folder) == before
    if where in ("found", "section"):
        assert status == 2
        assert "bagwise.toml was found next to the data" in err
        assert "sets set: give that on the command line" in err
        assert "in a file named with --config" in err
    else:
        assert status == 1
        assert "'os.system' is not an estimator of bagwise" in err


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "option",
    [
        'out = "{folder}/victim"',
        'labels = "{folder}/slides.csv"',
        'images = "{folder}"',
        'test = "{folder}/slides.csv"',
        'config = "{folder}/study.toml"',
        'data = "{folder}/slides.csv"',
        'model = "{folder}/m.bagwise"',
        'methods = ["SimpleMI"]',
        'method = "SimpleMI"',
        'grid = "none"',
        "jobs = 64",
        "folds = 2",
        "time-limit = 0",
        "retry-failed = true",
        "json = true",
        'by = "single"',
        "seed = 1",
    ],
)
def test_found_files_describe_data_only(run, folder, command, option):
    victim = folder / "victim"
    victim.write_text("precious", encoding="utf-8")
    settings(folder, option.format(folder=folder) + "\n")
    before = names_of(folder)
    status, out, err = run(*words(command, folder))
    assert status == 2
    assert out == ""
    assert f"sets {option.partition(' ')[0]}: give that on the command line" in err
    assert names_of(folder) == before
    assert victim.read_text(encoding="utf-8") == "precious"


def test_every_option_is_decided():
    """A new option is not taken from found files before someone has thought of it."""
    import typer

    from bagwise.cli._main import app

    commands = typer.main.get_command(app).commands
    known = {p.name for name in COMMANDS for p in commands[name].params}
    assert known >= DESCRIBES_DATA
    assert known - DESCRIBES_DATA == {
        *(
            "alpha",
            "bag_features",
            "by",
            "calibrate",
            "config",
            "conformal",
            "conformal_per_class",
            "csv_escape",
            "data",
            "folds",
            "format_",
            "grid",
            "half_splits",
        ),
        *(
            "images",
            "jobs",
            "json",
            "labels",
            "leave_one_out",
            "margin",
            "memory_limit",
        ),
        *("method", "methods", "metric", "model", "out", "permute_features"),
        *("outlier", "prediction_sets", "test_labels"),
        *("repeats", "retry_failed", "scheduler", "seed", "set_", "test"),
        *("time_budget", "time_limit"),
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_a_found_file_connects_to_no_scheduler(run, folder, command):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        settings(folder, f'scheduler = "tcp://127.0.0.1:{server.getsockname()[1]}"\n')
        status, _, err = run(*words(command, folder))
        with pytest.raises(BlockingIOError):
            server.accept()
    assert status == 2
    assert "sets scheduler: give that" in err


def test_a_found_file_may_be_named(run, folder):
    """Whoever names bagwise.toml has read it, and it may set everything."""
    path = settings(folder, 'set = ["SimpleMI.pooling=max"]\nout = "mine.bagwise"\n')
    line = [*words("fit", folder), "--method", "SimpleMI", "--grid", "none"]
    assert run(*line)[0] == 2
    status, _, err = run(*line, "--config", path)
    assert status == 0, err
    assert (folder / "mine.bagwise").is_file()


def test_found_text_does_not_reach_the_terminal_as_control_characters(run, folder):
    settings(folder, 'group = "\\u001b]0;owned\\u0007"\n')
    _, _, err = run("compare", folder / "slides.csv", *QUICK)
    assert "group = '\\x1b]0;owned\\x07'" in err
    assert "\x1b]0" not in err


def test_estimators_of_the_list_are_set_by_name(run, folder):
    settings(folder, "")
    svc = '{class="sklearn.svm.SVC", params={C=2.5}}'
    line = [*words("compare", folder), *QUICK, "--out", folder / "result", "--json"]
    status, out, err = run(*line, "--set", f"SimpleMI.estimator={svc}")
    assert status == 0, out + err
    with Store(folder / "result" / "runs.sqlite") as store:
        for row in store.rows():
            estimator = row["description"]["estimator"]["params"]["estimator"]
            assert estimator == {"class": "sklearn.svm.SVC", "params": {"C": 2.5}}


HOSTILE = [
    {"class": "os.system", "params": {"command": "touch PWN"}},
    {"class": "evil.Estimator", "params": {}},
    {
        "class": "bagwise.compose.SimpleMI",
        "params": {"estimator": {"class": "os.system", "params": {"command": "true"}}},
    },
    {
        "class": "sklearn.preprocessing.FunctionTransformer",
        "params": {"func": {"type": "os.system"}},
    },
    {
        "class": "sklearn.pipeline.Pipeline",
        "params": {
            "memory": "evil-cache",
            "steps": [["svc", {"class": "sklearn.svm.SVC", "params": {}}]],
        },
    },
    {"class": "bagwise.svm.PCSVM", "params": {"memory": "evil-cache"}},
]


@pytest.mark.parametrize("spec", HOSTILE, ids=lambda spec: spec["class"])
def test_rows_of_a_store_run_no_code(run, folder, spec):
    """Finished and failed rows with other descriptions, read in every way there is."""
    settings(folder, "")
    out = folder / "result"
    line = [*words("compare", folder), *QUICK, "--out", out, "--json"]
    assert run(*line)[0] == 0
    with sqlite3.connect(out / "runs.sqlite") as db:
        for key, content in db.execute("SELECT key, row FROM runs").fetchall():
            row = json.loads(content)
            row["description"]["estimator"] = spec
            content = json.dumps(row).encode()
            changed = (content, hashlib.sha256(key.encode() + content).hexdigest())
            query = "UPDATE runs SET row = ?, row_hash = ? WHERE key = ?"
            db.execute(query, (*changed, key))
        db.execute("UPDATE runs SET status = 'failed' WHERE key = ?", [key])
    db.close()
    assert run(*line)[0] in (0, 1)
    assert run(*line, "--retry-failed")[0] == 0
    with contextlib.suppress(ImportError):
        build_estimator(spec)
    assert not (folder / "PWN").exists()
    assert not (folder / "evil-cache").exists()
    assert "evil" not in sys.modules


@pytest.mark.parametrize(
    "name",
    [
        "os.system",
        "posix.system",
        "builtins.eval",
        "builtins.type",
        "subprocess.Popen",
        "joblib.load",
        "pickle.loads",
        "numpy.load",
        "numpy.lib.npyio.load",
        "evil.Estimator",
        "bagwise.io.load",
        "bagwise.io._models.importlib",
        "bagwise.svm.evil.Estimator",
        "bagwise.svm.__builtins__",
        "bagwise.compose._simple_mi.clone",
        "bagwise.compose._simple_mi.BaseEstimator",
        "bagwise.comparison.store.Store",
        "sklearn.datasets.fetch_openml",
        "sklearn.base.BaseEstimator",
        "sklearn.svm._base.evil",
        "sklearn.svm._nowhere.SVC",
        "sklearn.metrics._scorer._PassthroughScorer",
        "sklearn.feature_extraction.image.PatchExtractor",
        "sklearn.svm.SVC.__init__",
        "sksurv.datasets.load_whas500",
        "SVC",
        "",
        ".",
        "..os.system",
        "os\n.system",
    ],
)
def test_names_that_no_description_may_hold(folder, name):
    assert find_described(name) is None
    with pytest.raises(ImportError, match="that a description may name"):
        build_estimator({"class": name, "params": {}})
    value = {"class": "bagwise.compose.SimpleMI", "params": {"pooling": {"type": name}}}
    with pytest.raises(ImportError, match="that a description may name"):
        build_estimator(value)
    assert not (folder / "PWN").exists()


@pytest.mark.parametrize("name", [None, 3, ["os.system"], {"class": "os.system"}])
def test_names_are_text(name):
    with pytest.raises((ImportError, TypeError)):
        build_estimator({"class": name})


def test_functions_are_values_and_are_not_called():
    spec = {"class": "sklearn.feature_selection.chi2", "params": {"X": [], "y": []}}
    with pytest.raises(TypeError, match="is not a class"):
        build_estimator(spec)


def test_the_catalog_is_on_the_list():
    """No entry of the catalog needs trust."""
    here = [method for method in METHODS if not method.missing]
    parts = [[m.spec(), m.grid, m.large_grid] for m in here]
    named = set(classes_in(parts))
    assert len(named) > 40
    for name in named:
        assert find_described(name).__name__ == name.rpartition(".")[2]


def test_own_names_in_parameters_are_refused_before_the_first_run():
    with pytest.raises(ImportError, match="pass the estimator itself"):
        find_method("SimpleMI").with_params(estimator={"class": "evil.Estimator"})
