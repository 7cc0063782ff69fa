"""`read_bags`: one function for all formats."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from bagwise.exceptions import DataError, ParameterError
from bagwise.io.roles import Roles, leave_out, positive_or_not
from bagwise.io.table import Table, bags_from_table

_SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".xlsx": "xlsx",
    ".npz": "npz",
    ".data": "musk",
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".arff": "arff",
    ".h5ad": "h5ad",
    ".sdf": "sdf",
    ".smi": "smi",
    ".smiles": "smi",
}
FORMATS = (
    *("airr", "arff", "csv", "h5ad", "musk"),
    *("npz", "parquet", "sdf", "smi", "svmlight", "xlsx"),
)
_TABLES = ("csv", "parquet", "xlsx")
# Formats with a separate table of labels, in which rows are already excluded.
_BY_LABELS_TABLE = ("folder", "airr", "sdf", "smi", "smiles")
_TEXT = ("csv", "arff")
_LABELED = (*_TABLES, "folder", "airr", "h5ad", "sdf", "smi", "smiles")
# Formats that support each role and option; all other formats reject them.
_KNOWN_TO = {
    "bag": (*_LABELED, "npz", "arff"),
    "label": (*_LABELED, "npz", "arff"),
    "more_labels": _LABELED,
    "exclude_label": (*_LABELED, "npz", "arff"),
    "time": (*_LABELED, "npz"),
    "event": (*_LABELED, "npz"),
    "group": (*_LABELED, "npz"),
    "instance_id": (*_TABLES, "npz", "h5ad"),
    "instance_type": (*_TABLES, "npz", "h5ad"),
    "weight": _LABELED,
    "coords": _TABLES,
    "features": (*_TABLES, "h5ad"),
    "drop": _TABLES,
    "n_features": ("svmlight", "airr"),
    "sparse": ("svmlight",),
    "labels": ("folder", "airr", "sdf", "smi"),
    "dataset": ("folder",),
    "pool": ("folder",),
    "cache": ("folder",),
    "smiles": ("smiles",),
    "conformers": ("sdf", "smi", "smiles"),
    "kmer": ("airr",),
    "gapped": ("airr",),
    "bag_features": _TABLES,
    "encode": _TABLES,
    "text": _TABLES,
}


def read_bags(
    path: str | os.PathLike[str],
    bag: str | None = None,
    label: str | Sequence[str] | None = None,
    *,
    exclude_label: str | Sequence[str] | None = None,
    time: str | None = None,
    event: str | None = None,
    pos_label: Any = None,
    group: str | None = None,
    instance_id: str | None = None,
    instance_type: str | None = None,
    weight: str | None = None,
    coords: Sequence[str] | None = None,
    features: Sequence[str] | str | None = None,
    drop: Sequence[str] = (),
    missing: Literal["error", "keep"] = "error",
    encode: Literal["auto"] | Sequence[str] | None = None,
    text: str | Sequence[str] | None = None,
    format: str | None = None,
    n_features: int | None = None,
    sparse: bool | None = None,
    labels: Any = None,
    dataset: str | None = None,
    pool: str | None = None,
    bag_features: Any = None,
    on_missing: Literal["error", "drop"] = "error",
    cache: str | os.PathLike[str] | bool | None = None,
    smiles: str | None = None,
    conformers: int | None = None,
    kmer: int | None = None,
    gapped: bool | None = None,
) -> Any:
    r"""Read bags from a file, or from a folder with one file per bag.

    ============  =====================  ==============================================
    format        suffix                 content
    ============  =====================  ==============================================
    ``csv``       .csv .tsv .txt (.gz)   header; one row per instance; comma,
                                         semicolon or tab; decimal commas with the
                                         latter two
    ``parquet``   .parquet .pq           one row per instance (pyarrow or polars)
    ``xlsx``      .xlsx                  one row per instance (pandas and openpyxl)
    ``npz``       .npz                   arrays ``X`` (or ``data``, ``indices``,
                                         ``indptr``, ``shape``), ``bag``, ``y``; a
                                         3-D ``X`` needs no ``bag``
    ``musk``      .data                  UCI Musk: molecule, conformation, features,
                                         class
    ``svmlight``  .svm .svmlight         ``instance:bag:label index:value ...``
    ``arff``      .arff                  WEKA, one relational attribute
    ``folder``    a folder               one file per bag (slide): .h5, .pt, .npz,
                                         .npy, .zarr; labels in a separate table
    ``h5ad``      .h5ad                  AnnData: one row per cell (anndata)
    ``airr``      a folder               one table of rearrangements per person, .tsv;
                                         labels in a separate table
    ``sdf``       .sdf (.gz)             molecules with properties (RDKit)
    ``smi``       .smi .smiles (.gz)     SMILES and name per line (RDKit)
    ============  =====================  ==============================================

    In a folder, the rows are the dataset ``features`` (or ``feats``,
    ``patch_embeddings``, ``embeddings``, ``X``) of each file, with or without a leading
    axis of length one. Coordinates (``coords``) and names of the rows are read if all
    files have them. The sizes of all files are read first. Rows that would fill the
    memory are copied once into a file that is mapped into memory and used again next
    time. Half precision is kept.

    In an ``h5ad`` file, `bag` names the column of ``obs`` with the donor of each cell.
    Only the columns that are named and one matrix are read.

    In ``airr`` folders (``format="airr"``), the instances of a person are the different
    amino acid sequences of the CDR3, counted by their k-mers. A count is multiplied by
    :math:`1 + \log_2 n`, where n is the number of copies of the sequence
    (``duplicate_count``). Rearrangements that are not productive are excluded.

    Of molecules (``sdf``, ``smi``, and tables with `smiles`), the instances are
    conformers. Their features are descriptors of the 3-D shape. The default group is
    the Bemis-Murcko scaffold.

    Parameters
    ----------
    path : str or path
        The file or folder.
    bag : str, default=None
        Name of the bag column. Required for tables and for ``h5ad``. For
        ``npz`` it defaults to ``"bag"``, for ``arff`` to the first attribute that is
        neither the relation nor the label, for ``sdf`` to the title of the molecule.
        ``musk`` and ``svmlight`` have a fixed position.
    label : str or sequence of str, default=None
        Name of the label column. Without it tables give no labels, ``npz`` uses ``"y"``
        if it exists, ``arff`` the last attribute. Several columns of zeros and ones
        give several labels per bag, a column of `y` each.
    exclude_label : str or sequence of str, default=None
        Labels such as "unknown", whose bags are excluded.
    time, event : str, default=None
        For survival, in place of `label` (``csv``, ``parquet``, ``npz``, folders): the
        column of times until the event or until the end of observation, and the column
        that is true, or 1, if the event was observed.
    pos_label : label, default=None
        The positive one of two labels: `y` is 1 for it and 0 for the other. The command
        line and :func:`bagwise.compare` accept it as well and keep the names of the
        classes.
    group : str, default=None
        The column that says which bags belong together (a patient, a compound),
        constant inside every bag; stored as ``X.groups``. For ``npz`` an array with one
        entry per bag, by default ``"groups"`` if it exists.
    instance_id : str, default=None
        The column with the names of the rows, stored as ``X.instance_ids`` (``npz``: an
        array, by default ``"instance_ids"`` if it exists).
    instance_type : str, default=None
        The column with the type of each row, such as a type of cells; stored as
        ``X.instance_types``. Reports and explanations summarize scores per type.
    weight : str, default=None
        The column with the weight of the bag, constant inside every bag.
    coords : sequence of str, default=None
        The columns with the coordinates of an instance, stored as ``X.coords``.
    features : sequence of str, default=None
        The feature columns (``csv``, ``parquet``); by default all columns without
        another role. For ``h5ad`` the name of a matrix: ``"X"`` (default),
        ``"obsm:X_pca"`` or ``"layers:counts"``.
    drop : sequence of str, default=()
        Columns that are not used (``csv``, ``parquet``).
    missing : {"error", "keep"}, default="error"
        Whether missing values in features (``csv``, ``parquet``, ``npz``, folders) are
        an error, or become NaN for an imputer to fill in.
    encode : "auto" or sequence of str, default=None
        Columns (``csv``, ``parquet``) that are not numbers and are kept: categories,
        dates and texts, as `Bags.codings`. `bagwise.compose.EncodeColumns` turns them
        into numbers inside the training folds; `compare` and `BagClassifier` do so
        automatically. "auto" keeps all such columns except names of rows, and numbers
        mixed with text. Named columns of numbers become categories.
    text : str or sequence of str, default=None
        Columns with texts, which are encoded by their words.
    format : str, default=None
        One of the formats above; inferred from the suffix by default.
    n_features : int, default=None
        Number of columns of a ``svmlight`` file, by default the largest index. For
        ``airr`` the number of columns for k-mers, by default 2**18; if there are more
        k-mers, several share a column (hashing).
    sparse : bool, default=None
        Whether a ``svmlight`` file gives CSR. By default it does if the matrix is
        mostly zero and large.
    labels : path or table, default=None
        For a folder: the table with one row per file and the columns `bag`, `label`,
        `time`, `event`, `group`, `weight` and `pool`. Names of files are compared
        without their suffix. For ``sdf`` and ``smi``: the table with one row per
        molecule.
    dataset : str, default=None
        For a folder: the name of the features inside each file.
    pool : str, default=None
        For a folder: the column of `labels` whose equal values make one bag, such as
        "patient" (a column "patient_id" is found as well). The name of the bag is then
        that value, and `instance_ids` hold the slide of each row if the files have no
        names for their rows.
    bag_features : path or table, default=None
        A second table with one row per bag and the same column `bag`, such as age and
        income of customers next to their transactions. Its columns are repeated for
        every instance of the bag, so that every method learns from them. The label and
        the group may be among them.
    on_missing : {"error", "drop"}, default="error"
        For a folder: what happens to files without a label, labels without a file, and
        files that are empty, truncated, duplicated, of another width, or hold NaN. All
        are listed in one message; "drop" continues without them and warns. A slide
        without a time or without an event has no label. The same holds for cells
        without a donor or a label, for bags without a row in `bag_features`, and for
        molecules that cannot be read or embedded.
    cache : path, bool or None, default=None
        For a folder: where the rows are kept. By default in memory if they take less
        than an eighth of it, otherwise in a file of the user's cache folder (or of
        ``BAGWISE_CACHE``). True always uses that file, False always uses memory.
    smiles : str, default=None
        For ``csv`` and ``parquet``: the column of SMILES. The rows are then molecules,
        and features are not read from other columns.
    conformers : int, default=None
        For molecules: the number of conformers to generate for each molecule (ETKDG
        with a fixed seed), by default 10. An ``sdf`` file with 3-D coordinates is read
        as it is by default: records of one name are the conformers of one molecule.
    kmer : int, default=None
        For ``airr``: the length of the k-mers, by default 4.
    gapped : bool, default=None
        For ``airr``: whether k-mers with one free position are counted as well, by
        default False.

    Returns
    -------
    X : Bags
        Bags in the order of first appearance, with ids and feature names.
    y : ndarray of shape (n_bags,) or None
        The labels: integers, floats or booleans if all of them are, otherwise text. An
        ``npz`` may hold several labels per bag as a matrix. With `time` and `event` a
        structured array with these two fields.
    sample_weight : ndarray of shape (n_bags,)
        The weights. Only if `weight` is given.

    Raises
    ------
    DataError
        The file is damaged, not in its format, or cannot become bags. The message names
        the file and, in text formats, the line. Columns that are not numeric are listed
        together with the argument that excludes them. Missing values are refused
        unless they are kept, infinity is always refused.
    ParameterError
        An argument does not fit the format.

    Warns
    -----
    DataWarning
        A column without a name counts the rows and is excluded, or numbers look like
        names or groups.

    See Also
    --------
    bagwise.from_frame : The same for a table in memory.

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
    _refuse_other_names(file)
    kind = "folder" if file.is_dir() and format is None else _format(file, format)
    if smiles is not None and kind in _TABLES:
        kind = "smiles"
    if kind == "h5ad" and isinstance(features, str):
        features = [features]
    roles = Roles.of(
        bag=bag,
        label=label,
        exclude_label=exclude_label,
        time=time,
        event=event,
        group=group,
        instance_id=instance_id,
        instance_type=instance_type,
        weight=weight,
        coords=coords,
        features=features,
        drop=drop,
        missing=missing,
        encode=encode,
        text=text,
    )
    options = {
        "n_features": n_features,
        "sparse": sparse,
        "labels": labels,
        "dataset": dataset,
        "pool": pool,
        "bag_features": bag_features,
        "cache": cache,
        "smiles": smiles,
        "conformers": conformers,
        "kmer": kmer,
        "gapped": gapped,
    }
    _refuse_options(file, kind, roles, options)
    own = {name: v for name, v in options.items() if kind in _KNOWN_TO[name]}
    found = _READERS.get(kind, _read_table)(file, kind, roles, on_missing, own)
    if roles.exclude_label and kind not in _BY_LABELS_TABLE:
        found = leave_out(found, roles.exclude_label, str(file), kind in _TEXT)
    if pos_label is None:
        return found
    X, y, *weights = found
    return X, positive_or_not(y, pos_label, str(file)), *weights


