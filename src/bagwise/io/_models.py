"""Model files: save and load fitted estimators without pickle.

The format is our own, in `bagwise.io.model_files`: a zip archive with a description of
the objects and plain arrays.
"""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import sklearn

from bagwise._version import __version__
from bagwise.io.model_files._archive import DamagedFile, Reader
from bagwise.io.model_files._decode import Decoder, UntrustedType
from bagwise.io.model_files._encode import CannotSave, Encoder

_FORMAT = "bagwise-model"
_FORMAT_VERSION = 1
_MAX_BYTES = 2**33


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file that :func:`load` reads safely.

    Parameters
    ----------
    model : estimator
        Any estimator of bagwise, most of scikit-learn's, or a pipeline or search with
        such estimators inside. An estimator class of one's own can be saved; whoever
        loads the file has to name it.
    path : str or path
        The file. It appears whole or not at all.

    Raises
    ------
    ValueError
        The model holds something that could not be loaded again, such as a function
        or a lambda; the message says where.

    Examples
    --------
    >>> import tempfile, pathlib, bagwise
    >>> from bagwise.compose import SimpleMI
    >>> from bagwise.datasets import make_bags
    >>> X, y = make_bags(random_state=0)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.bagwise"
    >>> bagwise.save(SimpleMI().fit(X, y), path)
    >>> bagwise.load(path).predict(X).shape
    (30,)
    """
    target = Path(path)
    encoder = Encoder()
    try:
        described = encoder.encode(model, "the model")
    except (CannotSave, DamagedFile) as error:
        raise ValueError(f"{target}: the model cannot be saved: {error}.") from error
    except RecursionError:
        raise ValueError(
            f"{target}: the model cannot be saved: it is nested too deeply."
        ) from None
    record = {
        "format": _FORMAT,
        "version": _FORMAT_VERSION,
        "bagwise": __version__,
        "scikit-learn": sklearn.__version__,
        "model": described,
    }
    encoder.writer.write(record, target)


def load(
    path: str | os.PathLike[str],
    *,
    trusted: Iterable[str | type] = (),
    max_bytes: int = _MAX_BYTES,
) -> Any:
    """Read a model that :func:`save` wrote.

    A file cannot run code: classes come from a fixed list (those of bagwise, named ones
    of scikit-learn), their objects are made without a constructor, functions are known
    by name, and sizes are checked before anything is unpacked. Offsets, nodes of trees
    and support vectors are checked as well, because compiled code would follow them
    without looking. A warning says so when the file was written by another version.

    Parameters
    ----------
    path : str or path
        The file.
    trusted : iterable of str or type, default=()
        Further estimator classes to allow, by themselves or by their full names (as
        the error message gives them). Their constructors do not run either, but
        nothing is known about what their methods do with the state in the file.
    max_bytes : int, default=2**33
        Refuse a file that unpacks to more.

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
    if isinstance(trusted, str | bool) or not isinstance(trusted, Iterable):
        raise TypeError(f"trusted must be a list of type names, got {trusted!r}.")
    source = Path(path)
    allowed = dict(_trusted(t) for t in trusted)
    try:
        model, versions = _read(source, allowed, max_bytes)
    except UntrustedType as error:
        raise ValueError(
            f"{source}: the file holds a type that is not trusted: "
            f"{str(error).replace(':', '.')}. If you know where the file comes from "
            f"and it is an estimator of yours, allow it: load(path, "
            f"trusted=[{str(error).replace(':', '.')!r}])."
        ) from error
    except (FileNotFoundError, IsADirectoryError, PermissionError):
        raise
    # Damage shows as zip, JSON, key or array errors, whichever comes first.
    except Exception as error:
        raise ValueError(
            f"{source}: the model file is damaged, cut off, or no model file "
            f"({type(error).__name__}: {error})."
        ) from error
    _check_versions(versions, source)
    return model


def _read(
    path: Path, trusted: dict[str, type], max_bytes: int
) -> tuple[Any, dict[str, str]]:
    reader = Reader(path, max_bytes)
    try:
        record = reader.description()
        if not isinstance(record, dict) or record.get("format") != _FORMAT:
            raise DamagedFile("it was not written by bagwise.save")
        if record.get("version") != _FORMAT_VERSION:
            raise DamagedFile(f"its format is version {record.get('version')!r}")
        model = Decoder(reader, trusted).decode(record.get("model"))
        names = ("bagwise", "scikit-learn")
        return model, {name: str(record.get(name))[:40] for name in names}
    finally:
        reader.close()


def _trusted(given: str | type) -> tuple[str, type]:
    """Return the name in files and the class of what the caller trusts."""
    if isinstance(given, type):
        return f"{given.__module__}:{given.__qualname__}", given
    module, _, attribute = given.replace(":", ".").rpartition(".")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError):
        found = None
    if not isinstance(found, type):
        raise ValueError(f"trusted names {given!r}, and there is no such class.")
    return f"{module}:{attribute}", found


def _check_versions(written: dict[str, str], path: Path) -> None:
    here = {"bagwise": __version__, "scikit-learn": sklearn.__version__}
    for name, version in written.items():
        if version != here[name]:
            warnings.warn(
                f"{path} was written by {name} {version}, this is {here[name]}: the "
                "model may behave differently. Fit it again if in doubt.",
                UserWarning,
                stacklevel=3,
            )
