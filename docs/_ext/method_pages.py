"""Write a page for every method: its picture, what was measured, its docstring."""

from __future__ import annotations

import tomllib
from pathlib import Path

import measured
import public_names
from api_pages import describe, underlined, write
from pictures import picture_name
from public_names import Public

from bagwise.comparison import list_methods

YES, NO = "yes", "–"
TASKS = {
    "classification": "Classification",
    "regression": "Regression",
    "survival": "Survival",
}


# Headings for the families of the catalog.
FAMILIES = {
    "ensemble": "Ensembles without tuning",
    "pooling": "One vector per bag",
    "instances": "One label per instance",
    "svm": "Support vector machines",
    "kernel": "Bag kernels",
    "embedding": "Embeddings",
    "least squares": "Least squares",
    "linear": "Linear models",
    "reduction": "Dimension reduction",
    "neighbors": "Nearest neighbors",
    "density": "Diverse density",
    "boxes": "Boxes",
    "boosting": "Boosting",
    "network": "Networks",
    "survival": "Embedding followed by a survival model",
}
AXES = ("bags", "instances", "features")
GROWTH = f"Growth: {' / '.join(AXES)}"


def slug(public: Public) -> str:
    """Return the file name of a class's page, unique without regard to case."""
    return {"MiSVM": "misvm-instances"}.get(public.name, public.name.lower())


def by_class() -> dict[str, list]:
    """Return the entries of the catalog for each class, by path."""
    known = public_names.names()
    found: dict[str, list] = {}
    for method in list_methods():
        found.setdefault(known[method.path].path, []).append(method)
    return found


def rank_text(method) -> str:
    """Return mean rank and area, where the method was in the study."""
    if method.name not in measured.ranks():
        return NO
    rank, area = measured.ranks()[method.name]
    return f"{rank:.1f} ({area:.3f})"


def seconds_text(method) -> str:
    """Return the seconds of one fit."""
    value = measured.seconds().get(method.name)
    if value is None:
        return NO
    return "< 0.1" if value < 0.1 else f"{value:.1f}"


def growth_text(method) -> str:
    """Return measured exponents, or what the cost is quadratic in."""
    found = measured.growth().get(method.name)
    if found:
        cells = [f"{found[a]:.1f}" if a in found else NO for a in AXES]
        return " / ".join("0.0" if cell == "-0.0" else cell for cell in cells)
    grows = {
        "linear": "linear",
        "bags": "bags squared",
        "instances": "instances squared",
    }
    return grows[method.cost]


def assumption_text(method) -> str:
    """Return whether the standard assumption is respected; if not, by how much."""
    found = measured.assumptions().get(method.name)
    if found is None:
        return NO
    if found.respects is None:
        return "not tested"
    areas = ", ".join(f"{area:.2f}" for area in found.worst.values())
    return "yes" if found.respects else f"no ({areas})"


def yes(value: bool) -> str:
    """Return a word for a cell."""
    return YES if value else NO


def advice(public: Public) -> list[str]:
    """Return when to use a class and when not, from `advice.toml`."""
    texts = tomllib.loads(Path(__file__).with_name("advice.toml").read_text("utf-8"))
    told = texts.get(public.name)
    if told is None:
        return []
    return [f"**Use it if:** {told['use']}", "", f"**Not if:** {told['avoid']}", ""]