def _read_table(file: Path, kind: str, roles: Roles, on_missing: str, own: Any) -> Any:
    def read(roles: Roles) -> Table:
        if kind == "csv":
            from bagwise.io.csv_files import read_csv

            return read_csv(file, roles)
        from bagwise.io.formats import read_parquet, read_xlsx

        return (read_xlsx if kind == "xlsx" else read_parquet)(file)

    if own["bag_features"] is None:
        table = read(roles)
    else:
        from bagwise.io._bag_table import with_bag_features

        table = with_bag_features(read, own["bag_features"], roles, on_missing)
    return _with_weights(bags_from_table(table, roles), roles)


def _with_weights(found: Any, roles: Roles) -> Any:
    X, y, sample_weight = found
    return (X, y) if roles.weight is None else (X, y, sample_weight)


def _read_plain(file: Path, kind: str, roles: Roles, on_missing: str, own: Any) -> Any:
    from bagwise.io import formats

    if kind == "npz":
        return formats.read_npz(file, roles)
    if kind == "musk":
        return formats.read_musk(file)
    return formats.read_svmlight(file, **own)


def _read_arff(file: Path, kind: str, roles: Roles, on_missing: str, own: Any) -> Any:
    from bagwise.io._arff import read_arff

    return read_arff(file, roles.bag, roles.label)


