"""Copy the pages of ``studies/results`` into the site."""

from __future__ import annotations

import filecmp
import re
import shutil
from pathlib import Path

RESULTS = Path(__file__).parents[2] / "studies" / "results"
KINDS = {".md", ".csv", ".png", ".svg", ".json", ".html"}


def copy_results(app) -> None:
    """Copy the results into the source folder of Sphinx."""
    target = Path(app.srcdir) / "results"
    found = [
        path for path in RESULTS.rglob("*") if path.suffix in KINDS and path.is_file()
    ]
    kept = set()
    for path in found:
        copy = target / path.relative_to(RESULTS)
        copy.parent.mkdir(parents=True, exist_ok=True)
        kept.add(copy)
        if not copy.exists() or not filecmp.cmp(path, copy, shallow=False):
            shutil.copyfile(path, copy)
    for old in target.rglob("*"):
        if old.is_file() and old not in kept:
            old.unlink()


def fix_links(app, docname, content) -> None:
    """Translate links between files of the repository to links of the site."""
    text = content[0]
    up = "../" * docname.count("/")
    text = text.replace("](../studies/results/", f"]({up}results/")
    if docname in ("changelog", "contributing"):
        text = re.sub(r"\]\(docs/", "](", text)
    text = re.sub(r"^   \(others\) (.+)$", _others(text, docname), text, flags=re.M)
    # Folders named in the text become links to their pages.
    if docname.count("/") == 0 and app.env.doc2path(docname).suffix == ".md":
        text = re.sub(r"(?<!\[)`results/([a-z-]+)`", _to_folder, text)
    content[0] = text


def _others(text: str, docname: str):
    """Return a function that lists the pages of a pattern that no line names yet."""
    folder = Path(__file__).parents[1] / Path(docname).parent

    def listed(match: re.Match) -> str:
        found = sorted(
            path.relative_to(folder).with_suffix("").as_posix()
            for path in folder.glob(match.group(1))
            if path.suffix in (".rst", ".md") and path.stem != "index"
        )
        named = {line.strip().strip("/") for line in text.splitlines()}
        return "\n".join(f"   {name}" for name in found if name not in named)

    return listed


def _to_folder(match: re.Match) -> str:
    name = match.group(1)
    if not (RESULTS / name / "README.md").exists():
        return match.group(0)
    return f"[`results/{name}`](results/{name}/README.md)"


def setup(app):
    """Connect to Sphinx."""
    app.connect("builder-inited", copy_results)
    app.connect("source-read", fix_links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
