"""Model files made to harm: each is refused, and nothing that it names is run."""

import importlib
import io
import json
import pkgutil
import zipfile
from contextlib import suppress

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from model_helpers import (
    objects_of,
    read_parts,
    trees_of,
    write_description,
    write_parts,
)
from sklearn.cluster import KMeans
from sklearn.ensemble import (
    BaggingClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.feature_extraction.text import (
    CountVectorizer,
    HashingVectorizer,
    TfidfVectorizer,
)
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC, SVR

import bagwise
from bagwise.bags import Bags
from bagwise.compose import OnInstances, SimpleMI
from bagwise.datasets import make_bags
from bagwise.density import EMDD
from bagwise.embedding import MILES, MiFV, SlicedWassersteinEmbedding
from bagwise.ensemble import MILBoost
from bagwise.io import _models, registry
from bagwise.io._models import load, save
from bagwise.kernels import BoxGrid
from bagwise.rectangles import GMIL, IAPR
from bagwise.svm import MISVM, PCSVM, BagSVC

X, y = make_bags(12, n_features=4, random_state=0)
RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(40, 3))
CLASSES = np.arange(40) % 3


@pytest.fixture
def path(tmp_path):
    return tmp_path / "evil.bagwise"


def refused(path, message=""):
    with pytest.raises(ValueError, match=rf"evil\.bagwise.*{message}"):
        load(path)


# ------------------------------------------------------------------ names of code

CLASS_NAMES = [
    "os:system",
    "os:_wrap_close",
    "posix:system",
    "subprocess:Popen",
    "builtins:eval",
    "builtins:exec",
    "builtins:object",
    "builtins:type",
    "builtins:classmethod",
    "importlib:import_module",
    "functools:partial",
    "operator:methodcaller",
    "operator:attrgetter",
    "operator:itemgetter",
    "collections:defaultdict",
    "collections:OrderedDict",
    "types:FunctionType",
    "types:CodeType",
    "pathlib:Path",
    "numpy:ndarray",
    "numpy:memmap",
    "numpy.random:Generator",
    "numpy.lib.npyio:NpzFile",
    "numpy.testing._private.utils:runstring",
    "scipy.interpolate:interp1d",
    "joblib:Memory",
    "sklearn.datasets:fetch_openml",
    "sklearn.utils:Bunch",
    "sklearn.base:BaseEstimator",
    "sklearn.gaussian_process:GaussianProcessClassifier",
    "sklearn.compose:ColumnTransformer",
    "sklearn.svm._classes:SVC",
    "sklearn.svm:np",
    "sklearn:svm.SVC",
    "bagwise.kernels.box.kernel:dataclass",
    "bagwise.io._models:load",
    "bagwise.io._codec:Encoder",
    "bagwise.datasets._fetch:DatasetInfo",
    "bagwise.comparison.store:Store",
    "bagwise.svm:MISVM",
    "bagwise.svm._misvm:KernelBagSVM",
    "bagwise.svm._base:np",
    "bagwise.svm..._misvm:MISVM",
    "bagwise.svm/_misvm:MISVM",
    "bagwise.svm._misvm:MISVM.fit",
    "bagwise.svm._misvm:MISVM:fit",
    "bagwise.bags._bags:Segmented",
    "bagwise.ensemble._combine:dataclass",
    "bagwise:svm",
    "",
    ":",
    None,
    7,
    ["bagwise.bags._bags", "Bags"],
    {"t": "str"},
]


@pytest.mark.parametrize("name", CLASS_NAMES, ids=str)
def test_classes_outside_of_the_registry(path, name):
    save(FunctionTransformer(kw_args=LogisticRegression()), path)
    description, arrays = read_parts(path)
    objects_of(description, "LogisticRegression")[0]["c"] = name
    write_parts(path, description, arrays)
    refused(path, "not trusted")


def test_names_that_modules_merely_imported():
    """No module of bagwise lends its imports to a file, whatever they are."""
    tried = 0
    for module in pkgutil.walk_packages(bagwise.__path__, "bagwise."):
        if module.name.endswith("__main__"):
            continue
        try:
            loaded = importlib.import_module(module.name)
        except ImportError:  # a library that is not installed here
            continue
        for name, value in vars(loaded).items():
            if getattr(value, "__module__", None) != module.name:
                assert registry.find_class(f"{module.name}:{name}") is None
                tried += 1
            found = registry.find_class(f"{module.name}:{name}")
            assert found is None or isinstance(found, type)
    assert tried > 1000


