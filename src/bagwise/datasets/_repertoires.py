"""Simulated immune repertoires, as AIRR files with a table of labels."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
from sklearn.utils import check_random_state

# Residues that V and J segments of human T cell receptors (beta chain) contribute to
# the ends of a CDR3, and residues in between, with approximate frequencies.
_FRONT = ("CASS", "CASSL", "CASSP", "CASSQ", "CASSY", "CAS", "CSA", "CAW")
_BACK = ("EQYF", "EAFF", "EQFF", "YTF", "TQYF", "ETQYF", "EKLFF", "PQHF")
_FRONT_SHARE = np.array([0.3, 0.2, 0.12, 0.1, 0.08, 0.1, 0.06, 0.04])
_BACK_SHARE = np.array([0.2, 0.2, 0.15, 0.13, 0.12, 0.1, 0.05, 0.05])
_LETTERS = "GSLRTAPQDENVYFKIHWMC"
_LETTER_SHARE = np.array(
    [18, 11, 8, 8, 8, 8, 7, 6, 6, 4, 4, 3, 2, 1.5, 1.5, 1.5, 1, 1, 0.5, 0.02]
)
_SHORTEST, _LONGEST = 5, 10  # residues between the ends


def make_repertoires(
    folder: str | os.PathLike[str],
    n_repertoires: int = 60,
    n_sequences: int = 300,
    *,
    rate: float = 0.01,
    motif: str | None = None,
    compress: bool = False,
    random_state: int | np.random.RandomState | None = None,
) -> tuple[Path, str]:
    """Simulate immune repertoires with a motif in those of half of the persons.

    A sequence is the end of a V segment, five to ten random residues and the beginning
    of a J segment. In every second repertoire, `rate` of the sequences get the motif at
    a random place among the random residues. The number of copies of a sequence follows
    a Zipf distribution (exponent 2).

    Parameters
    ----------
    folder : path
        A folder for one file per person, ``p000.tsv`` and so on, and the table
        ``labels.csv`` with the columns ``person`` and ``status`` ("case", "control").
        It is created if it is missing.
    n_repertoires, n_sequences : int
        Number of persons, and of sequences per person.
    rate : float, default=0.01
        Share of the sequences of cases that contain the motif; at least one does.
    motif : str, default=None
        At most five residues; by default four, sampled uniformly from the 20 amino
        acids.
    compress : bool, default=False
        Whether the files are compressed (``.tsv.gz``).
    random_state : int or RandomState, default=None
        Seed.

    Returns
    -------
    labels : Path
        The table of labels.
    motif : str
        The motif.

    Examples
    --------
    >>> import tempfile
    >>> import bagwise
    >>> from bagwise.datasets import make_repertoires
    >>> folder = tempfile.mkdtemp()
    >>> labels, motif = make_repertoires(folder, 4, 20, random_state=0)
    >>> X, y = bagwise.read_bags(
    ...     folder, "person", "status", format="airr", labels=labels
    ... )
    >>> X.n_bags, y
    (4, array(['control', 'case', 'control', 'case'], dtype='<U7'))
    """
    rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
    if motif is None:
        motif = "".join(rng.choice(list(_LETTERS), 4))
    if not 0 < len(motif) <= _SHORTEST or set(motif) - set(_LETTERS):
        raise ValueError(f"motif must be 1 to 5 residues, got {motif!r}")
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    lines = ["person,status"]
    for i in range(n_repertoires):
        n_marked = max(1, round(rate * n_sequences)) if i % 2 else 0
        text = _table(_sequences(rng, n_sequences, n_marked, motif), rng)
        name = f"p{i:03d}"
        if compress:
            (target / f"{name}.tsv.gz").write_bytes(gzip.compress(text.encode(), 1))
        else:
            (target / f"{name}.tsv").write_text(text, encoding="utf-8")
        lines.append(f"{name},{'case' if i % 2 else 'control'}")
    labels = target / "labels.csv"
    labels.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return labels, motif


def _sequences(
    rng: np.random.Generator, n: int, n_marked: int, motif: str
) -> list[str]:
    letters = rng.choice(
        list(_LETTERS), (n, _LONGEST), p=_LETTER_SHARE / _LETTER_SHARE.sum()
    )
    sizes = rng.integers(_SHORTEST, _LONGEST + 1, n)
    front = rng.choice(_FRONT, n, p=_FRONT_SHARE)
    back = rng.choice(_BACK, n, p=_BACK_SHARE)
    found = []
    for k in range(n):
        inner = "".join(letters[k, : sizes[k]])
        if k < n_marked:
            place = rng.integers(0, sizes[k] - len(motif) + 1)
            inner = inner[:place] + motif + inner[place + len(motif) :]
        found.append(front[k] + inner + back[k])
    return [found[k] for k in rng.permutation(n)]


def _table(sequences: list[str], rng: np.random.Generator) -> str:
    copies = np.minimum(rng.zipf(2.0, len(sequences)), 10_000)
    lines = ["sequence_id\tproductive\tjunction_aa\tduplicate_count"]
    lines += [
        f"s{k}\tT\t{text}\t{count}"
        for k, (text, count) in enumerate(zip(sequences, copies, strict=True))
    ]
    return "\n".join(lines) + "\n"
