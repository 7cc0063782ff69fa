"""Write a page for every public name, and tables of them by module."""

from __future__ import annotations

import inspect
import re
import warnings
from pathlib import Path
from urllib.parse import quote_plus

import public_names
from docutils import nodes
from public_names import Public
from sklearn.base import BaseEstimator

from bagwise.comparison import list_methods

# Headings of the reference, in its order.
SECTIONS = {
    "bagwise": "The most important names",
    "bagwise.bags": "Bags and ragged values",
    "bagwise.io": "Tables, files, folders, models",
    "bagwise.datasets": "Benchmark and simulated data",
    "bagwise.compose": "Using scikit-learn on bags",
    "bagwise.ensemble": "Ensembles",
    "bagwise.svm": "Support vector machines",
    "bagwise.least_squares": "Least squares",
    "bagwise.linear_model": "Linear models",
    "bagwise.embedding": "Embeddings",
    "bagwise.decomposition": "Dimension reduction",
    "bagwise.density": "Diverse density",
    "bagwise.rectangles": "Boxes",
    "bagwise.neighbors": "Nearest neighbors",
    "bagwise.neural": "Networks",
    "bagwise.kernels": "Bag kernels",
    "bagwise.metrics": "Metrics",
    "bagwise.inspection": "Explanations",
    "bagwise.comparison": "Comparing methods",
    "bagwise.report": "Reports and figures",
    "bagwise.distributed": "Clusters",
    "bagwise.exceptions": "Errors and warnings",
}
# Modules for authors of estimators; they have a page of their own.
DEVELOPERS = {
    "bagwise.base": "Base classes",
    "bagwise.testing": "Tests of estimators",
}
INTRODUCTION = """\
This page lists base classes, tags and tests for authors of estimators. Programs that
use estimators do not need them. The example :doc:`/gallery/plot_custom_method` writes
a complete classifier in ten steps, and :doc:`/contributing` describes how to add a
method to bagwise.

Derive a classifier from ``WeightedBagClassifier`` if its loss can weight bags, and
from ``BinaryBagClassifier`` otherwise. The base class validates bags, encodes labels,
handles more than two classes, class weights and thresholds, and computes key
instances. The estimator implements ``_fit_binary(X, t, bag_weight)`` and
``_score_instances(X)``, and declares its properties by tags. ``check_bag_estimator``
then tests it."""


def page_of(public: Public) -> str:
    """Return the document that describes a name."""
    if public.path in method_paths():
        from method_pages import slug

        return f"methods/{slug(public)}"
    return f"api/{'-'.join(public.path.split('.')[1:])}"


def method_paths() -> set[str]:
    """Return the paths of the classes that have a page among the methods."""
    known = public_names.names()
    return {known[method.path].path for method in list_methods()}


def underlined(title: str, line: str = "=") -> list[str]:
    """Return a heading."""
    return [title, line * len(title), ""]


def describe(public: Public) -> list[str]:
    """Return the directives that document one name, with its methods."""
    value, path = public.value, public.path
    if inspect.ismodule(value):
        return [f".. automodule:: {value.__name__}", "   :members:", ""]
    if inspect.isclass(value):
        return _describe_class(public)
    if callable(value):
        return [f".. autofunction:: {path}", ""]
    entries = list(value)
    lines = [f".. py:data:: {path}", "", f"   {public.summary}"]
    if entries and all(isinstance(entry, str) for entry in entries):
        lines += ["", "   " + ", ".join(f"``{entry}``" for entry in entries)]
    return [*lines, ""]


def _describe_class(public: Public) -> list[str]:
    methods, properties, rest = public_names.own_methods(public.value)
    exception = issubclass(public.value, BaseException)
    kind = "autoexception" if exception else "autoclass"
    lines = [f".. {kind}:: {public.path}", ""]
    if methods or properties:
        lines += [".. rubric:: Methods" if methods else ".. rubric:: Properties", ""]
    for kind, found in (("autoproperty", properties), ("automethod", methods)):
        for name in found:
            lines += [f".. {kind}:: {public.path}.{name}", ""]
    inherited = [f"``{name}``" for name in rest if name not in dir(dict)]
    if inherited and not exception:
        lines += [f"Inherited methods: {', '.join(inherited)}.", ""]
    return lines


def write(path: Path, lines: list[str]) -> None:
    """Write a page if its text has changed, so that Sphinx does not read it again."""
    text = "\n".join(lines).rstrip() + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def _table(module: str) -> list[str]:
    lines = [".. list-table::", "   :class: names", "   :widths: 30 70", ""]
    for path, public in public_names.names().items():
        if path.rpartition(".")[0] != module:
            continue
        summary = public.summary.replace("\\", "\\\\")
        lines += [f"   * - :doc:`{public.name} </{page_of(public)}>`"]
        lines += [f"     - {summary}"]
    return [*lines, ""]


