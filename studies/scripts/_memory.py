"""Peak memory of a process and the workers it starts, watched from outside."""

import re
import subprocess
import time
from pathlib import Path

EVERY = 0.02  # seconds between two measurements


def run_watched(command):
    """Run a command; return what it wrote, and its peak memory in GB.

    Memory is the resident set size of the process and its descendants. Of data that
    several of them share, such as after a fork, each counts its share.
    """
    peak = 0.0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            peak = max(peak, sum(map(_share, _family(process.pid))))
            time.sleep(EVERY)
        written = process.stdout.read()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return written, peak


def _family(pid):
    """Return a process and its descendants."""
    found = [pid]
    for parent in found:
        for file in Path(f"/proc/{parent}/task").glob("*/children"):
            found += map(int, _read(file).split())
    return found


def _share(pid):
    """Return the memory of one process in GB; 0 if the process has ended."""
    pairs = re.findall(r"^(\w+): +(\d+) kB", _read(f"/proc/{pid}/smaps_rollup"), re.M)
    of = dict.fromkeys(("Rss", "Anonymous", "Pss_Anon"), 0) | {
        name: int(size) for name, size in pairs
    }
    return (of["Rss"] - of["Anonymous"] + of["Pss_Anon"]) * 1024 / 1e9


def _read(path):
    try:
        return Path(path).read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""