def facts(methods: list) -> list[str]:
    """Return the measured table of one page."""
    lines = [".. list-table::", "   :class: facts", "   :stub-columns: 1", ""]
    rows = [("", [m.name for m in methods])]
    if methods[0].task == "classification":
        rank = f"Mean rank of {len(measured.ranks())}, AUROC"
        rows += [
            (rank, [rank_text(m) for m in methods]),
            ("Standard assumption", [assumption_text(m) for m in methods]),
        ]
        found = [measured.assumptions().get(m.name) for m in methods]
        if any(found):
            rows += [("Assumption found", [f.label if f else NO for f in found])]
        keys = [measured.key_success().get(m.name) for m in methods]
        if any(keys):
            rows += [
                ("Key instances found (texts)", [f"{k:.0%}" if k else NO for k in keys])
            ]
    rows += [
        ("Seconds per fit", [seconds_text(m) for m in methods]),
        (GROWTH, [growth_text(m) for m in methods]),
        ("Sparse rows", [yes(m.sparse) for m in methods]),
        ("Scores instances", [yes(m.instances) for m in methods]),
    ]
    if methods[0].task == "classification":
        rows += [
            ("Probabilities", [yes(m.probability) for m in methods]),
            ("More than two classes", [yes(m.multiclass) for m in methods]),
        ]
    rows = [row for row in rows if any(cell != NO for cell in row[1])]
    for head, cells in rows:
        lines += [f"   * - {head}", *(f"     - {cell}" for cell in cells)]
    return [*lines, ""]


def pictures(methods: list) -> list[str]:
    """Return the pictures of a page, one for each entry of the catalog."""
    lines = [".. grid:: 1 1 2 2", "   :gutter: 2", ""]
    for method in methods:
        lines += [
            "   .. grid-item::",
            "",
            f"      **{method.name}.** {method.note}",
            "",
            f"      .. image:: /_generated/method-{picture_name(method)}.png",
            f"         :alt: Scores of {method.name} on simulated bags in the plane",
            "",
        ]
    return lines


CLASSIFIED = """\
The method with default parameters, fitted to simulated bags of points in the plane.
A bag is positive if it contains one or two points at the top right. Colors: the
score of a bag that consists of a single point. Black line: the decision threshold.
Circles: the instances with the largest importance in bags predicted as positive."""
REGRESSED = """\
The method with default parameters, fitted to simulated bags of points in the plane.
The value of a bag is the mean vertical coordinate of its points. Colors: the
prediction for a bag that consists of a single point. Large dots: the means of the
training bags, colored by their true values."""
TIMED = """\
The method with default parameters, fitted to simulated bags of points in the plane.
The risk of a bag is the mean vertical coordinate of its points. Colors: the
predicted risk of a bag that consists of a single point. Large dots: the means of the
training bags, colored by their true risks."""
TEXTS = {"classification": CLASSIFIED, "regression": REGRESSED, "survival": TIMED}
LEGEND = """\
*Mean rank, AUROC*: :doc:`tuned methods over many data sets
</results/bag-classifier/README>`; in brackets the mean AUROC. *Standard assumption*:
"yes" if the method respects it, otherwise the worst AUROC in :doc:`two tests
</results/assumptions/README>` (negative bags with distractor instances; irrelevant
instances whose frequency changes). *Assumption found*: what the method learned in all
tests: "standard", "generalized" (also several kinds of instances together, or enough
of one kind), "neither" (irrelevant instances mislead it) or "cannot learn it" (it does
not recognize bags with one or two positive instances). *Seconds per fit*: one untuned
fit and prediction on 200 bags. *Key instances found*: :doc:`how often the top instance
is a true one </results/key-instances/README>`. *Growth*: :doc:`the exponent of the run
time </results/growth/README>` as the number of bags, of instances per bag, or of
features is doubled; 1 is linear. *Sparse rows*: sparse matrices stay sparse. *Scores
instances*: the model has scores of its own for single instances. *Probabilities*: it
has ``predict_proba``. *More than two classes*: without a wrapper. "–": not measured.
:doc:`/guide/which-method` compares all methods."""


def page(public: Public, methods: list) -> list[str]:
    """Return the lines of one page."""
    names = ", ".join(dict.fromkeys(m.name for m in methods))
    title = public.name if names == public.name else f"{public.name}: {names}"
    lines = underlined(title if len(methods) < 3 else public.name)
    classified = methods[0].task == "classification"
    papers = dict.fromkeys(m.paper for m in methods if "see its" not in m.paper)
    lines += advice(public)
    lines += pictures(methods)
    lines += [TEXTS[methods[0].task], ""]
    lines += [*underlined("Measurements", "-"), *facts(methods)]
    lines += [
        LEGEND if classified else ":doc:`/guide/regression` compares the methods.",
        "",
    ]
    lines += underlined("The method", "-")
    if papers:
        lines += ["After " + "; ".join(papers) + ".", ""]
    return lines + describe(public)