FUNCTION_NAMES = [
    "os.system",
    "builtins.eval",
    "numpy.load",
    "numpy.fromfile",
    "numpy.lib.npyio.load",
    "bagwise.io.read_bags",
    "bagwise.kernels.registry.bag_kernel",
    "bagwise.kernels.__builtins__",
    "bagwise.kernels.BoxGrid",
    "bagwise.kernels.np",
    "sklearn.datasets.load_files",
    "",
    None,
    ["numpy.sqrt"],
]


@pytest.mark.parametrize("name", FUNCTION_NAMES, ids=str)
def test_functions_outside_of_the_registry(path, name):
    save(FunctionTransformer(np.sqrt), path)
    description, arrays = read_parts(path)
    node = objects_of(description, "FunctionTransformer")[0]["v"]
    assert node["func"] == {"t": "function", "v": "numpy.sqrt"}
    node["func"] = {"t": "function", "v": name}
    write_parts(path, description, arrays)
    refused(path, "not trusted")


NODES = {
    "a call": {"t": "call", "f": "os.system", "v": ["true"]},
    "a constructor": {"t": "object", "c": "subprocess:Popen", "v": {"args": ["id"]}},
    "a partial": {"t": "partial", "f": "os.system", "v": []},
    "a method caller": {"t": "methodcaller", "v": "system"},
    "a default factory": {"t": "defaultdict", "f": "os.system", "v": []},
    "a pickle": {"t": "pickle", "v": "gASVHgAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOU"},
    "a reduction": {"t": "reduce", "v": ["os.system", ["id"]]},
    "a type": {"t": "type", "v": "type"},
    "no tag": {"v": 1},
    "a tag that is a list": {"t": ["dict"], "v": []},
    "a private tag": {"t": "__class__", "v": 1},
    "an object without a state": {"t": "object", "c": "sklearn.svm:SVC"},
    "an object with a list": {"t": "object", "c": "sklearn.svm:SVC", "v": [1]},
    "an object as a key": {
        "t": "dict",
        "v": [[{"t": "object", "c": "sklearn.svm:SVC", "v": {}}, 1]],
    },
    "a list as a key": {"t": "dict", "v": [[[1], 1]]},
    "a dict as a key": {"t": "dict", "v": [[{"t": "dict", "v": []}, 1]]},
    "pairs of three": {"t": "dict", "v": [[1, 2, 3]]},
    "a bunch of numbers": {"t": "bunch", "v": [[1, 2]]},
    "a set of lists": {"t": "set", "v": [[1]]},
    "a slice of text": {"t": "slice", "v": ["a", 1, 2]},
    "a reference ahead": {"t": "ref", "v": 5},
    "a reference backwards": {"t": "ref", "v": -1},
    "a reference of text": {"t": "ref", "v": "0"},
    "an absent array": {"t": "array", "v": 99},
    "an array by path": {"t": "array", "v": "../../etc/passwd"},
    "a boolean array number": {"t": "array", "v": True},
    "a long number": {"t": "int", "v": "9" * 10_000},
    "a number that is code": {"t": "int", "v": "__import__('os')"},
    "a float that is code": {"t": "float", "v": "1e"},
    "a record type": {"t": "dtype", "v": "f8,O"},
    "a scorer that is none": {"t": "scorer", "name": "os.system"},
    "a tree of nothing": {"t": "tree"},
    "objects of a wrong shape": {"t": "objects", "shape": [10**9], "v": []},
    "objects of a negative shape": {"t": "objects", "shape": [-1], "v": [1]},
    "a mask alone": {"t": "masked", "mask": 1},
    "a generator": {"t": "rng", "key": 1, "v": [1, 2, 3]},
    "a sparse matrix of nothing": {"t": "csr", "shape": [10**9, 10**9]},
}


