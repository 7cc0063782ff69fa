"""Every block of Python in the guide runs, in the order of its page."""

import doctest
import pickle
import re
import warnings
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"

# What a page takes for granted, by page.
SETUP = {
    "reading": """
import pandas as pd
from bagwise.datasets import make_slides
df = pd.DataFrame({"molecule": ["a", "a", "b"], "active": [1, 1, 0],
                   "u": [1.0, 2.0, 3.0]})
df.to_csv("molecules.csv", index=False)
make_slides(6, "features", n_patches=(20, 30), n_features=4, random_state=0)
table = pd.read_csv("features/clini.csv").rename(columns={"tumor": "MSI"})
table.to_csv("clini.csv", index=False)
""",
    "guide/networks": """
import bagwise, bagwise.kernels, numpy as np
from bagwise.datasets import make_bags
rng = np.random.default_rng(0)
bags = [rng.normal(size=(n, 8, 8)) for n in (2, 3, 4, 2, 3, 4, 2, 3, 4, 2)]
y, new_bags = [0, 1] * 5, bags[:2]
X, _ = make_bags(6, random_state=0)
""",
    "guide/migrating": """
import numpy as np
from bagwise.datasets import make_bags
X, labels = make_bags(40, random_state=0)
bags, new_bags = list(X), list(X)[:4]
values = np.array([bag[:, 0].max() for bag in bags])
""",
    "distributed": """
import numpy as np
from sklearn.pipeline import make_pipeline
from bagwise import Bags
from bagwise.compose import OnInstances
from bagwise.least_squares import SAFE
rng = np.random.default_rng(0)
np.save("features.npy", rng.normal(size=(60, 4)).astype(np.float16))
offsets, y = np.arange(0, 61, 3), np.arange(20) % 2
train = np.arange(15)
""",
}
# Blocks that cannot run here, by a word of theirs, with the reason.
ELSEWHERE = {
    "scheduler:8786": "needs a cluster",
    'device="cuda"': "needs a GPU",
}
# Docstrings are tested where they stand, and examples run while the site is built.
APART = ("api/", "methods/", "gallery/", "results/", "contributing", "changelog")


def pages(doctrees):
    for path in sorted(doctrees.rglob("*.doctree")):
        name = path.relative_to(doctrees).with_suffix("").as_posix()
        if not name.startswith(APART):
            yield name, pickle.loads(path.read_bytes())


def blocks(tree):
    from docutils import nodes

    for node in tree.findall(nodes.literal_block):
        language = node.get("language", "")
        if language in ("python", "pycon") and "elsewhere" not in node["classes"]:
            yield node.astext()


def written_blocks():
    """Count the blocks in the sources of the pages, by their text alone."""
    found = 0
    for path in DOCS.rglob("*"):
        apart = path.relative_to(DOCS).as_posix().startswith((*APART, "_"))
        if path.suffix in (".rst", ".md") and not apart:
            text = path.read_text(encoding="utf-8")
            options = re.findall(r"\.\. code-block:: py\w+\n((?: +:.*\n)*)", text)
            found += sum("elsewhere" not in option for option in options)
            found += len(re.findall(r"^```py\w+", text, re.MULTILINE))
    return found


def run(name, text, names):
    if ">>>" in text:
        flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
        test = doctest.DocTestParser().get_doctest(text, names, name, name, 0)
        runner = doctest.DocTestRunner(optionflags=flags)
        runner.run(test, clear_globs=False)
        assert runner.failures == 0, name
        names.update(test.globs)
    else:
        exec(compile(text, name, "exec"), names)


def test_every_block_runs(site, tmp_path, monkeypatch, capsys):
    n_run, n_elsewhere, trouble = 0, 0, []
    for name, tree in pages(site.parent / "doctrees"):
        folder = tmp_path / name.replace("/", "-")
        folder.mkdir()
        monkeypatch.chdir(folder)
        names = {"__name__": name}
        exec(SETUP.get(name, ""), names)
        for text in blocks(tree):
            if any(word in text for word in ELSEWHERE):
                compile(text, name, "exec")
                n_elsewhere += 1
                continue
            n_run += 1
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # small data, few epochs
                    run(name, text, names)
            except Exception as error:
                trouble.append(f"{name}: {error!r} in\n{text}")
    assert not trouble, "\n\n".join(trouble)
    assert n_elsewhere == len(ELSEWHERE)
    assert n_run + n_elsewhere == written_blocks()  # none was overlooked


def test_blocks_of_other_libraries_are_python(site):
    from docutils import nodes

    found = 0
    for name, tree in pages(site.parent / "doctrees"):
        for node in tree.findall(nodes.literal_block):
            if "elsewhere" in node["classes"]:
                compile(node.astext(), name, "exec")
                found += 1
    assert found >= 4