def index(groups: dict[str, list]) -> list[str]:
    """Return the page that lists the methods."""
    lines = [
        *underlined("Methods"),
        "All methods of the catalog share one interface. The page of a method shows",
        "a figure, its equation, its assumptions and its cost. The page",
        ":doc:`/guide/which-method` helps to choose.",
        "",
    ]
    for task, head in TASKS.items():
        methods = [m for m in list_methods() if m.task == task]
        if not methods:  # an extra that is not installed
            continue
        lines += underlined(head, "-")
        families = {m.kind for m in methods}
        for family in [f for f in FAMILIES if f in families] + sorted(
            families - set(FAMILIES)
        ):
            lines += underlined(FAMILIES.get(family, family.capitalize()), "~")
            lines += _listed([m for m in methods if m.kind == family])
    known = public_names.names()
    lines += [".. toctree::", "   :hidden:", ""]
    pages = sorted({slug(known[path]) for path in groups})
    return lines + [f"   {name}" for name in pages]


def _listed(methods: list) -> list[str]:
    """Return a table of methods with small pictures."""
    known = public_names.names()
    lines = [".. list-table::", "   :class: methods", "   :widths: 14 26 34 26", ""]
    for method in methods:
        link = f"methods/{slug(known[method.path])}"
        paper = NO if "see its" in method.paper else method.paper
        lines += [
            f"   * - .. image:: /_generated/method-{picture_name(method)}.png",
            f"          :alt: What {method.name} learns",
            "          :width: 110px",
            f"     - :doc:`{method.name} </{link}>`",
            "",
            f"       ``{method.path.rpartition('.')[2]}``",
            f"     - {method.note}",
            f"     - {paper}",
        ]
    return [*lines, ""]


def decision_table(task: str) -> list[str]:
    """Return the table of the page that helps to choose."""
    known = public_names.names()
    methods = [m for m in list_methods() if m.task == task]
    heads = ["Method"]
    columns = [lambda m: f":doc:`{m.name} </methods/{slug(known[m.path])}>`"]
    if task == "classification":
        heads += ["Rank (AUROC)", "Standard assumption"]
        columns += [rank_text, assumption_text]
        methods.sort(key=lambda m: (measured.ranks().get(m.name, (99, 0))[0], m.name))
    heads += ["Seconds", GROWTH, "Sparse", "Instances", "Probabilities"]
    columns += [
        seconds_text,
        growth_text,
        lambda m: yes(m.sparse),
        lambda m: yes(m.instances),
        lambda m: yes(m.probability),
    ]
    if not methods:
        return ["Not installed where this page was made.", ""]
    shown = [
        (head, column)
        for head, column in zip(heads, columns, strict=True)
        if any(column(m) != NO for m in methods)
    ]
    lines = [".. list-table::", "   :header-rows: 1", "   :class: decision", ""]
    lines += [f"   {'* -' if k == 0 else '  -'} {h}" for k, (h, _) in enumerate(shown)]
    for method in methods:
        for k, (_, column) in enumerate(shown):
            lines.append(f"   {'* -' if k == 0 else '  -'} {column(method)}")
    return [*lines, ""]


def write_pages(app) -> None:
    """Write the pages before Sphinx looks for them."""
    folder = Path(app.srcdir) / "methods"
    known, groups = public_names.names(), by_class()
    kept = {folder / "index.rst"}
    for path, methods in groups.items():
        file = folder / f"{slug(known[path])}.rst"
        write(file, page(known[path], methods))
        kept.add(file)
    write(folder / "index.rst", index(groups))
    for old in set(folder.glob("*.rst")) - kept:
        old.unlink()
    generated = Path(app.srcdir) / "_generated"
    for task in TASKS:
        write(generated / f"choose-{task}.txt", decision_table(task))


def setup(app):
    """Connect to Sphinx."""
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
