"""The UCI Musk files (clean1.data, clean2.data).

One conformation per line: molecule, conformation, features, class; no header. Numbers
are written with a trailing dot.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bagwise.io.readers.common import (
    assemble,
    fail,
    number,
    numbered_lines,
    numbers,
    read_text,
)


def read_musk(path: Path) -> Any:
    """Read molecules as bags of conformations; see `read_bags`."""
    return parse_musk(read_text(path), path)


def parse_musk(text: str, path: Path) -> Any:
    """Parse the text of a Musk file."""
    rows, molecules, labels, lines = [], [], [], []
    width: int | None = None
    for line, content in numbered_lines(text):
        fields = [f.strip() for f in content.split(",")]
        if width is None:
            width = len(fields)
            if width < 4:
                fail(
                    path,
                    "a line of this format is molecule,conformation,f1,...,class; "
                    f"this one has {width} field(s)",
                    line,
                )
        if len(fields) != width:
            fail(
                path,
                f"the line has {len(fields)} fields, the first has {width}; is the "
                "file cut off?",
                line,
            )
        if not fields[0]:
            fail(path, "the molecule has no name", line)
        names = [f"f{j + 1}" for j in range(width - 3)]
        rows.append(numbers(fields[2:-1], path, line, names))
        molecules.append(fields[0])
        value = number(fields[-1])
        if value not in (0.0, 1.0):
            fail(path, f"the class must be 0 or 1, got {fields[-1]!r}", line)
        labels.append(str(int(value)))
        lines.append(line)
    return assemble(np.array(rows), molecules, labels, lines, path, names)
