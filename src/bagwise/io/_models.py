"""Model files: save and load fitted estimators without pickle.

A file is a zip archive with one description of the objects (JSON) and plain arrays
(npy). The description holds the hash of every array, and the comment of the archive the
hash of the description: accidental changes are noticed. Sizes are checked in the
directory of the archive before anything is unpacked.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import json
import os
import warnings
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import sklearn

from bagwise._version import __version__
from bagwise.io._codec import CannotSave, Decoder, Encoder, UntrustedType
from bagwise.io._schema import DamagedFile
from bagwise.io.files import whole_file
from bagwise.io.record import ATTRIBUTE, ModelRecord, record_of

_FORMAT = "bagwise-model"
_FORMAT_VERSION = 2
_MAX_BYTES = 2**33
DESCRIPTION = "model.json"
# Compression shrinks models to about a third, and zeros to a thousandth.
MOST_PACKED = 100
FREE_BYTES = 16 * 2**20
MOST_MEMBERS = 100_000
MOST_DESCRIPTION = 256 * 2**20
# Array kinds of numbers or text; object arrays would be pickles.
_KINDS = "biufSU"


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file that :func:`load` reads safely.

    Parameters
    ----------
    model : estimator
        Any estimator of bagwise, most estimators of scikit-learn, or a pipeline or
        search of such estimators. An estimator class of your own can be saved; it has
        to be named when the file is loaded.
    path : str or path
        The file. It is written completely or not at all.

    Raises
    ------
    ValueError
        The model contains something that could not be loaded again, such as a function
        or a lambda. The message names the attribute.

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
    found = record_of(model)
    try:
        described = encoder.encode(model, "the model")
        training = None
        if found is not None:
            checked = ModelRecord.from_state(found.state())
            training = encoder.encode(checked.state(), "its training record")
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
        "training": training,
    }
    _write(target, record, encoder.arrays)


def load(
    path: str | os.PathLike[str],
    *,
    trusted: Iterable[str | type] = (),
    max_bytes: int = _MAX_BYTES,
) -> Any:
    """Read a model that :func:`save` wrote.

    A file cannot run code: classes come from a fixed list (those of bagwise and listed
    classes of scikit-learn), their objects are made without a constructor, functions
    are known by name, and sizes are checked before anything is unpacked. Offsets, nodes
    of trees and support vectors are checked as well, because compiled code does not
    check them. Accidental changes of the content are detected by hashes; they do not
    show who wrote the file. A file of another version causes a warning, and a file of a
    newer scikit-learn is refused.

    Parameters
    ----------
    path : str or path
        The file.
    trusted : iterable of str or type, default=()
        Further estimator classes to allow, as classes or by their full names (as in
        the error message). Their constructors do not run either, but bagwise does not
        know what their methods do with the state in the file.
    max_bytes : int, default=2**33
        Refuse a file that unpacks to more.

    Returns
    -------
    model : estimator
        The model as it was saved.

    Raises
    ------
    ValueError
        The file is damaged, is not a model file, was written with a newer version of
        scikit-learn, or holds types that are not trusted; the message names them.
    ImportError
        The model needs a library that is not installed.
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
    except (ImportError, _NewerVersion) as error:
        raise type(error)(f"{source}: {error}") from None
    # A damaged file raises zip, JSON, key or array errors.
    except Exception as error:
        raise ValueError(
            f"{source}: the model file is damaged, truncated, or not a model file "
            f"({type(error).__name__}: {error})."
        ) from error
    _check_versions(versions, source)
    return model


class _NewerVersion(ValueError):
    """The file was written with a newer version of scikit-learn."""


def _read(
    path: Path, trusted: dict[str, type], max_bytes: int
) -> tuple[Any, dict[str, str]]:
    reader = _Reader(path, max_bytes)
    try:
        record = reader.description()
        if not isinstance(record, dict) or record.get("format") != _FORMAT:
            raise DamagedFile("it was not written by bagwise.save")
        if record.get("version") != _FORMAT_VERSION:
            raise DamagedFile(
                f"its format is version {record.get('version')!r}, and this version of "
                f"bagwise reads version {_FORMAT_VERSION}"
            )
        names = ("bagwise", "scikit-learn")
        versions = {name: str(record.get(name))[:40] for name in names}
        _refuse_newer(versions["scikit-learn"])
        reader.hashes = record.get("arrays")
        decoder = Decoder(reader.array, trusted)
        model = decoder.decode(record.get("model"))
        if record.get("training") is not None:
            found = ModelRecord.from_state(decoder.decode(record["training"]))
            if not hasattr(model, "__dict__"):
                raise DamagedFile("a training record belongs to a model")
            vars(model)[ATTRIBUTE] = found
        return model, versions
    finally:
        reader.archive.close()


def _refuse_newer(written: str) -> None:
    """Refuse a file of a newer scikit-learn, whose objects have other attributes."""
    here = sklearn.__version__
    if _major_minor(written) > _major_minor(here):
        raise _NewerVersion(
            f"the model was saved with scikit-learn {written}, which is newer than the "
            f"installed {here}. Install scikit-learn {written}, or fit and save the "
            "model again with this version."
        )


def _major_minor(version: str) -> tuple[int, ...]:
    parts = version.split(".")[:2]
    return tuple(int(part) if part.isdigit() else 0 for part in parts)


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
        raise ValueError(f"trusted names {given!r}, but there is no such class.")
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


