"""Find, download and check the classic data sets."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils import Bunch

from bagwise.bags import Bags, Ragged
from bagwise.datasets._download import archive_name, download, parse_archive
from bagwise.datasets._registry import REGISTRY, DatasetInfo, Source
from bagwise.io.files import fail
from bagwise.io.formats import bag_offsets, load_arrays, stacked_matrix, write_npz


def fetch(
    name: str,
    *,
    label: str | None = None,
    return_X_y: bool = False,
    data_home: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
) -> Any:
    """Load a classic data set by its name.

    The folder named by the environment variable ``BAGWISE_DATA`` is searched first,
    then the user's cache (`data_home`). Otherwise the set is downloaded from its public
    source and cached. In all cases the parsed content must have the pinned
    number of bags, instances and features and the pinned fingerprint; anything else
    is refused and not cached.

    Parameters
    ----------
    name : str
        One of the names that :func:`available` lists.
    label : str, default=None
        Which labels to use where a set has several: the newsgroups have ``"y_zhou"``
        (the default, the labels used in the literature) and ``"y"`` (positive if and
        only if an instance label is).
    return_X_y : bool, default=False
        Return ``(X, y)`` instead of a Bunch.
    data_home : str or path, default=None
        Cache folder; by default the environment variable ``BAGWISE_CACHE``, or the
        default cache folder of the system.
    download_if_missing : bool, default=True
        Whether the network may be used.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        X : Bags
            The bags. Their order is that of the source.
        y : ndarray of shape (n_bags,)
            Labels 0 and 1, class numbers, or real values.
        classes : list of str or None
            Names of the classes, None for real values.
        instance_labels : Ragged or None
            Labels of the instances where they are known.
        X_test, y_test
            The test part, only where a set has one.
        name, DESCR, path, data_hash : str
            Name, description, the file read, and the fingerprint of the content,
            which does not depend on the order of bags and instances.

    Raises
    ------
    ValueError
        The name is unknown, or a file does not contain the expected data.
    FileNotFoundError
        The set is not available locally and has no public source, or
        `download_if_missing` is False.
    ConnectionError
        The download failed.

    See Also
    --------
    available : What can be fetched.
    bagwise.read_bags : Read a file of your own.
    """
    info = _lookup(name)
    wanted = _check_label(info, label)
    arrays, path = _find(info, data_home, download_if_missing)
    data = _build(info, arrays, wanted, path)
    return (data.X, data.y) if return_X_y else data


def available() -> dict[str, Bunch]:
    """List the known data sets, with their size and location.

    Returns
    -------
    dict of :class:`~sklearn.utils.Bunch`
        By name: n_bags, n_instances, n_features, n_classes (0 for real values),
        n_positive (None where there are more classes), title, reference, status
        (``"local"``: in ``BAGWISE_DATA``; ``"cached"``; ``"download"``: will be
        downloaded; ``"missing"``: no public source, the file has to be provided),
        path (or None) and source (an address, or None).

    Examples
    --------
    >>> from bagwise.datasets import available
    >>> available()["musk1"].n_bags
    92
    """
    result = {}
    for name, info in REGISTRY.items():
        local, cached = _local_file(info), _cache_folder(None) / info.filename
        if local is not None:
            status, path = "local", local
        elif cached.is_file():
            status, path = "cached", cached
        else:
            status, path = ("download" if info.sources else "missing"), None
        result[name] = Bunch(
            n_bags=info.n_bags,
            n_instances=info.n_instances,
            n_features=info.n_features,
            n_classes=info.n_classes,
            n_positive=info.n_positive,
            title=info.title,
            reference=info.reference,
            status=status,
            path=None if path is None else str(path),
            source=info.homepage,
        )
    return result


def _lookup(name: str) -> DatasetInfo:
    wanted = str(name).lower()
    files = {info.file.lower(): info for info in REGISTRY.values() if info.file}
    info = REGISTRY.get(wanted, files.get(wanted))
    if info is None:
        raise ValueError(
            f"There is no data set {name!r}. Known: {', '.join(REGISTRY)}."
        )
    return info


def _check_label(info: DatasetInfo, label: str | None) -> str:
    if label is None:
        return info.labels[0]
    if label not in info.labels:
        raise ValueError(
            f"{info.name} has the labels {', '.join(info.labels)}, got {label!r}."
        )
    return label


def _cache_folder(data_home: str | os.PathLike[str] | None) -> Path:
    chosen = data_home or os.environ.get("BAGWISE_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    import pooch

    return Path(pooch.os_cache("bagwise"))


def _local_file(info: DatasetInfo) -> Path | None:
    """Return the npz file, or an archive as downloaded by hand, in BAGWISE_DATA."""
    folder = os.environ.get("BAGWISE_DATA")
    if not folder:
        return None
    names = [info.filename, *(archive_name(s) for s in info.sources)]
    paths = (Path(folder).expanduser() / name for name in names)
    return next((path for path in paths if path.is_file()), None)


def _find(
    info: DatasetInfo,
    data_home: str | os.PathLike[str] | None,
    may_download: bool,
) -> tuple[dict[str, npt.NDArray[Any]], Path]:
    local = _local_file(info)
    if local is not None:
        if local.suffix == ".npz":
            return load_arrays(local), local
        source = next(s for s in info.sources if archive_name(s) == local.name)
        return _as_arrays(*parse_archive(local, info, source)), local
    cached = _cache_folder(data_home) / info.filename
    if cached.is_file():
        return load_arrays(cached), cached
    if not info.sources or not may_download:
        reason = "the network may not be used" if info.sources else "no public source"
        raise FileNotFoundError(
            f"{info.name} was not found locally ({reason}). {_how_to_provide(info)}"
        )
    return _download(info, cached), cached


def _download(info: DatasetInfo, cached: Path) -> dict[str, npt.NDArray[Any]]:
    """Try the sources in turn; cache what proves to be the right content."""
    failures: list[Exception] = []
    with tempfile.TemporaryDirectory(prefix="bagwise-") as folder:
        for source in info.sources:
            target = Path(folder) / archive_name(source)
            try:
                download(source.url, target)
                arrays = _cache_one(info, source, target, cached)
            except ConnectionError as error:
                failures.append(error)
            except ValueError as error:
                message = str(error).replace(str(target), source.url)
                failures.append(ValueError(message))
            else:
                _cache_others(info, source, target, cached.parent)
                return arrays
    # Report wrong content rather than a mirror that does not answer.
    wrong = [f for f in failures if isinstance(f, ValueError)]
    first = (wrong or failures)[0]
    kind = ValueError if wrong else ConnectionError
    raise kind(
        f"{info.name} could not be downloaded: {first} {_how_to_provide(info)}"
    ) from first


def _cache_one(
    info: DatasetInfo, source: Source, archive: Path, cached: Path
) -> dict[str, npt.NDArray[Any]]:
    X, y = parse_archive(archive, info, source)
    arrays = _as_arrays(X, y)
    _build(info, arrays, info.labels[0], archive)
    cached.parent.mkdir(parents=True, exist_ok=True)
    write_npz(cached, X, y)
    return arrays


def _cache_others(
    info: DatasetInfo, source: Source, archive: Path, folder: Path
) -> None:
    """Cache the other sets of the archive, to save further downloads of it."""
    for other in REGISTRY.values():
        for place in other.sources:
            if other is info or place.url != source.url:
                continue
            if not (folder / other.filename).is_file():
                # An invalid set is reported when it is requested.
                with suppress(ValueError):
                    _cache_one(other, place, archive, folder / other.filename)


def _how_to_provide(info: DatasetInfo) -> str:
    by_hand = ""
    if info.sources:
        by_hand = f" or {archive_name(info.sources[0])} (from {info.homepage})"
    return (
        f"Put {info.filename}{by_hand} into a folder and set the environment variable "
        "BAGWISE_DATA to it; bagwise.io.write_npz makes such files."
    )


def _as_arrays(X: Bags, y: npt.ArrayLike) -> dict[str, Any]:
    return {"X": X.data, "bag": X.bag_index, "y": np.asarray(y), "ids": X.ids}


def _build(info: DatasetInfo, arrays: dict[str, Any], label: str, path: Path) -> Bunch:
    """Check the arrays against the registry and return them as a Bunch."""
    X = _bags(info, arrays, path, "")
    _expect(path, info, "features", X.n_features, info.n_features)
    _expect(path, info, "bags", X.n_bags, info.n_bags)
    _expect(path, info, "instances", X.n_instances, info.n_instances)
    targets = {key: _target(arrays, key, X, path) for key in sorted(info.labels)}
    if info.n_positive is not None:
        positive = int((targets[info.labels[0]] > 0).sum())
        _expect(path, info, "positive bags", positive, info.n_positive)
    inst_y = arrays.get("inst_y")
    if inst_y is not None and np.shape(inst_y) != (X.n_instances,):
        fail(path, "inst_y must have one entry per instance")
    _expect_hash(path, info, info.sha256, X, list(targets.values()), inst_y)
    y = targets[label]
    data = Bunch(
        X=X,
        y=y if info.n_classes == 0 else y.astype(np.int64),
        classes=_classes(info, arrays),
        instance_labels=None,
        name=info.name,
        DESCR=_describe(info),
        path=str(path),
        data_hash=info.sha256,
    )
    if inst_y is not None:
        data.instance_labels = Ragged(np.asarray(inst_y, dtype=np.int64), X.offsets)
    if info.test_sha256 is not None:
        data.X_test = _bags(info, arrays, path, "_test")
        data.y_test = _target(arrays, "y_test", data.X_test, path)
        _expect_hash(path, info, info.test_sha256, data.X_test, [data.y_test], None)
    return data


def _bags(info: DatasetInfo, arrays: dict[str, Any], path: Path, part: str) -> Bags:
    matrix = stacked_matrix(arrays, path, "X" + part)
    if f"bag{part}" not in arrays:
        fail(path, f"there is no array 'bag{part}'")
    offsets = bag_offsets(arrays[f"bag{part}"], matrix.shape[0], path)
    ids = None if part else arrays.get("ids", arrays.get("molecule"))
    if ids is not None and np.shape(ids) != (len(offsets) - 1,):
        fail(path, "there must be one name for each bag")
    if ids is not None and np.asarray(ids).dtype.kind == "U":
        ids = np.asarray(ids).astype(object)
    names = None
    if info.name.startswith("musk"):
        names = np.array([f"f{j + 1}" for j in range(matrix.shape[1])], dtype=object)
    return Bags(matrix, offsets, ids=ids, feature_names=names)


def _target(arrays: dict[str, Any], key: str, X: Bags, path: Path) -> npt.NDArray[Any]:
    y = np.asarray(arrays.get(key, ()))
    if y.shape != (X.n_bags,) or y.dtype.kind not in "fiub":
        fail(path, f"{key!r} must contain one number for each of the {X.n_bags} bags")
    return y


def _expect(path: Path, info: DatasetInfo, what: str, found: int, known: int) -> None:
    if found != known:
        fail(
            path,
            f"this is not the data set {info.name}, which has {known} {what}: the "
            f"source has {found} and is refused",
        )


def _expect_hash(
    path: Path, info: DatasetInfo, known: str, X: Bags, targets: Any, inst_y: Any
) -> None:
    found = content_hash(X, targets, inst_y)
    if found != known:
        fail(
            path,
            f"values or labels differ from those of {info.name}: fingerprint "
            f"{found[:16]}... instead of {known[:16]}...; the source is refused",
        )


def _classes(info: DatasetInfo, arrays: dict[str, Any]) -> list[str] | None:
    if info.n_classes == 0:
        return None
    names = arrays.get("class_names")
    if names is not None and len(names) == info.n_classes:
        return [str(n) for n in names]
    if info.n_classes == 2:
        return ["negative", "positive"]
    return [str(i) for i in range(info.n_classes)]


def _describe(info: DatasetInfo) -> str:
    kind = (
        "real-valued labels"
        if info.n_classes == 0
        else f"{info.n_classes} classes"
        if info.n_positive is None
        else f"{info.n_positive} positive"
    )
    return (
        f"{info.name}: {info.title}\n{info.n_bags} bags ({kind}), "
        f"{info.n_instances} instances, {info.n_features} features.\n{info.reference}\n"
        f"Source: {info.homepage or 'no public download is known'}\n"
    )


def content_hash(
    X: Bags,
    targets: Sequence[npt.ArrayLike] = (),
    instance_values: npt.ArrayLike | None = None,
) -> str:
    """Return the SHA-256 of bags, labels and instance labels in any order.

    Values are rounded to float32 (sources write different numbers of digits) and
    zeros are left out (a source may be dense or sparse). Each instance gives a
    digest, each bag the digest of its labels and its sorted instances, and the set
    the digest of its width and its sorted bags.

    Parameters
    ----------
    X : Bags
        The bags.
    targets : sequence of array-like of shape (n_bags,), default=()
        Label vectors, in a fixed order.
    instance_values : array-like of shape (n_instances,), default=None
        Labels of instances.
    """
    matrix = sp.csr_array(X.data).astype(np.float32)
    matrix.sort_indices()
    matrix.eliminate_zeros()
    indices, values = matrix.indices.astype("<i4"), matrix.data.astype("<f4")
    extra = _column(instance_values, X.n_instances)
    instances = []
    for i, (start, stop) in enumerate(
        zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)
    ):
        digest = hashlib.sha256(indices[start:stop].tobytes())
        digest.update(b"|" + values[start:stop].tobytes() + b"|" + extra[i])
        instances.append(digest.digest())
    labels = [_column(t, X.n_bags) for t in targets]
    bags = []
    for b, (start, stop) in enumerate(zip(X.offsets[:-1], X.offsets[1:], strict=True)):
        digest = hashlib.sha256(b"|".join(column[b] for column in labels) + b"#")
        for instance in sorted(instances[start:stop]):
            digest.update(instance)
        bags.append(digest.digest())
    whole = hashlib.sha256(f"{X.n_bags},{X.n_instances},{X.n_features}".encode())
    for bag in sorted(bags):
        whole.update(bag)
    return whole.hexdigest()


def _column(values: Any, length: int) -> list[bytes]:
    if values is None:
        return [b""] * length
    array = np.asarray(values)
    if array.shape != (length,):
        raise ValueError(f"expected {length} values, got shape {array.shape}.")
    # Adding 0.0 turns -0.0 into 0.0.
    return [v.tobytes() for v in array.astype("<f8") + 0.0]
