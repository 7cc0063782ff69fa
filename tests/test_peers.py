"""The adapters of other packages in benchmarks/peers.py, against small fakes."""

import importlib.util
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from bagwise.datasets import make_bags

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def peers():
    pytest.importorskip("clarabel")
    if not FOLDER.exists():
        pytest.skip("the benchmarks are not part of an installed package")
    sys.path.insert(0, str(FOLDER))
    try:
        spec = importlib.util.spec_from_file_location("peers", FOLDER / "peers.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(str(FOLDER))


@pytest.fixture
def fold():
    X, y = make_bags(12, n_features=2, random_state=0)
    return list(X[:8]), y[:8], list(X[8:])


class Machine:
    """Note how it is called; stand for the classifiers of all packages."""

    calls: list = []

    def __init__(self, **options):
        self.options = options

    def fit(self, bags, y, **options):
        self.calls.append(("fit", self.options | options, len(bags), np.asarray(y)))

    def predict(self, bags):
        self.calls.append(("predict", len(bags)))


@pytest.fixture
def calls(monkeypatch):
    found = []
    monkeypatch.setattr(Machine, "calls", found)
    return found


def fake(monkeypatch, name, **attributes):
    """Put a module, and the packages it lies in, where `import` finds them."""
    parts = name.split(".")
    for k in range(1, len(parts) + 1):
        module = types.ModuleType(".".join(parts[:k]))
        module.__path__ = []
        monkeypatch.setitem(sys.modules, module.__name__, module)
    for key, value in attributes.items():
        setattr(module, key, value)


@pytest.mark.parametrize(
    "method", ["MI-SVM", "mi-SVM", "sbMIL", "NSK", "Statistics kernel"]
)
def test_misvm_gets_signed_labels_and_our_kernel(
    peers, fold, calls, monkeypatch, method
):
    kinds = ("MISVM", "miSVM", "sbMIL", "NSK", "STK")
    fake(monkeypatch, "misvm", **dict.fromkeys(kinds, Machine))
    bags, y, test = fold
    peers.by_misvm(method, 0.5)(bags, y, test)
    (_, options, n_bags, labels), (_, n_test) = calls
    assert (n_bags, n_test) == (8, 4)
    assert set(labels) == {-1.0, 1.0}
    np.testing.assert_array_equal(labels > 0, y == 1)
    kernels = {"sbMIL": "rbf_av", "NSK": "rbf_fs"}
    assert options["kernel"] == kernels.get(method, "rbf")
    assert options["scale_C"] is False
    assert options["gamma"] == 0.5
    assert options["C"] == peers.C
    assert ("eta" in options) == (method == "sbMIL")


def test_other_packages_are_fitted_and_asked(peers, fold, calls, monkeypatch):
    fake(monkeypatch, "mil.models", MILES=Machine, APR=Machine)
    sys.modules["mil"].models = sys.modules["mil.models"]
    bags, y, test = fold
    peers.by_mil("MILES", 0.5)(bags, y, test)
    peers.by_mil("IAPR", 0.5)(bags, y, test)
    fake(monkeypatch, "MILpy.Algorithms.CKNN", CKNN=Machine)
    peers.by_milpy("Citation-kNN", 0.5)(bags, y, test)
    fake(monkeypatch, "MILpy.Algorithms.maxDD", maxDD=Machine)
    peers.by_milpy("DD", 0.5)(bags, y, test)
    fake(monkeypatch, "MILpy.Algorithms.simpleMIL", simpleMIL=Machine)
    peers.by_milpy("SimpleMI", 0.5)(bags, y, test)
    assert [call[0] for call in calls] == ["fit", "predict"] * 5
    assert calls[0][1] == {"sigma2": 2.0, "C": peers.C}
    assert calls[4][1] == {"references": 2, "citers": 4}
    assert calls[6][1] == {"spoints": 10}
    assert calls[6][3].shape == (8, 1)
    assert calls[8][1] == {"type": "average"}
    assert calls[8][3].shape == (8,)


def test_scikit_learn_gets_means_and_instances_of_equal_bags(peers, fold, monkeypatch):
    bags, y, test = fold
    fits, asked = [], []

    class Noted:
        def __init__(self, **options):
            pass

        def fit(self, X, y, sample_weight=None):
            fits.append((X, y, sample_weight))
            return self

        def predict(self, X):
            asked.append(X)
            return np.zeros(len(X))

        def predict_proba(self, X):
            self.predict(X)
            return np.tile([0.25, 0.75], (len(X), 1))

    monkeypatch.setattr(peers, "SVC", Noted)
    monkeypatch.setattr(peers, "DecisionTreeClassifier", Noted)
    peers.by_scikit_learn("SimpleMI", 0.5)(bags, y, test)
    assert peers.by_scikit_learn("WrapperMI (tree)", 0.5)(bags, y, test).all()
    (means, labels, _), (rows, of_rows, weight) = fits
    np.testing.assert_allclose(means, [bag.mean(axis=0) for bag in bags])
    np.testing.assert_array_equal(labels, y)
    starts = np.cumsum([0, *(len(bag) for bag in bags)])
    np.testing.assert_array_equal(rows, np.concatenate(bags))
    np.testing.assert_array_equal(of_rows[starts[:-1]], y)
    np.testing.assert_allclose(np.add.reduceat(weight, starts[:-1]), 1.0)
    assert [len(X) for X in asked] == [len(test), sum(len(bag) for bag in test)]


def test_methods_that_a_peer_lacks_are_left_out(peers):
    fake_names = ("by_mil", "by_milpy", "by_weka", "by_generic_program")
    for name in fake_names:
        assert getattr(peers, name)("no such method", 0.5) is None


@pytest.fixture
def java(peers, monkeypatch):
    """Stand for java: note the commands and the files, print constant predictions."""
    seen = []

    def run(command, *, input, **options):
        files = [line.split("\t") for line in input.splitlines()]
        texts = [[Path(f).read_text(encoding="utf-8") for f in pair] for pair in files]
        seen.append((command, texts))
        rows = [held_out.split("@data\n")[1].splitlines() for _, held_out in texts]
        told = "".join("# " + " ".join("1" for _ in one) + "\n" for one in rows)
        return types.SimpleNamespace(stdout="a line of WEKA\n" + told)

    monkeypatch.setenv("WEKA_JAR", "weka.jar")
    monkeypatch.setattr(peers.shutil, "which", lambda name: "/usr/bin/java")
    monkeypatch.setattr(peers.subprocess, "run", run)
    return seen


@pytest.fixture
def folds():
    X, y = make_bags(12, n_features=2, random_state=0)
    places = np.arange(12)
    return [(X, y, places[:8], places[8:]), (X, y, places[3:], places[:3])]


def test_weka_gets_files_it_can_read(peers, folds, java):
    seconds, accuracy = peers.measured_folds(peers.by_weka("MILR", 0.5), folds)
    assert seconds >= 0.0
    y = folds[0][1]
    assert accuracy == pytest.approx(np.concatenate([y[8:], y[:3]]).mean())
    # One process for all folds, and one that learns nothing.
    (command, texts), (idle, same) = java
    assert command[:3] == ["java", "-cp", "weka.jar"]
    assert Path(command[3]).is_file()
    assert command[4] == "weka.classifiers.mi.MILR"
    assert idle[4] == "weka.classifiers.rules.ZeroR"
    assert same == texts
    assert len(texts) == 2
    train, held_out = texts[0]
    header, rows = train.split("@data\n")
    assert header == held_out.split("@data\n")[0]
    assert "@attribute bag relational" in header
    assert header.count("numeric") == 2
    lines = rows.splitlines()
    assert len(lines) == 8
    assert len(held_out.split("@data\n")[1].splitlines()) == 4
    inside = lines[0].split('"')[1].split("\\n")
    values = [[float(v) for v in row.split(",")] for row in inside]
    np.testing.assert_allclose(values, folds[0][0][0], rtol=1e-8)
    assert [line[-1] for line in lines] == [str(label) for label in y[:8]]


def test_weka_gets_our_kernel_and_leaves_the_scale(peers, folds, java):
    for method in ("MI-SVM", "NSK"):
        peers.by_weka(method, 0.5).over(folds)
    commands = [command for command, _ in java]
    for command, kernel in zip(
        commands[::2], ("RBFKernel", "MIRBFKernel"), strict=True
    ):
        options = dict(zip(command[5::2], command[6::2], strict=False))
        assert options["-C"] == f"{peers.C}"
        assert options["-N"] == "2"
        assert options["-K"].endswith(f".supportVector.{kernel} -G 0.5")


def test_the_set_kernel_of_numpy_is_ours(peers, folds):
    theirs = peers.by_scikit_learn("NSK", 0.5)
    for X, y, train, test in folds:
        found = theirs([X[i] for i in train], y[train], [X[i] for i in test])
        own = peers.ours(0.5)["NSK"].fit(X[train], y[train]).predict(X[test])
        np.testing.assert_array_equal(found, own)


def test_accuracy_needs_a_prediction_for_each_bag(peers, folds):
    y = folds[0][1]
    truth = np.concatenate([y[8:], y[:3]])
    signs = peers.measured_folds(lambda *a: np.linspace(-1, 1, len(a[2])), folds)
    expected = np.concatenate([np.linspace(-1, 1, 4) > 0, np.linspace(-1, 1, 3) > 0])
    assert signs[1] == np.mean(expected == truth)
    assert peers.measured_folds(lambda *a: None, folds)[1] is None


def test_without_java_weka_is_not_here(peers, monkeypatch):
    monkeypatch.delenv("WEKA_JAR", raising=False)
    with pytest.raises(ModuleNotFoundError, match="WEKA_JAR"):
        peers.by_weka("MILR", 0.5)


def test_rows_and_page_say_who_was_there(peers, tmp_path):
    X, y = make_bags(12, n_features=2, random_state=0)
    folds = [(X, y, np.arange(8), np.arange(8, 12))]

    def broken(method, gamma):
        def run(bags, y, test):
            raise RuntimeError("no")

        return run

    def away(method, gamma):
        raise ModuleNotFoundError("away", name="away")

    others = {
        "one rbf_kernel": peers.by_one_kernel_matrix,
        "broken": broken,
        "away": away,
    }
    rows = list(peers.measured("drawn", folds, 0.5, ["NSK"], others))
    assert [row["other"] for row in rows] == list(others)
    assert float(rows[0]["ratio"]) > 0.0
    assert rows[1]["note"] == "failed: RuntimeError"
    assert rows[2]["note"] == "not here: away"
    peers.write(rows, tmp_path, 1, note="Away is elsewhere.")
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "| drawn | NSK |" in text
    assert "broken failed: RuntimeError" in text
    assert "Not installed here: away.\n\nAway is elsewhere.\n" in text
    lines = (tmp_path / "speed.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == ",".join(peers.FIELDS)
    assert len(lines) == 4


def test_models_have_their_default_threshold_and_one_of_zero(peers):
    for name, model in peers.ours(1.0).items():
        params = model.get_params()
        default = type(model)().get_params().get("threshold")
        assert params.get("threshold") == default
        zero = peers.at_zero(name, model)
        if default is None or name in ("DD", "EM-DD"):
            assert zero is None
        else:
            changed = zero.get_params() | {"threshold": default}
            assert repr(changed) == repr(params)
            assert zero.threshold == "zero"