def _read_folder(file: Path, kind: str, roles: Roles, on_missing: str, own: Any) -> Any:
    from bagwise.io.folder import read_folder

    return read_folder(file, roles, on_missing=on_missing, **own)


def _read_cells(file: Path, kind: str, roles: Roles, on_missing: str, own: Any) -> Any:
    from bagwise.io._anndata import read_h5ad

    return _with_weights(read_h5ad(file, roles, on_missing), roles)


def _read_airr(file: Path, kind: str, roles: Roles, on_missing: str, own: Any) -> Any:
    from bagwise.io._repertoires import read_repertoires

    found = read_repertoires(file, roles, on_missing=on_missing, **own)
    return _with_weights(found, roles)


def _read_molecules(
    file: Path, kind: str, roles: Roles, on_missing: str, own: Any
) -> Any:
    from bagwise.io._molecules import read_molecules

    found = read_molecules(file, kind, roles, on_missing=on_missing, **own)
    return _with_weights(found, roles)


_READERS = {
    "airr": _read_airr,
    "arff": _read_arff,
    "folder": _read_folder,
    "h5ad": _read_cells,
    "musk": _read_plain,
    "npz": _read_plain,
    "sdf": _read_molecules,
    "smi": _read_molecules,
    "smiles": _read_molecules,
    "svmlight": _read_plain,
}


