"""Tables, and a way to run a command."""

import numpy as np
import pytest

from bagwise.cli import main


@pytest.fixture
def run(capsys):
    """Run a command; return status, output and messages."""

    def run_(*words):
        with pytest.raises(SystemExit) as end:
            main([str(word) for word in words])
        captured = capsys.readouterr()
        return int(end.value.code or 0), captured.out, " ".join(captured.err.split())

    return run_


@pytest.fixture
def slides(tmp_path):
    """Write a table of slides of patients, as people have them."""
    rng = np.random.default_rng(0)
    path = tmp_path / "slides.csv"
    lines = ["slide,patient,stain,tile,diagnosis,u,v"]
    for i in range(36):
        ill = (i // 3) % 2
        for j in range(3):
            u, v = rng.normal(size=2) + 2 * ill
            word = "ill" if ill else "well"
            lines.append(f"s{i},p{i // 3},H&E {i % 2},t{i}-{j},{word},{u:.4f},{v:.4f}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