@pytest.mark.parametrize("name", NODES)
def test_nodes_that_are_no_values(path, name):
    save(FunctionTransformer(kw_args={}), path)
    description, arrays = read_parts(path)
    objects_of(description, "FunctionTransformer")[0]["v"]["kw_args"] = NODES[name]
    write_parts(path, description, arrays)
    refused(path)


@pytest.mark.parametrize(
    "name", ["__class__", "__dict__", "__reduce__", "__len__", "a b", "", "1x", "a.b"]
)
def test_attributes_with_special_names(path, name):
    save(LogisticRegression(), path)
    description, arrays = read_parts(path)
    objects_of(description, "LogisticRegression")[0]["v"][name] = 1
    write_parts(path, description, arrays)
    refused(path, "an attribute is called")


class Spy:
    """A class whose hooks tell that they ran."""

    ran = False

    def __new__(cls, *args):
        Spy.ran = True
        return super().__new__(cls)

    def __init__(self, *args):
        Spy.ran = True

    def __setstate__(self, state):
        Spy.ran = True

    def __setattr__(self, name, value):
        Spy.ran = True


def test_no_hook_of_a_trusted_class_runs(path):
    save(FunctionTransformer(kw_args=LogisticRegression()), path)
    description, arrays = read_parts(path)
    name = f"{Spy.__module__}:Spy"
    objects_of(description, "LogisticRegression")[0]["c"] = name
    write_parts(path, description, arrays)
    found = load(path, trusted=[Spy]).kw_args
    assert type(found) is Spy
    assert found.C == 1.0
    assert not Spy.ran


# ------------------------------------------------------------- folders of pickles

CACHING = {
    "Pipeline": lambda memory: make_pipeline(
        OnInstances(StandardScaler()), SimpleMI(), memory=memory
    ),
    "PCSVM": lambda memory: PCSVM(memory=memory),
}


@pytest.mark.parametrize("name", CACHING)
@pytest.mark.parametrize("kind", [str, joblib.Memory])
def test_a_folder_of_pickles_does_not_travel_with_a_model(path, tmp_path, name, kind):
    """Whoever prepares the folder would choose what the next fit unpickles."""
    folder = tmp_path / "cache"
    model = CACHING[name](kind(str(folder))).fit(X, y)
    assert model.memory is not None
    save(model, path)
    assert str(folder) not in json.dumps(read_parts(path)[0])
    again = load(path)
    assert again.memory is None
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    before = {p: p.stat().st_mtime_ns for p in folder.rglob("*")}
    again.fit(X, y)
    assert {p: p.stat().st_mtime_ns for p in folder.rglob("*")} == before


@pytest.mark.parametrize("name", CACHING)
@pytest.mark.parametrize("folder", ["cache", "", "/tmp", True, ["cache"]])
def test_a_file_that_names_a_folder_of_pickles(path, name, folder):
    save(CACHING[name](None), path)
    description, arrays = read_parts(path)
    objects_of(description, name)[0]["v"]["memory"] = folder
    write_parts(path, description, arrays)
    refused(path, "a folder for joblib's cache")


@pytest.mark.parametrize("search", [GridSearchCV, RandomizedSearchCV])
@pytest.mark.parametrize("several", [False, True])
def test_a_search_over_folders_of_pickles(path, search, several):
    grid = {"memory": ["cache"]}
    model = search(make_pipeline(SimpleMI()), [grid] if several else grid)
    with pytest.raises(ValueError, match="cannot be saved.*'memory'"):
        save(model, path)
    attribute = "param_grid" if search is GridSearchCV else "param_distributions"
    setattr(model, attribute, {"simplemi__pooling": ["max"]})
    save(model, path)
    description, arrays = read_parts(path)
    state = objects_of(description, search.__name__)[0]["v"]
    state[attribute]["v"][0][0] = "simplemi__memory"
    write_parts(path, description, arrays)
    refused(path, "'simplemi__memory', a folder of pickles")


# ----------------------------------------------------------------- the container


def test_arrays_of_objects_are_pickles(path):
    class Evil:
        def __reduce__(self):
            return (pytest.fail, ("a pickle ran",))

    model = LogisticRegression()
    model.coef_ = np.eye(2)
    save(model, path)
    description, arrays = read_parts(path)
    write_parts(path, description, {0: np.array([Evil()], dtype=object)})
    refused(path, "an array has the type object")


