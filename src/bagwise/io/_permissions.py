"""Files that were written under another name first."""

from __future__ import annotations

import os

__all__ = ["make_readable"]


def make_readable(path: str) -> None:
    """Give a temporary file, which is private, the permissions of any other file."""
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(path, 0o666 & ~mask)
