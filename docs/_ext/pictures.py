"""Draw the pictures of the guide before Sphinx reads its pages."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

from sphinx.util import logging
from sphinx.util.display import status_iterator

from bagwise.comparison import list_methods

logger = logging.getLogger(__name__)


def picture_name(method) -> str:
    """Return the file name of a method's picture."""
    letters = [c.lower() if c.isalnum() else "-" for c in method.name]
    name = "-".join(part for part in "".join(letters).split("-") if part)
    # MI-SVM and mi-SVM, MIGraph and miGraph differ by capitals alone.
    return name + ("-small" if method.name.startswith(("mi-S", "miG")) else "")


def draw_all(app) -> None:
    """Draw what is not drawn yet, or was drawn by other code."""
    import bag_pictures

    folder = Path(app.srcdir) / "_generated"
    folder.mkdir(exist_ok=True)
    code = hashlib.sha256(Path(bag_pictures.__file__).read_bytes()).hexdigest()
    stamp = folder / "drawn-by"
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != code:
        for old in folder.glob("*.png"):
            old.unlink()
        stamp.write_text(code, encoding="utf-8")
    if not (folder / "bags.png").exists():
        bag_pictures.draw_bags(folder / "bags.png")
        bag_pictures.draw_bags(folder / "three-bags.png", table=False)
    missing = [
        (method, folder / f"method-{picture_name(method)}.png")
        for method in list_methods()
        if not (folder / f"method-{picture_name(method)}.png").exists()
    ]
    label = "drawing methods... "
    for method, path in status_iterator(
        missing, label, "brown", len(missing), stringify_func=lambda m: m[0].name
    ):
        start = time.perf_counter()
        bag_pictures.draw_method(method, path)
        if time.perf_counter() - start > 10:
            logger.info(f"{method.name}: {time.perf_counter() - start:.0f} s")


def setup(app):
    """Connect to Sphinx."""
    app.connect("builder-inited", draw_all)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