def _sections(modules: dict[str, str]) -> list[str]:
    lines = []
    for module, title in modules.items():
        lines += underlined(title, "-")
        lines += [f".. py:module:: {module}", "   :no-index-entry:", ""]
        lines += [f"``{module}``", "", *_table(module)]
    return lines


def _hidden(pages: list[str]) -> list[str]:
    """Return a list of pages that is shown in the navigation only."""
    places = [page if "/" not in page else f"/{page}" for page in pages]
    return [".. toctree::", "   :hidden:", "", *(f"   {place}" for place in places)]


def write_pages(app) -> None:
    """Write the reference before Sphinx looks for pages."""
    folder = Path(app.srcdir) / "api"
    pages, for_developers = {}, set()
    for public in public_names.documented():
        page = page_of(public)
        if page.startswith("api/"):
            title = public.path.removeprefix("bagwise.")
            pages[page] = underlined(title) + describe(public)
            if public.path.rpartition(".")[0] in DEVELOPERS:
                for_developers.add(page)
    for page, lines in pages.items():
        write(Path(app.srcdir) / f"{page}.rst", lines)
    missing = set(public_names.modules()) - {*SECTIONS, *DEVELOPERS}
    sections = {**SECTIONS, **{module: module for module in sorted(missing)}}
    index = underlined("Reference") + [
        "All public classes and functions, by module. Methods have their pages among",
        "the :doc:`methods </methods/index>`. See also :doc:`/guide/commands` for the",
        "commands and :doc:`developers` for base classes and tests.",
        "",
        *_sections(sections),
    ]
    index += _hidden(["developers", *sorted(pages.keys() - for_developers)])
    write(folder / "index.rst", index)
    developers = [*underlined("Writing an estimator"), INTRODUCTION, ""]
    developers += [*_sections(DEVELOPERS), *_hidden(sorted(for_developers))]
    write(folder / "developers.rst", developers)
    kept = {Path(app.srcdir) / f"{page}.rst" for page in pages}
    kept |= {folder / "index.rst", folder / "developers.rst"}
    for old in set(folder.glob("*.rst")) - kept:
        old.unlink()


ESTIMATORS = """\
<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>Estimators</title></head>
<body>
<ul>
{items}
</ul>
<script>
const link = document.getElementById(decodeURIComponent(location.hash.slice(1)));
if (link) location.replace(link.href);
</script>
</body>
</html>
"""


def write_estimators(app, exception) -> None:
    """Write the page that leads from the name of a class to its page.

    The diagrams of estimators link to it, because they know only their names.
    """
    if exception is not None or app.builder.format != "html":
        return
    items = "\n".join(
        f'<li><a id="{p.name}" href="{page_of(p)}.html">{p.path}</a></li>'
        for p in public_names.documented()
        if inspect.isclass(p.value) and issubclass(p.value, BaseEstimator)
    )
    path = Path(app.outdir) / "estimators.html"
    path.write_text(ESTIMATORS.format(items=items), encoding="utf-8")


def link_references(app, what, name, obj, options, lines) -> None:
    """Turn the titles of papers into links to a search for them, mark differences."""
    text = "\n".join(lines)
    text = re.sub(r"(?<!\\)\\\n\s*", "", text)  # long lines of parameters
    head = re.search(r"^References\n-+\n", text, flags=re.MULTILINE)
    if head:
        start = head.end()
        end = re.search(r"^Examples\n-+\n", text[start:], flags=re.MULTILINE)
        stop = start + end.start() if end else len(text)
        entries = re.split(r"^(?=\.\. \[)", text[start:stop], flags=re.MULTILINE)
        # Entries with a DOI are links already.
        linked = [
            entry if ":doi:" in entry else re.sub(r'"([^"]+?),?"', _as_link, entry)
            for entry in entries
        ]
        part = "".join(linked)
        text = text[:start] + part + text[stop:]
    text = re.sub(r"^( *)Differs from ", r"\1**Differs from** ", text, flags=re.M)
    lines[:] = text.split("\n")


def _as_link(match: re.Match) -> str:
    title = " ".join(match.group(1).split())
    url = f"https://scholar.google.com/scholar?q={quote_plus(title)}"
    return f"`{title} <{url}>`__"


def resolve_alias(app, env, node, contnode):
    """Link a name that several modules export to the page of its first module."""
    known, target = public_names.names(), node.get("reftarget", "")
    public = known.get(target) or known.get(f"{node.get('py:module')}.{target}")
    if public is None:
        return None
    uri = app.builder.get_relative_uri(node["refdoc"], page_of(public))
    return nodes.reference("", "", contnode, internal=True, refuri=uri)


def setup(app):
    """Connect to Sphinx."""
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    app.connect("builder-inited", write_pages)
    app.connect("autodoc-process-docstring", link_references, priority=400)
    app.connect("missing-reference", resolve_alias)
    app.connect("build-finished", write_estimators)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