def _refuse_other_names(path: Path) -> None:
    """Refuse a name that could be written into no message, table or report."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise DataError(
            f"{ascii(str(path))}: the name of the file is not UTF-8. Rename it"
        ) from None


def _format(path: Path, given: str | None) -> str:
    if given is not None:
        if given not in FORMATS:
            problem = f"must be one of {', '.join(FORMATS)}, got {given!r}"
            raise ParameterError("format", problem)
        return given
    suffixes = [s.lower() for s in path.suffixes if s.lower() != ".gz"]
    kind = _SUFFIXES.get(suffixes[-1]) if suffixes else None
    if kind is None:
        if not path.exists():
            raise FileNotFoundError(f"{path}: there is no such file or folder.")
        raise DataError(
            f"{path}: the format cannot be inferred from the extension {path.suffix!r}",
            f"Give {{0}}, one of {', '.join(FORMATS)}.",
            ("format", ...),
        )
    return kind


def _refuse_options(
    path: Path, kind: str, roles: Roles, options: dict[str, Any]
) -> None:
    """Refuse roles and options that a format would ignore."""
    for name, formats in _KNOWN_TO.items():
        given = options[name] is not None if name in options else getattr(roles, name)
        name = {"more_labels": "label"}.get(name, name)
        if given and kind not in formats:
            problem = f"is for {_listed(formats)}, not for {kind} ({path})"
            raise ParameterError(name, problem, "Omit {0}.", (name, None))
    kept = (*_TABLES, "npz", "folder", "h5ad")
    if roles.missing == "keep" and kind not in kept:
        problem = f"is for {_listed(kept)}, not for {kind}"
        raise ParameterError("missing", f"{problem} ({path})")


def _listed(formats: Sequence[str]) -> str:
    told = {"folder": "folders", "smiles": "tables with smiles"}
    names = [told.get(name, f"{name} files") for name in formats]
    return " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)
