"""Model files: save and load fitted estimators without pickle.

The format is that of skops: a zip archive with a description of the objects and their
arrays. Reading one imports nothing that is not trusted and runs no code of the file.
"""

from __future__ import annotations

import importlib
import os
import tempfile
import warnings
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bagwise import _version

_FORMAT = "bagwise-model"
# Parts of the package whose classes open files or start work when constructed.
_NOT_MODELS = frozenset(
    ("cli", "comparison", "datasets", "io", "report", "reproduction", "testing")
)
# Plain classes inside fitted scikit-learn estimators; estimators need no list.
_SKLEARN_PARTS = frozenset(
    (
        "sklearn.calibration._CalibratedClassifier",
        "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
        "sklearn.tree._tree.Tree",
        "sklearn.utils._bunch.Bunch",
    )
)


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file that :func:`load` reads safely.

    Parameters
    ----------
    model : estimator
        Any estimator, or a pipeline or search with estimators inside.
    path : str or path
        The file. It appears whole or not at all.

    Raises
    ------
    ValueError
        The model holds something that could not be loaded again, such as a lambda.

    Examples
    --------
    >>> import tempfile, pathlib, bagwise
    >>> from bagwise.compose import SimpleMI
    >>> from bagwise.datasets import make_bags
    >>> X, y = make_bags(random_state=0)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.skops"
    >>> bagwise.save(SimpleMI().fit(X, y), path)
    >>> bagwise.load(path).predict(X).shape
    (30,)
    """
    import skops.io

    record = {
        "format": _FORMAT,
        "bagwise_version": _version.__version__,
        "model": model,
    }
    target = Path(path)
    try:
        raw = skops.io.dumps(record, compression=zipfile.ZIP_DEFLATED)
    except TypeError as error:
        raise ValueError(f"{target}: the model cannot be saved: {error}") from error
    for name in skops.io.get_untrusted_types(data=raw):
        if _resolve(name) is None:
            raise ValueError(
                f"{target}: the model holds {name}, which no other program could "
                "find again. Define it at the top of a module instead of inside a "
                "function or as a lambda."
            )
    handle, temporary = tempfile.mkstemp(dir=target.parent, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(raw)
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def load(path: str | os.PathLike[str], *, trusted: Iterable[str | type] = ()) -> Any:
    """Read a model that :func:`save` wrote.

    Only known types are built: those of bagwise, estimators of scikit-learn, and
    arrays. Offsets of bags and nodes of trees are checked, because compiled code
    would follow them without looking. A warning says so when the file was written by
    another version of bagwise.

    Parameters
    ----------
    path : str or path
        The file.
    trusted : iterable of str or type, default=()
        Further types to allow, by their full names (as the error message gives
        them). Loading a type from an untrusted file can run any code.

    Returns
    -------
    model : estimator
        The model as it was saved.

    Raises
    ------
    ValueError
        The file is damaged, is no model file, or holds types that are not trusted;
        the message names them.
    """
    import skops.io

    if isinstance(trusted, (str, bool)):
        raise TypeError(f"trusted must be a list of type names, got {trusted!r}.")
    source = Path(path)
    raw = source.read_bytes()
    extra = [t if isinstance(t, str) else _full_name(t) for t in trusted]
    try:
        found = skops.io.get_untrusted_types(data=raw) if raw else None
    # Damage shows as zip, JSON, key, array or attribute errors, whichever comes first.
    except Exception as error:
        raise ValueError(_damaged(source, error)) from error
    if found is None:
        raise ValueError(f"{source}: the file is empty.")
    refused = [name for name in found if name not in extra and not _is_known(name)]
    if refused:
        raise ValueError(
            f"{source}: the file holds types that are not trusted: "
            f"{', '.join(refused)}. Loading them can run any code. If you know where "
            f"the file comes from, allow them: load(path, trusted={refused!r})."
        )
    try:
        record = skops.io.loads(raw, trusted=found)
    except Exception as error:
        raise ValueError(_damaged(source, error)) from error
    if not isinstance(record, dict) or record.get("format") != _FORMAT:
        raise ValueError(f"{source}: this is no model file written by bagwise.save.")
    _check_contents(record.get("model"), source)
    _check_version(str(record.get("bagwise_version")), source)
    return record["model"]


def _damaged(path: Path, error: Exception) -> str:
    return (
        f"{path}: the model file is damaged, cut off, or no model file "
        f"({type(error).__name__}: {error})."
    )


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _check_version(written: str, path: Path) -> None:
    if written != _version.__version__:
        warnings.warn(
            f"{path} was written by bagwise {written}, this is "
            f"{_version.__version__}: the model may behave differently. "
            "Fit it again if in doubt.",
            UserWarning,
            stacklevel=3,
        )


def _resolve(name: str) -> Any:
    """Return the object with this full name, or None."""
    module, _, attribute = name.rpartition(".")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError):
        return None


def _is_known(name: str) -> bool:
    """Tell whether a type may be built without asking.

    Only names inside bagwise, scikit-learn and scipy.sparse are looked up at all, so
    that a file cannot make this function import anything else.
    """
    from sklearn.base import BaseEstimator

    parts = name.split(".")
    if parts[0] == "sklearn":
        if name in _SKLEARN_PARTS:
            return True
        found = _resolve(name)
        return isinstance(found, type) and issubclass(found, BaseEstimator)
    if parts[:2] == ["scipy", "sparse"]:
        found = _resolve(name)
        return isinstance(found, type) and issubclass(found, (sp.sparray, sp.spmatrix))
    if parts[0] != "bagwise" or len(parts) < 3 or parts[1] in _NOT_MODELS:
        return False
    found = _resolve(name)
    if isinstance(found, type):
        return found.__module__.split(".")[0] == "bagwise"
    # A kernel may be given as a function.
    return parts[1] == "kernels" and callable(found)


def _check_contents(model: Any, path: Path) -> None:
    """Refuse indices that compiled code would follow out of an array."""
    from sklearn.tree._tree import Tree

    from bagwise.bags._segmented import Segmented, check_offsets

    for part in _parts(model):
        try:
            if isinstance(part, Segmented):
                check_offsets(part._offsets, part._stacked.shape[0])
            elif isinstance(part, Tree):
                _check_tree(part)
            elif hasattr(part, "_predictors"):  # histogram gradient boosting
                for predictor in (p for row in part._predictors for p in row):
                    _check_predictor(predictor, part._n_features)
            elif sp.issparse(part) and part.format in ("csr", "csc"):
                part.check_format(full_check=True)
        except (ValueError, AttributeError, TypeError) as error:
            raise ValueError(_damaged(path, error)) from error


def _check_tree(tree: Any) -> None:
    left, right = tree.children_left, tree.children_right
    inner = np.flatnonzero(left != -1)
    for child in (left[inner], right[inner]):
        # A child stands after its parent, so that no path can be endless.
        if (child <= inner).any() or (child >= tree.node_count).any():
            raise ValueError("the nodes of a tree point outside of it")
    feature = tree.feature[inner]
    if (feature < 0).any() or (feature >= tree.n_features).any():
        raise ValueError("a tree uses a feature that does not exist")


def _check_predictor(predictor: Any, n_features: int) -> None:
    nodes = predictor.nodes
    inner = np.flatnonzero(nodes["is_leaf"] == 0)
    for side in ("left", "right"):
        child = nodes[side][inner].astype(np.int64)
        if (child <= inner).any() or (child >= len(nodes)).any():
            raise ValueError("the nodes of a tree point outside of it")
    feature = nodes["feature_idx"][inner]
    if (feature < 0).any() or (feature >= n_features).any():
        raise ValueError("a tree uses a feature that does not exist")
    chosen = nodes["bitset_idx"][inner][nodes["is_categorical"][inner] != 0]
    if (chosen >= len(predictor.raw_left_cat_bitsets)).any():
        raise ValueError("a tree uses categories that do not exist")


def _parts(model: Any) -> Iterator[Any]:
    """Give every object reachable from a model, each once."""
    seen: set[int] = set()
    waiting = [model]
    while waiting:
        part = waiting.pop()
        if id(part) in seen or isinstance(part, (str, bytes, int, float, type)):
            continue
        seen.add(id(part))
        yield part
        if isinstance(part, dict):
            waiting.extend(part.values())
        elif isinstance(part, (list, tuple, set, frozenset)):
            waiting.extend(part)
        elif isinstance(part, np.ndarray):
            if part.dtype == object:
                waiting.extend(part.ravel().tolist())
        else:
            waiting.extend(getattr(part, "__dict__", {}).values())