@pytest.mark.parametrize(
    "dtype",
    ["f8,O", "M8[s]", "c16", "V8", [("a", "f8", (2,))], [("a", [("b", "f8")])]],
    ids=str,
)
def test_arrays_of_other_types(path, dtype):
    model = LogisticRegression()
    model.coef_ = np.eye(2)
    save(model, path)
    description, _ = read_parts(path)
    if "O" in str(dtype):
        write_parts(path, description, {0: np.array([(1.0, None)], dtype=dtype)})
    else:
        write_parts(path, description, {0: np.zeros(2, dtype=dtype)})
    refused(path)


def _npy(header, content=b""):
    text = header.encode() + b" " * (-(10 + len(header) + 1) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + content


HEADERS = {
    "larger than the file": "{'descr':'<f8','fortran_order':False,'shape':(10**9,)}",
    "huge": "{'descr':'<f8','fortran_order':False,'shape':(4611686018427387904,)}",
    "negative": "{'descr':'<f8','fortran_order':False,'shape':(-1,)}",
    "code": "{'descr':__import__('os').system('id'),'fortran_order':0,'shape':()}",
    "no dictionary": "[1, 2]",
    "unknown type": "{'descr':'<q9','fortran_order':False,'shape':(1,)}",
    "smaller than the file": "{'descr':'<f8','fortran_order':False,'shape':(1,)}",
}


@pytest.mark.parametrize("name", HEADERS)
def test_headers_that_lie(path, name):
    model = LogisticRegression()
    model.coef_ = np.eye(2)
    save(model, path)
    description, _ = read_parts(path)
    header = HEADERS[name].replace("10**9", "1000000000")
    content = b"\0" * (64 if "smaller" in name else 8)
    write_parts(path, description, {}, raw={"arrays/0.npy": _npy(header, content)})
    refused(path)


def test_zip_bomb(path):
    """Refused from the directory of the archive, before a byte is unpacked."""
    save(LogisticRegression(), path)
    description, arrays = read_parts(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model.json", json.dumps(description))
        with archive.open("arrays/0.npy", "w") as stream:
            for _ in range(64):
                stream.write(b"\0" * 2**20)
    assert path.stat().st_size < 2**18
    refused(path, "declare 67,")


def test_a_member_larger_than_it_says(path):
    save(SimpleMI(LogisticRegression()).fit(X, y), path)
    raw = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        entry = archive.getinfo("arrays/0.npy")
    place = raw.rindex(b"arrays/0.npy") - 46  # its entry in the directory
    size = (entry.file_size - 8).to_bytes(4, "little")
    path.write_bytes(raw[: place + 24] + size + raw[place + 28 :])
    refused(path)


def test_members_on_top_of_each_other_and_doubled_names(path):
    save(SimpleMI(LogisticRegression()).fit(X, y), path)
    description, arrays = read_parts(path)
    buffer = io.BytesIO()
    np.save(buffer, arrays[0])
    with pytest.warns(UserWarning, match="Duplicate"):
        write_parts(path, description, arrays, raw={"arrays/0.npy": buffer.getvalue()})
    refused(path, "same name")
    # Every entry of the directory points at one large member.
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model.json", json.dumps(description))
        archive.writestr("arrays/0.npy", b"\0" * 4000)
        entry = archive.getinfo("arrays/0.npy")
        for number in range(1, 50):
            twin = zipfile.ZipInfo(f"arrays/{number}.npy")
            for field in ("header_offset", "CRC", "file_size", "compress_size"):
                setattr(twin, field, getattr(entry, field))
            archive.filelist.append(twin)
            archive.NameToInfo[twin.filename] = twin
        archive._didModify = True
    refused(path, "overlap")


@pytest.mark.parametrize("depth", [150, 100_000])
@pytest.mark.parametrize("kind", ["lists", "dicts"])
def test_deep_nesting(path, depth, kind):
    save(LogisticRegression(), path)
    with zipfile.ZipFile(path) as archive:
        text = archive.read("model.json").decode()
    opening, closing = ("[", "]") if kind == "lists" else ('{"t":"tuple","v":[', "]}")
    deep = opening * depth + closing * depth
    text = text.replace('"C": 1.0', f'"C": {deep}')
    assert deep in text
    write_description(path, text)
    refused(path, "deep")


def test_too_many_nodes_and_too_long_a_description(path, monkeypatch):
    from bagwise.io import _codec

    save(FunctionTransformer(kw_args=list(range(5000))), path)
    with monkeypatch.context() as patch:
        patch.setattr(_codec, "MOST_NODES", 1000)
        refused(path, "too long")
    monkeypatch.setattr(_models, "MOST_DESCRIPTION", 1000)
    refused(path, "its description has")


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity"])
def test_constants_that_json_does_not_know(path, text):
    save(LogisticRegression(), path)
    description, arrays = read_parts(path)
    raw = json.dumps(description).replace('"C": 1.0', f'"C": {text}')
    write_description(path, raw)
    refused(path, "its description contains")


@pytest.mark.parametrize("version", [0, 1, 3, "2", None])
def test_other_versions_of_the_format(path, version):
    save(LogisticRegression(), path)
    description, arrays = read_parts(path)
    description["version"] = version
    write_parts(path, description, arrays)
    refused(path, "its format is version")


# -------------------------------------------------------------- tampered state


def tamper(path, model, name, **changes):
    """Save a model, change arrays or values of its first object called `name`."""
    save(model, path)
    description, arrays = read_parts(path)
    state = objects_of(description, name)[0]["v"]
    for attribute, change in changes.items():
        node = state[attribute]
        if isinstance(node, dict) and node.get("t") in ("array", "scalar"):
            number = max(arrays) + 1
            arrays[number] = np.asarray(change(arrays[node["v"]].copy()))
            state[attribute] = {"t": node["t"], "v": number}
        else:
            state[attribute] = change(node)
    write_parts(path, description, arrays)


def put(index, value):
    def change(array):
        array[index] = value
        return array

    return change


def cut(array):
    return array[:-1]


def narrow(array):
    return np.ascontiguousarray(array[..., :-1])


def fit_rows(model):
    return model.fit(ROWS, CLASSES)


MACHINE = {"model": lambda: fit_rows(SVC()), "name": "SVC"}
MIXTURE = {"model": lambda: MiFV(random_state=0).fit(X), "name": "GaussianMixture"}
SLICED = SlicedWassersteinEmbedding(5, n_quantiles=2, random_state=0)
TAMPERED = {
    "more support vectors": (MACHINE, {"_n_support": put(0, 10**6)}),
    "fewer support vectors": (MACHINE, {"_n_support": put(0, 0)}),
    "negative support vectors": (MACHINE, {"_n_support": put(0, -5)}),
    "another class": (MACHINE, {"classes_": cut}),
    "counts of another class": (MACHINE, {"_n_support": cut}),
    "counts of 64 bits": (MACHINE, {"_n_support": lambda a: a.astype(np.int64)}),
    "narrow support vectors": (MACHINE, {"support_vectors_": narrow}),
    "short support vectors": (MACHINE, {"support_vectors_": cut}),
    "single support vectors": (
        MACHINE,
        {"support_vectors_": lambda a: a.astype(np.float32)},
    ),
    "short coefficients": (MACHINE, {"_dual_coef_": narrow}),
    "flat coefficients": (MACHINE, {"_dual_coef_": lambda a: a[0]}),
    "short intercepts": (MACHINE, {"_intercept_": cut}),
    "wider input": (MACHINE, {"n_features_in_": lambda n: n + 1}),
    "no input": (MACHINE, {"n_features_in_": lambda n: 0}),
    "input of text": (MACHINE, {"n_features_in_": lambda n: "3"}),
    "short support": (MACHINE, {"support_": cut}),
    "half a probability": (MACHINE, {"_probA": lambda a: np.ones(1)}),
    "dense but said sparse": (MACHINE, {"_sparse": lambda a: True}),
    "a kernel that is a number": (MACHINE, {"kernel": lambda a: 7}),
    "precomputed after all": (MACHINE, {"kernel": lambda a: "precomputed"}),
    "regression counts": (
        {"model": lambda: SVR().fit(ROWS, CLASSES), "name": "SVR"},
        {"_n_support": put(0, 10**6)},
    ),
    "clusters of another width": (
        {"model": lambda: KMeans(3, n_init=1).fit(ROWS), "name": "KMeans"},
        {"cluster_centers_": narrow},
    ),
    "fewer clusters": (
        {"model": lambda: KMeans(3, n_init=1).fit(ROWS), "name": "KMeans"},
        {"cluster_centers_": cut},
    ),
    "labels of neighbors": (
        {
            "model": lambda: fit_rows(KNeighborsClassifier(3)),
            "name": "KNeighborsClassifier",
        },
        {"_y": put(0, 99)},
    ),
    "rows of neighbors": (
        {
            "model": lambda: fit_rows(KNeighborsClassifier(3)),
            "name": "KNeighborsClassifier",
        },
        {"_fit_X": narrow},
    ),
    "number of neighbors": (
        {
            "model": lambda: fit_rows(KNeighborsClassifier(3)),
            "name": "KNeighborsClassifier",
        },
        {"n_neighbors": lambda n: 10**9},
    ),
    "metric of neighbors": (
        {
            "model": lambda: fit_rows(KNeighborsClassifier(3)),
            "name": "KNeighborsClassifier",
        },
        {"effective_metric_": lambda n: "pyfunc"},
    ),
    "features of a bag of trees": (
        {
            "model": lambda: fit_rows(BaggingClassifier(n_estimators=2)),
            "name": "BaggingClassifier",
        },
        {"estimators_features_": lambda n: [{"t": "array", "v": 0}]},
    ),
    "a curve that falls back": (
        {
            "model": lambda: IsotonicRegression().fit(ROWS[:, 0], ROWS[:, 1]),
            "name": "IsotonicRegression",
        },
        {"X_thresholds_": lambda a: a[::-1].copy()},
    ),
    "a loss that is code": (
        {
            "model": lambda: fit_rows(GradientBoostingClassifier(n_estimators=1)),
            "name": "GradientBoostingClassifier",
        },
        {"loss": lambda a: {"t": "function", "v": "numpy.sqrt"}},
    ),
    "boosted input": (
        {
            "model": lambda: fit_rows(GradientBoostingClassifier(n_estimators=1)),
            "name": "GradientBoostingClassifier",
        },
        {"n_features_in_": lambda n: n + 1},
    ),
    "forest input": (
        {
            "model": lambda: fit_rows(RandomForestClassifier(2)),
            "name": "RandomForestClassifier",
        },
        {"n_features_in_": lambda n: n - 1},
    ),
    "hist input": (
        {
            "model": lambda: fit_rows(HistGradientBoostingClassifier(max_iter=1)),
            "name": "HistGradientBoostingClassifier",
        },
        {"n_features_in_": lambda n: n - 1, "_n_features": lambda n: n - 1},
    ),
    "offsets beyond the rows": (
        {"model": lambda: BagSVC().fit(X, y), "name": "Bags"},
        {"_offsets": put(-1, 10**9)},
    ),
    "offsets that fall": (
        {"model": lambda: BagSVC().fit(X, y), "name": "Bags"},
        {"_offsets": put(2, 0)},
    ),
    "bags of another width": (
        {"model": lambda: BagSVC().fit(X, y), "name": "Bags"},
        {"_stacked": narrow},
    ),
    "vectors of another width": (
        {"model": lambda: MISVM().fit(X, y), "name": "MISVM"},
        {"support_vectors_": narrow},
    ),
    "fewer weights than vectors": (
        {"model": lambda: MISVM().fit(X, y), "name": "MISVM"},
        {"dual_coef_": cut},
    ),
    "prototypes of another width": (
        {"model": lambda: MILES().fit(X, y), "name": "MILES"},
        {"prototypes_": narrow},
    ),
    "a shorter concept": (
        {"model": lambda: EMDD(n_starts=1).fit(X, y), "name": "EMDD"},
        {"concept_": cut},
    ),
    "a shorter scale": (
        {"model": lambda: EMDD(n_starts=1).fit(X, y), "name": "EMDD"},
        {"scale_": cut},
    ),
    "fewer directions": (
        {"model": lambda: SLICED.fit(X), "name": "SlicedWassersteinEmbedding"},
        {"directions_": narrow},
    ),
    "more directions than there is room for": (
        {"model": lambda: SLICED.fit(X), "name": "SlicedWassersteinEmbedding"},
        {"n_projections": lambda n: 1},
    ),
    "directions of another width": (
        {"model": lambda: SLICED.fit(X), "name": "SlicedWassersteinEmbedding"},
        {"directions_": cut},
    ),
    "fewer means": (MIXTURE, {"means_": cut}),
    "narrow means": (MIXTURE, {"means_": narrow}),
    "fewer covariances": (MIXTURE, {"covariances_": cut}),
    "narrow covariances": (MIXTURE, {"covariances_": narrow}),
    "full covariances": (MIXTURE, {"covariances_": lambda a: np.ones((2, 3, 3))}),
    "fewer weights": (MIXTURE, {"weights_": cut}),
    "fewer axes": ({**MIXTURE, "name": "EnergyProjection"}, {"axes": cut}),
    "narrow axes": ({**MIXTURE, "name": "EnergyProjection"}, {"axes": narrow}),
    "a feature of a stump": (
        {"model": lambda: MILBoost(n_estimators=2).fit(X, y), "name": "Stump"},
        {"feature": lambda f: 4},
    ),
    "a rectangle of other features": (
        {"model": lambda: IAPR().fit(X, y), "name": "IAPR"},
        {"features_": put(0, 4)},
    ),
    "levels of a grid": (
        {"model": lambda: BoxGrid().fit(X), "name": "BoxGrid"},
        {"max_level_": put(0, 10**6)},
    ),
    "anchors of a grid": (
        {"model": lambda: BoxGrid().fit(X), "name": "BoxGrid"},
        {"anchors_": put((0, 0), 60000)},
    ),
    "order of a grid": (
        {"model": lambda: BoxGrid().fit(X), "name": "BoxGrid"},
        {"order_": put(0, 4)},
    ),
    "corners of boxes": (
        {
            "model": lambda: GMIL(n_sampled=200, max_boxes=200).fit(X, y),
            "name": "GMIL",
        },
        {"high_": put((0, 0), 60000)},
    ),
}


@pytest.mark.filterwarnings("ignore:The least populated")
@pytest.mark.parametrize("name", TAMPERED)
def test_tampered_state(path, name):
    made, changes = TAMPERED[name]
    tamper(path, made["model"](), made["name"], **changes)
    refused(path)


TREES = {
    "a child beyond the end": ("left_child", 10**6),
    "a child before its parent": ("right_child", 0),
    "a negative child": ("right_child", -7),
    "a feature beyond the width": ("feature", 3),
    "a negative feature": ("feature", -2),
}


@pytest.mark.parametrize("name", TREES)
def test_nodes_of_a_tree(path, name):
    save(fit_rows(RandomForestClassifier(1, random_state=0)), path)
    description, arrays = read_parts(path)
    node = trees_of(description)[0]
    field, value = TREES[name]
    arrays[node["nodes"]["v"]][field][0] = value
    write_parts(path, description, arrays)
    refused(path, "tree")


def test_nodes_of_a_survival_tree(path):
    ensemble = pytest.importorskip("sksurv.ensemble")
    y = np.array([(True, t + 1.0) for t in range(len(ROWS))], dtype="?,f8")
    model = ensemble.RandomSurvivalForest(1, random_state=0).fit(ROWS, y)
    for field, value in TREES.values():
        save(model, path)
        description, arrays = read_parts(path)
        node = trees_of(description)[0]
        arrays[node["nodes"]["v"]][field][0] = value
        write_parts(path, description, arrays)
        refused(path, "tree")


def test_a_tree_that_says_it_is_wider(path):
    """The width counts that `predict` compares with, not the one in the tree."""
    save(fit_rows(RandomForestClassifier(1, random_state=0)), path)
    description, arrays = read_parts(path)
    node = trees_of(description)[0]
    node["n_features"] = 10**6
    arrays[node["nodes"]["v"]]["feature"][0] = 10**5
    write_parts(path, description, arrays)
    refused(path, "features that do not exist")
    for member in objects_of(description, "DecisionTreeClassifier"):
        if "tree_" in member["v"]:
            member["v"]["n_features_in_"] = 10**6
    write_parts(path, description, arrays)
    refused(path, "another number of features")


@pytest.mark.parametrize("part", ["n_outputs", "n_classes", "values", "max_depth"])
def test_parts_of_a_tree(path, part):
    save(fit_rows(RandomForestClassifier(1, random_state=0)), path)
    description, arrays = read_parts(path)
    node = trees_of(description)[0]
    if part in ("n_classes", "values"):
        number = node[part]["v"]
        arrays[number] = arrays[number][..., :-1] if part == "values" else [10**6]
        arrays[number] = np.asarray(arrays[number])
    else:
        node[part] = 10**6
    write_parts(path, description, arrays)
    refused(path, "tree")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("feature_idx", 99, "feature"),
        ("left", 0, "out of range"),
        ("right", 999, "out of range"),
    ],
)
def test_nodes_of_a_boosted_tree(path, field, value, message):
    model = HistGradientBoostingClassifier(max_iter=2, min_samples_leaf=5)
    save(model.fit(ROWS, ROWS[:, 0] > 0), path)
    description, arrays = read_parts(path)
    node = objects_of(description, "TreePredictor")[0]["v"]["nodes"]
    arrays[node["v"]][field][0] = value
    write_parts(path, description, arrays)
    refused(path, message)


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("indices", put(0, 99)),
        ("indices", put(0, -1)),
        ("indptr", put(1, 99)),
        ("indptr", put(0, 1)),
        ("data", cut),
        ("indices", lambda a: a.astype(float)),
    ],
)
def test_parts_of_a_sparse_matrix(path, part, change):
    sparse = Bags(sp.csr_array(X.data), X.offsets)
    save(BagSVC().fit(sparse, y), path)
    description, arrays = read_parts(path)
    node = objects_of(description, "Bags")[0]["v"]["_stacked"]
    arrays[node[part]["v"]] = change(arrays[node[part]["v"]])
    write_parts(path, description, arrays)
    refused(path, "sparse")


