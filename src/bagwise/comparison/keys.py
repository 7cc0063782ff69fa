"""Names of runs: what was done, and by which code.

A store never mixes figures of different code: the key of a run holds a fingerprint of
the sources behind its method. The identity of a run does not, and so finds the runs of
older code.
"""

from __future__ import annotations

import hashlib
import json

from bagwise.comparison.description import Run, plain
from bagwise.comparison.fingerprint import fingerprint

__all__ = ["run_identity", "run_key"]


def run_identity(run: Run) -> str:
    """Return the hash of a description and of the content of its data.

    The path of the data is left out: the same content at another place is the same
    run. So is its name.
    """
    parts = {**run.to_dict(), "data": run.data.hash}
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), default=plain)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def run_key(run: Run, version: str) -> str:
    """Return the key of a run: its identity, the library's version and its code."""
    parts = [run_identity(run), version, fingerprint(run.estimator)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