# ------------------------------------------------------------------------- archive


def _write(path: Path, record: dict[str, Any], arrays: list[npt.NDArray[Any]]) -> None:
    """Write the description and the arrays."""
    hashes: list[str] = []
    with whole_file(path) as stream, zipfile.ZipFile(stream, "w") as out:
        for number, array in enumerate(arrays):
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, array, allow_pickle=False)
            raw = buffer.getvalue()
            hashes.append(hashlib.sha256(raw).hexdigest())
            _put(out, _member(number), raw)
        text = json.dumps({**record, "arrays": hashes}, allow_nan=False).encode()
        _put(out, DESCRIPTION, text)
        out.comment = hashlib.sha256(text).hexdigest().encode()


def _put(out: zipfile.ZipFile, name: str, raw: bytes) -> None:
    # The reader rejects entries that shrink too much: store them without compression.
    packed = len(zlib.compress(raw, 1))
    plain = len(raw) > 2**16 and len(raw) > MOST_PACKED * packed // 2
    method = zipfile.ZIP_STORED if plain else zipfile.ZIP_DEFLATED
    out.writestr(name, raw, method, compresslevel=1)


def _member(number: int) -> str:
    return f"arrays/{number}.npy"


class _Reader:
    """The description and the arrays of an archive, within limits."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        self.hashes: Any = None  # hashes of arrays; set once the description is read
        size = path.stat().st_size
        if size == 0:
            raise DamagedFile("the file is empty")
        if size > max_bytes:
            raise DamagedFile(f"the file has {size:,} bytes, more than {max_bytes:,}")
        self.archive = zipfile.ZipFile(path)
        entries = self.archive.infolist()
        self.entries = {entry.filename: entry for entry in entries}
        full = sum(entry.file_size for entry in entries)
        packed = sum(entry.compress_size for entry in entries)
        if len(entries) > MOST_MEMBERS or len(self.entries) != len(entries):
            raise DamagedFile("too many members, or two members with the same name")
        if packed > size:
            raise DamagedFile("members of the archive overlap")
        if full > max_bytes or full > FREE_BYTES + MOST_PACKED * size:
            raise DamagedFile(
                f"{size:,} bytes declare {full:,} bytes of content, more than is "
                "plausible"
            )

    def description(self) -> Any:
        """Return the description, parsed."""
        entry = self.entries.get(DESCRIPTION)
        if entry is None:
            raise DamagedFile("it has no description")
        if entry.file_size > MOST_DESCRIPTION:
            raise DamagedFile(f"its description has {entry.file_size:,} bytes")
        raw = self._read(entry)
        _check_hash(raw, self.archive.comment.decode("ascii", "replace"), "description")
        try:
            return json.loads(raw, parse_constant=_refuse_constant)
        except RecursionError:
            raise DamagedFile("its description is nested too deeply") from None

    def array(self, number: Any) -> npt.NDArray[Any]:
        """Return one array, of plain entries or a record."""
        if type(number) is not int or _member(number) not in self.entries:
            raise DamagedFile(f"there is no array {number!r}")
        if type(self.hashes) is not list or not 0 <= number < len(self.hashes):
            raise DamagedFile(f"there is no hash of array {number}")
        raw = self._read(self.entries[_member(number)])
        _check_hash(raw, self.hashes[number], f"array {number}")
        stream = io.BytesIO(raw)
        version = np.lib.format.read_magic(stream)
        if version not in ((1, 0), (2, 0)):
            raise DamagedFile(f"array {number} has the version {version}")
        header = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        shape, fortran, dtype = header(stream)
        _refuse_dtype(dtype)
        start = stream.tell()
        count = 1
        for length in shape:
            if type(length) is not int or length < 0:
                raise DamagedFile(f"array {number} has the shape {shape}")
            count *= length
        if len(shape) > 8 or count * dtype.itemsize != len(raw) - start:
            raise DamagedFile(f"array {number} does not have the size it declares")
        # A copy, which is writeable and aligned.
        entries = np.empty(count, dtype=dtype)
        entries[:] = np.frombuffer(raw, dtype=dtype, count=count, offset=start)
        return entries.reshape(shape, order="F" if fortran else "C")

    def _read(self, entry: zipfile.ZipInfo) -> bytes:
        with self.archive.open(entry) as stream:
            raw = stream.read(entry.file_size + 1)
        if len(raw) != entry.file_size:
            raise DamagedFile(f"{entry.filename} does not have the size it declares")
        return raw


def _check_hash(raw: bytes, expected: Any, what: str) -> None:
    if hashlib.sha256(raw).hexdigest() != expected:
        raise DamagedFile(f"the {what} was changed after the file was written")


def _refuse_constant(name: str) -> Any:
    raise DamagedFile(f"its description contains {name}")


def _refuse_dtype(dtype: np.dtype[Any]) -> None:
    kinds = [dtype] if dtype.names is None else [dtype[name] for name in dtype.names]
    if dtype.itemsize == 0 and dtype.kind not in "SU":
        raise DamagedFile(f"an array has the type {dtype}")
    for kind in kinds:
        if kind.kind not in _KINDS or kind.subdtype is not None or kind.names:
            raise DamagedFile(f"an array has the type {dtype}")