def _paths(node, here=()):
    """Give every place of a description."""
    yield here
    children = node.items() if isinstance(node, dict) else ()
    children = enumerate(node) if isinstance(node, list) else children
    for key, child in children:
        yield from _paths(child, (*here, key))


JUNK = [None, True, -1, 10**9, 1.5, "", "os:system", [], {}, {"t": "array", "v": 0}]


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    path = tmp_path_factory.mktemp("sound") / "m.bagwise"
    save(SimpleMI(SVC()).fit(X, y), path)
    return read_parts(path)


@settings(max_examples=120, deadline=None)
@given(where=st.floats(0, 1, exclude_max=True), junk=st.sampled_from(JUNK))
def test_any_changed_value_is_refused_or_harmless(tmp_path_factory, sound, where, junk):
    """What loads in spite of a change answers, or says that it cannot."""
    description, arrays = json.loads(json.dumps(sound[0])), sound[1]
    places = [p for p in _paths(description["model"]) if p]
    *front, last = places[int(where * len(places))]
    node = description["model"]
    for key in front:
        node = node[key]
    node[last] = junk
    path = tmp_path_factory.mktemp("junk") / "evil.bagwise"
    write_parts(path, description, arrays)
    try:
        model = load(path)
    except ValueError as error:
        model, message = None, str(error)
        assert "evil.bagwise" in message
    if model is not None:
        # (Python errors are fine; reading beyond an array would end the interpreter)
        with suppress(Exception):
            model.decision_function(X)


@pytest.mark.parametrize("kind", [CountVectorizer, HashingVectorizer, TfidfVectorizer])
def test_vectorizers_read_no_files(kind, tmp_path):
    """Texts of data must not become names of files that are read."""
    X, y = Bags.from_list([["aa bb"], ["cc dd"], ["aa cc"], ["dd"]]), [1, 0, 1, 0]
    model = make_pipeline(OnInstances(kind()), SimpleMI()).fit(X, y)
    bagwise.save(model, tmp_path / "fine.bagwise")
    assert bagwise.load(tmp_path / "fine.bagwise").predict(X).shape == (4,)
    model[0].transformer_.set_params(input="filename")
    with pytest.raises((TypeError, ValueError), match="reads its input as 'filename'"):
        bagwise.save(model, tmp_path / "evil.bagwise")
