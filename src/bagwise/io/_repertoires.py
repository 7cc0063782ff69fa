"""Immune repertoires: one table of rearrangements (AIRR) per person.

The instances are the different amino acid sequences of the CDR3 of a person. Their
features are counts of k-mers, as sparse rows.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from bagwise._sizes import check_memory
from bagwise.bags import Bags
from bagwise.exceptions import DataError, ParameterError
from bagwise.io.files import fail, number, read_text
from bagwise.io.folder import Annotations, bag_annotations, label_table, match_rows
from bagwise.io.problems import Problems, check_on_missing
from bagwise.io.roles import Roles

AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY"
_CODES = np.full(256, -1, dtype=np.int64)
_CODES[np.frombuffer(AMINO_ACIDS.encode(), dtype=np.uint8)] = np.arange(20)
_SUFFIX = re.compile(r"(\.airr)?\.tsv(\.gz)?$", re.I)
_COUNTS = ("duplicate_count", "umi_count", "consensus_count")
_FALSE = frozenset(("F", "FALSE", "False", "false", "0"))
_N_COLUMNS, _MOST_COLUMNS = 2**18, 2**24
_LONGEST = 200  # residues; a CDR3 has 10 to 20, rarely 40
_MOST_LETTERS = 7
_HASH = 0x9E3779B97F4A7C15  # Fibonacci hashing, Knuth, volume 3


def read_repertoires(
    folder: Path,
    roles: Roles,
    *,
    labels: Any = None,
    kmer: int | None = None,
    gapped: bool | None = None,
    n_features: int | None = None,
    on_missing: str = "error",
) -> tuple[Bags, Any, Any]:
    """Read a folder with one table of rearrangements per person; see `read_bags`."""
    check_on_missing(on_missing)
    k = 4 if kmer is None else kmer
    n_columns = _N_COLUMNS if n_features is None else n_features
    for name, value, low, high in (
        ("kmer", k, 1, _MOST_LETTERS),
        ("n_features", n_columns, 2, _MOST_COLUMNS),
    ):
        if not isinstance(value, int) or not low <= value <= high:
            raise ParameterError(name, f"must be from {low} to {high}, got {value!r}")
    problems = Problems(str(folder))
    paths = _files(folder, labels, problems)
    table = None
    if labels is not None:
        table, _ = label_table(labels, roles, None)
    elif roles.targets or roles.group or roles.weight:
        raise DataError(
            f"{folder}: labels and groups are in a separate table with one row per "
            "person",
            "Give it with {0}.",
            ("labels", ...),
        )
    rows = match_rows(paths, table, roles, None, problems, ("person", "file"))
    counts, sequences, kept = [], [], []
    for name in rows:
        try:
            found, ends = _clones(paths[name], k)
        except (DataError, OSError) as error:
            problems.add("cannot be read", f"{name!r} ({str(error)[:300]})")
            continue
        if not found:
            problems.add("without a productive sequence", repr(name))
            continue
        inner = [text[ends : len(text) - ends] for text in found]
        counted = kmer_counts(inner, k, bool(gapped), n_columns)
        copies = np.array(list(found.values()), dtype=np.float32)
        counted.data *= np.repeat(1.0 + np.log2(copies), np.diff(counted.indptr))
        counts.append(counted)
        sequences.append(np.array(list(found), dtype=object))
        kept.append(name)
        n_bytes = sum(2.0 * (8 * part.nnz + 100 * part.shape[0]) for part in counts)
        check_memory(n_bytes, f"{folder}: the k-mers", "Use fewer or smaller files.")
    problems.report(on_missing)
    if not kept:
        raise DataError(f"{folder}: no repertoire is left")
    names = np.array(kept, dtype=object)
    first = np.arange(len(kept))
    about = Annotations(None, None, None)
    if table is not None:
        order = [rows[name] for name in kept]
        about = bag_annotations(table, order, roles, first, names, names)
    sizes = [len(own) for own in sequences]
    X = Bags(
        sp.vstack(counts, format="csr"),
        np.concatenate([[0], np.cumsum(sizes)]),
        ids=names,
        groups=about.groups,
        instance_ids=np.concatenate(sequences),
        feature_names=_kmer_names(k, bool(gapped), n_columns),
    )
    return X, about.y, about.weight


def _files(folder: Path, labels: Any, problems: Problems) -> dict[str, Path]:
    """Return the files by the names of their persons."""
    if not folder.is_dir():
        problem = "is for a folder with one file per person (.tsv, .tsv.gz)"
        raise ParameterError(
            "format", f"'airr' {problem}, but {folder} is not a folder"
        )
    own = Path(labels).resolve() if isinstance(labels, str | os.PathLike) else None
    found: dict[str, Path] = {}
    for entry in sorted(folder.iterdir()):
        ending = _SUFFIX.search(entry.name)
        if ending is None or entry.name.startswith(".") or entry.resolve() == own:
            continue
        name = entry.name[: ending.start()]
        try:
            name.encode()
        except UnicodeEncodeError:
            problems.add("the name of the file is not UTF-8", ascii(entry.name))
            continue
        if name in found:
            both = f"{found[name].name}, {entry.name}"
            problems.add("two files of one person", both)
            continue
        found[name] = entry
    if not found:
        problems.report("error")
        raise DataError(f"{folder}: there is no AIRR file in it (.tsv, .tsv.gz)")
    return found


def _clones(path: Path, k: int) -> tuple[dict[str, float], int]:
    """Return the different sequences of a file with the number of their copies.

    The second value is the number of residues before and after the CDR3.

    Left out are rearrangements that are not productive, and sequences with letters
    other than the 20 amino acids or with fewer than `k` residues in the CDR3.
    """
    lines = read_text(path).splitlines()
    header = lines[0].split("\t")
    n_fields = len(header)
    place = {name: i for i, name in reversed([*enumerate(header)])}  # first of two
    # A junction is the CDR3 with the conserved residues before and after it.
    ends = 1 if "junction_aa" in place else 0
    column = place.get("junction_aa", place.get("cdr3_aa"))
    if column is None:
        shown = ", ".join(map(repr, header[:8]))
        fail(path, f"there is neither 'junction_aa' nor 'cdr3_aa'; it has {shown}")
    copies = next((place[name] for name in _COUNTS if name in place), None)
    productive = place.get("productive")
    found: dict[str, float] = {}
    for number_, line in enumerate(lines[1:], start=2):
        if not line:
            continue
        cells = line.split("\t")
        if len(cells) != n_fields:
            fail(
                path, f"{len(cells)} fields where the header has {len(header)}", number_
            )
        if productive is not None and cells[productive] in _FALSE:
            continue
        text = cells[column]
        if not k + 2 * ends <= len(text) <= _LONGEST or text.strip(AMINO_ACIDS):
            continue
        count = 1.0
        if copies is not None and cells[copies]:
            value = number(cells[copies])
            if value is None or value < 0:
                told = f"{header[copies]} is {cells[copies][:40]!r}"
                fail(path, f"{told}, not a number of copies", number_)
            count = max(1.0, value)
        found[text] = found.get(text, 0.0) + count
    return found, ends


def kmer_counts(
    sequences: list[str], k: int, gapped: bool, n_columns: int
) -> sp.csr_array:
    """Count the k-mers of sequences of amino acids.

    Parameters
    ----------
    sequences : list of str
        Letters of the 20 amino acids only.
    k : int
        Length.
    gapped : bool
        Whether k-mers with one free inner position are counted as well.
    n_columns : int
        Largest number of columns. If there are at most as many k-mers, each has its own
        column, in the order of the alphabet, and those with a gap follow. If there are
        more, columns are chosen by a hash.

    Returns
    -------
    CSR matrix of shape (len(sequences), width)
        The counts.
    """
    lengths = np.fromiter(map(len, sequences), np.int64, len(sequences))
    letters = _CODES[np.frombuffer("".join(sequences).encode(), dtype=np.uint8)]
    row = np.repeat(np.arange(len(sequences), dtype=np.int32), lengths)
    left = np.repeat(np.cumsum(lengths), lengths) - np.arange(len(letters))
    patterns = _patterns(k, gapped)
    rows, codes = [], []
    for number_, pattern in enumerate(patterns):
        start = np.flatnonzero(left > pattern[-1])
        code = np.zeros(len(start), dtype=np.int64)
        for place in pattern:
            code = 20 * code + letters[start + place]
        rows.append(row[start])
        codes.append(code + number_ * 20**k)
    column, width = np.concatenate(codes), len(patterns) * 20**k
    if width > n_columns:
        mixed = column.astype(np.uint64) * np.uint64(_HASH)  # modulo 2**64
        column, width = (mixed >> np.uint64(32)) % np.uint64(n_columns), n_columns
    places = (np.concatenate(rows), column.astype(np.int32))
    ones = np.ones(len(column), dtype=np.float32)
    return sp.coo_array((ones, places), shape=(len(sequences), width)).tocsr()


def _patterns(k: int, gapped: bool) -> list[list[int]]:
    """Return the positions of the residues of a k-mer: without and with a gap."""
    gaps = range(1, k) if gapped else ()
    whole = list(range(k))
    return [whole, *([i for i in range(k + 1) if i != gap] for gap in gaps)]


def _kmer_names(k: int, gapped: bool, n_columns: int) -> Any:
    """Return the k-mers of the columns, or None if columns are shared."""
    patterns = _patterns(k, gapped)
    if len(patterns) * 20**k > n_columns:
        return None
    names = np.array([""], dtype=object)
    for _ in range(k):
        names = np.add.outer(names, np.array(list(AMINO_ACIDS), dtype=object)).ravel()
    parts = [names]
    for gap in range(1, len(patterns)):
        parts.append(np.array([f"{n[:gap]}.{n[gap:]}" for n in names], dtype=object))
    return np.concatenate(parts)
