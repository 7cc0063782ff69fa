"""Readers of bag files: one module per format."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from bagwise.io._assemble import bags_from_table
from bagwise.io.positive import positive_or_not
from bagwise.io.readers.npz import write_npz
from bagwise.io.roles import Roles

__all__ = ["FORMATS", "read_bags", "write_npz"]

_SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".npz": "npz",
    ".data": "musk",
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".arff": "arff",
}
FORMATS = ("arff", "csv", "musk", "npz", "parquet", "svmlight")
_TABLES = ("csv", "parquet")


def read_bags(
    path: str | os.PathLike[str],
    bag: str | None = None,
    label: str | None = None,
    *,
    pos_label: Any = None,
    group: str | None = None,
    instance_id: str | None = None,
    weight: str | None = None,
    coords: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    missing: Literal["error", "keep"] = "error",
    format: str | None = None,
    n_features: int | None = None,
    sparse: bool | None = None,
    labels: Any = None,
    dataset: str | None = None,
    pool: str | None = None,
    on_missing: Literal["error", "drop"] = "error",
    cache: str | os.PathLike[str] | bool | None = None,
) -> Any:
    r"""Read bags from a file, or from a folder with one file a bag.

    ============  =====================  ==============================================
    format        suffix                 content
    ============  =====================  ==============================================
    ``csv``       .csv .tsv .txt (.gz)   header; one row per instance; comma,
                                         semicolon or tab; decimal commas with the
                                         latter two
    ``parquet``   .parquet .pq           one row per instance (pyarrow or polars)
    ``npz``       .npz                   arrays ``X`` (or ``data``, ``indices``,
                                         ``indptr``, ``shape``), ``bag``, ``y``; a
                                         3-D ``X`` needs no ``bag``
    ``musk``      .data                  UCI Musk: molecule, conformation, features,
                                         class
    ``svmlight``  .svm .svmlight         ``instance:bag:label index:value ...``
    ``arff``      .arff                  WEKA, one relational attribute
    ``folder``    a folder               one file a bag (slide): .h5, .pt, .npz, .npy,
                                         .zarr; labels in a table of their own
    ============  =====================  ==============================================

    In a folder, the rows are the dataset ``features`` (or ``feats``,
    ``patch_embeddings``, ``embeddings``, ``X``) of each file, with or without a leading
    axis of one; ``coords`` and names of the rows travel along where all files have
    them. A first look reads sizes only. Rows that would fill the memory are copied
    once into a file that is mapped into memory and found again next time; half
    precision stays what it is.

    Parameters
    ----------
    path : str or path
        The file.
    bag : str, default=None
        Name of the bag column. Needed for ``csv`` and ``parquet``; for ``npz`` and
        ``arff`` it defaults to ``"bag"`` and to the first attribute that is neither
        the relation nor the label. ``musk`` and ``svmlight`` have a fixed place.
    label : str, default=None
        Name of the label column. Without it ``csv`` and ``parquet`` give no labels,
        ``npz`` takes ``"y"`` where there is one, ``arff`` takes the last attribute.
    pos_label : label, default=None
        The positive one of two labels: `y` is 1 for it and 0 for the other. The command
        line and :func:`bagwise.compare` take it as well, and keep the names of classes.
    group : str, default=None
        The column that says which bags belong together (a patient, a compound),
        constant inside every bag; it travels as ``X.groups``. For ``npz`` an array
        with an entry for each bag, ``"groups"`` where there is one.
    instance_id : str, default=None
        The column with the names of the rows, ``X.instance_ids`` (``npz``: an array,
        ``"instance_ids"`` where there is one).
    weight : str, default=None
        The column with the weight of the bag, constant inside every bag.
    coords : sequence of str, default=None
        The columns that say where an instance lies, ``X.coords``.
    features : sequence of str, default=None
        The feature columns (``csv``, ``parquet``); by default all that play no other
        part.
    drop : sequence of str, default=()
        Columns that play no part at all (``csv``, ``parquet``).
    missing : {"error", "keep"}, default="error"
        What happens to missing values in features (``csv``, ``parquet``, ``npz``):
        they are refused, or become NaN for an imputer to fill.
    format : str, default=None
        One of the formats above; by default the suffix tells.
    n_features : int, default=None
        Number of columns of a ``svmlight`` file; the largest index by default.
    sparse : bool, default=None
        Whether a ``svmlight`` file gives CSR. By default it does when the matrix is
        mostly zero and large.
    labels : path or table, default=None
        For a folder: the table with one row a slide that has the columns `bag`,
        `label`, `group`, `weight` and `pool`. Names of files count without suffix.
    dataset : str, default=None
        For a folder: the name of the features inside each file.
    pool : str, default=None
        For a folder: the column of `labels` whose equal values make one bag, such as
        "patient" (a column "patient_id" is found as well); the bag is then called by
        that value, and `instance_ids` tell the slide of each row where the files have
        no names for them.
    on_missing : {"error", "drop"}, default="error"
        For a folder: what happens to files without a label, labels without a file,
        files that are empty, cut off, doubled, of another width, or hold NaN. All are
        listed in one message; "drop" goes on without them, with a warning.
    cache : path, bool or None, default=None
        For a folder: where the rows are kept. By default in memory if they take less
        than an eighth of it, otherwise in a file of the user's cache folder (or of
        ``BAGWISE_CACHE``); True wants that file, False wants memory.

    Returns
    -------
    X : Bags
        Bags in the order of first appearance, with ids and feature names.
    y : ndarray of shape (n_bags,) or None
        The labels as they are: integers, floats or booleans if all of them are,
        otherwise strings. An ``npz`` may hold a table of several labels a bag.
    sample_weight : ndarray of shape (n_bags,)
        The weights. Only when `weight` is given.

    Raises
    ------
    ValueError
        The file is damaged, or not what its format says; the message names the file
        and, in text formats, the line.
    TableError
        The table cannot become bags. Columns that are no numbers are listed all at
        once with the argument that leaves them out; missing values are refused unless
        they are kept, infinity always.

    Warns
    -----
    TableWarning
        A column without a name counts the rows and is left out; or numbers look like
        names or groups.

    See Also
    --------
    bagwise.from_frame : The same from a table in memory.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from bagwise.io import read_bags
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "toy.csv"
    >>> _ = path.write_text("mol,active,u\na,1,0.5\na,1,2\nb,0,1\n")
    >>> X, y = read_bags(path, bag="mol", label="active")
    >>> X.n_bags, y
    (2, array([1, 0]))
    """
    file = Path(path)
    kind = "folder" if file.is_dir() and format is None else _format(file, format)
    roles = Roles.of(
        bag=bag,
        label=label,
        group=group,
        instance_id=instance_id,
        weight=weight,
        coords=coords,
        features=features,
        drop=drop,
        missing=missing,
    )
    _refuse_options(file, kind, roles, n_features, sparse)
    for_folders = {"labels": labels, "dataset": dataset, "pool": pool, "cache": cache}
    given = [name for name, value in for_folders.items() if value is not None]
    if kind != "folder" and given:
        raise ValueError(f"{file}: {given[0]}= is for a folder with one file a bag.")
    if kind == "folder":
        from bagwise.io.folder import read_folder

        found = read_folder(file, roles, on_missing=on_missing, **for_folders)
    else:
        found = _read_file(file, kind, roles, n_features, sparse)
    if pos_label is None:
        return found
    X, y, *weight = found
    return X, positive_or_not(y, pos_label, str(file)), *weight


def _read_file(
    file: Path, kind: str, roles: Roles, n_features: int | None, sparse: bool | None
) -> Any:
    if kind in _TABLES:
        return _read_table(file, kind, roles)
    if kind == "npz":
        from bagwise.io.readers.npz import read_npz

        return read_npz(file, roles)
    if kind == "musk":
        from bagwise.io.readers.musk import read_musk

        return read_musk(file)
    if kind == "svmlight":
        from bagwise.io.readers.svmlight import read_svmlight

        return read_svmlight(file, n_features, sparse)
    from bagwise.io.readers._arff import read_arff

    return read_arff(file, roles.bag, roles.label)


def _read_table(path: Path, kind: str, roles: Roles) -> Any:
    if kind == "csv":
        from bagwise.io.readers._csv import read_csv

        table = read_csv(path, roles)
    else:
        from bagwise.io.readers._parquet import read_parquet

        table = read_parquet(path)
    X, y, sample_weight = bags_from_table(table, roles)
    return (X, y) if roles.weight is None else (X, y, sample_weight)


def _format(path: Path, given: str | None) -> str:
    if given is not None:
        if given not in FORMATS:
            raise ValueError(
                f"format must be one of {', '.join(FORMATS)}, got {given!r}."
            )
        return given
    suffixes = [s.lower() for s in path.suffixes if s.lower() != ".gz"]
    kind = _SUFFIXES.get(suffixes[-1]) if suffixes else None
    if kind is None:
        if not path.exists():
            raise FileNotFoundError(f"{path}: there is no such file or folder.")
        raise ValueError(
            f"{path}: the suffix {path.suffix!r} does not tell the format; say "
            f"format=..., one of {', '.join(FORMATS)}."
        )
    return kind


def _refuse_options(
    path: Path, kind: str, roles: Roles, n_features: int | None, sparse: bool | None
) -> None:
    """Refuse options that a format would ignore."""
    if kind in ("musk", "svmlight") and (roles.bag, roles.label) != (None, None):
        raise ValueError(
            f"{path}: the {kind} format says itself where bag and label are; leave "
            "bag= and label= out."
        )
    for name in ("features", "drop", "coords", "weight"):
        if kind == "folder" and name == "weight":
            continue
        if getattr(roles, name) and kind not in _TABLES:
            raise ValueError(f"{path}: {name}= is for csv and parquet, not for {kind}.")
    for name in ("group", "instance_id"):
        if kind == "folder" and name == "group":
            continue
        if getattr(roles, name) and kind not in (*_TABLES, "npz"):
            raise ValueError(f"{path}: {name}= is not known to the {kind} format.")
    if roles.missing == "keep" and kind not in (*_TABLES, "npz", "folder"):
        raise ValueError(f"{path}: missing='keep' is not for the {kind} format.")
    if kind != "svmlight" and (n_features is not None or sparse is not None):
        raise ValueError(f"{path}: n_features= and sparse= are for svmlight only.")
