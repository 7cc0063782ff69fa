"""What is done with a model or with results: evaluate, check, card, figure, texts."""

import json as json_module
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from bagwise.cli._common import Json, UsageError, in_options, write_json
from bagwise.cli._data import InputData, reads_data
from bagwise.exceptions import DataError, DroppedGroupWarning, MissingValuesError

SHIFTED = 3  # exit status of `check` if the data differ

ModelFile = Annotated[Path, typer.Argument(help="A model file.")]


def labeled(
    source: InputData, by: Sequence[str] = ()
) -> tuple[Any, Any, dict[str, Any]]:
    """Return bags, labels, and the entry of every bag in some more columns.

    Nothing is said of the labels: a cohort may lack a class.

    Parameters
    ----------
    source : InputData
        The data.
    by : sequence of str
        Columns that are constant inside every bag.
    """
    if not source.is_file:
        if by:
            raise UsageError(f"--by names columns, but {source.data} is not a table")
        problem = source.problem()
        return problem.X, problem.y, {}
    table = not Path(source.data).is_dir()
    group, given = source.columns.get("group"), list(source.columns.get("drop", ()))

    def read(group: Any) -> tuple[Any, Any]:
        columns = dict(source.columns)
        named = {*by, source.columns.get("group")} - {group, None}
        columns["drop"] = [name for name in given if name != group]
        columns["drop"] += sorted(named - {*given}) if table else []
        columns["group"] = group
        own = replace(source, columns={k: v for k, v in columns.items() if v})
        try:
            return own.labeled(source.data, ("weight",))[:2]
        except MissingValuesError:  # the model decides whether they are allowed
            filled = replace(own, impute="median")
            return filled.labeled(source.data, ("weight",))[:2]

    def level(name: str) -> Any:
        try:
            return read(name)[0].groups
        except DataError as error:
            raise UsageError(f"--by {name}: {in_options(error)}") from None

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DroppedGroupWarning)  # nothing is split
        X, y = read(group)
        levels = {n: X.groups if n == group else level(n) for n in by}
    return X, y, levels


@reads_data
def evaluate(
    model: ModelFile,
    source: InputData,
    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by",
            help="Column of subgroups, such as site; may be repeated.",
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="Threshold: bags with at least this probability (or score) are "
            "positive."
        ),
    ] = None,
    sensitivity: Annotated[
        float | None,
        typer.Option(
            help="Use the threshold with this sensitivity on held-out training bags."
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(help="Another model file, for a paired test on the same bags."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path(
        "bagwise-evaluation"
    ),
    json: Json = False,
) -> int:
    """Evaluate a fixed model on new labeled bags, and write a report.

    Metrics have 95% intervals and are compared with the cross-validation of the
    training. Nothing is fitted or chosen on DATA. Writes evaluation.json and
    report.html.
    """
    from bagwise.comparison.validation import evaluate as evaluate_bags
    from bagwise.io import load
    from bagwise.report import write_report

    fitted = load(model)
    other = None if against is None else load(against)
    X, y, levels = labeled(source, by or [])
    found = evaluate_bags(
        fitted,
        X,
        y,
        by=levels,
        threshold=threshold,
        sensitivity=sensitivity,
        against=other,
        name=Path(source.data).stem if source.is_file else source.data,
    )
    out.mkdir(parents=True, exist_ok=True)
    text = json_module.dumps(found.to_dict(), indent=2, allow_nan=False)
    (out / "evaluation.json").write_text(text, encoding="utf-8")
    report = write_report(found, out / "report.html")
    if json:
        files = {"evaluation": str(out / "evaluation.json"), "report": str(report)}
        write_json({**found.to_dict(), "files": files})
        return 0
    _print_evaluation(found)
    typer.echo(f"report: {report.absolute()}")
    return 0


def _print_evaluation(found: Any) -> None:
    from rich.console import Console
    from rich.table import Table

    from bagwise.comparison.evaluate import METRICS

    console = Console()
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("Metric", "", "95% interval", "comparison with cross-validation"):
        table.add_column(name)
    for row in found.figures:
        show = METRICS[row["name"]].show
        ends = f"{show(row['low'])} to {show(row['high'])}" if show(row["low"]) else ""
        table.add_row(row["title"], show(row["mean"]), ends, row.get("text", ""))
    console.print(table)
    for text in (found.summary(), *found.notes):
        console.print(f"\n{text}", markup=False, highlight=False)


@reads_data
def check(
    source: InputData,
    reference: Annotated[Path, typer.Option(help="The model file.")],
    alpha: Annotated[
        float,
        typer.Option(
            help="Significance level of the test, which is its rate of false alarms."
        ),
    ] = 0.05,
    seed: Annotated[int, typer.Option(help="Random seed of the test.")] = 0,
    json: Json = False,
) -> int:
    """Check whether DATA are like the training bags of a model.

    Compares columns, bag sizes and distributions (a two-sample test on bags). The exit
    status is 0 if no difference was found, 3 if columns differ or the test finds a
    difference, 1 after an error and 2 after wrong usage.
    """
    from bagwise.inspection import check_shift
    from bagwise.io import load

    fitted = load(reference)
    found = check_shift(fitted, source.bags(), alpha=alpha, random_state=seed)
    if json:
        write_json(found.to_dict())
        return SHIFTED if found.shifted else 0
    typer.echo(found.summary())
    low, _, middle, _, high = found.sizes["training"]
    new = found.sizes["new"]
    typer.echo(
        f"instances per bag: training {low:g} to {high:g}, median {middle:g}; new"
        f" {new[0]:g} to {new[4]:g}, median {new[2]:g}"
    )
    for row in found.drift[:10]:
        outside = f", {row['outside']:.1%} outside the training range"
        typer.echo(
            f"  {row['column']}: mean {row['difference']:+.2f} SD, spread"
            f" {row['spread']:+.2f} SD, adjusted p {row['p']:.3f}"
            f"{outside if row['outside'] else ''}"
        )
    return SHIFTED if found.shifted else 0


def card(
    model: ModelFile,
    out: Annotated[
        Path, typer.Option(help="File to write: .html, or .md for Markdown.")
    ] = Path("model-card.html"),
    evaluation: Annotated[
        list[Path] | None,
        typer.Option(
            help="An evaluation.json of `bagwise evaluate`, whose figures and "
            "subgroups are added; may be repeated."
        ),
    ] = None,
    json: Json = False,
) -> int:
    """Write the card of a model: data, protocol, figures, limits, versions, use."""
    from bagwise.comparison.evaluation import read_evaluation
    from bagwise.io import load
    from bagwise.report import write_report

    if out.suffix not in (".html", ".md"):
        raise UsageError(f"--out must be an .html or .md file, got {out.name!r}")
    found = [read_evaluation(path) for path in evaluation or []]
    page = write_report(load(model), out, evaluations=found)
    if json:
        write_json({"card": str(page)})
    else:
        typer.echo(f"card: {page.absolute()}")
    return 0


# Results of comparisons ---------------------------------------------------------------

Results = Annotated[
    list[Path],
    typer.Argument(
        help="Folder of the results of `bagwise compare`; of several data sets, several"
        " folders."
    ),
]


StoreOfRuns = Annotated[
    Path | None,
    typer.Option("--store", help="The store of the runs, if it is not in the folder."),
]


def _opened(folders: Sequence[Path], store: Path | None) -> Any:
    """Return the comparison in a folder, or the leaderboard of several."""
    from bagwise.comparison import Comparison, Leaderboard

    found = [Comparison.open(folder, store=store) for folder in folders]
    return found[0] if len(found) == 1 else Leaderboard.of(found)


def figure(
    results: Results,
    kind: Annotated[
        str | None,
        typer.Option(
            help="ranking, roc, precision-recall, calibration, confusion, values,"
            " survival, heatmap; of several folders critical-difference."
        ),
    ] = None,
    format_: Annotated[
        str, typer.Option("--format", help="Format: pdf, svg or png.")
    ] = "pdf",
    width: Annotated[
        str,
        typer.Option(help="single (89 mm), medium (120), double (183), or mm."),
    ] = "single",
    method: Annotated[
        list[str] | None,
        typer.Option(help="Name of a method in the figure; may be repeated."),
    ] = None,
    bag: Annotated[
        list[str] | None,
        typer.Option(help="Id of a bag in a heat map; may be repeated."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The file; by default KIND.FORMAT in the first folder."),
    ] = None,
    store: StoreOfRuns = None,
    json: Json = False,
) -> int:
    """Plot results for a paper, in the width of a journal's column.

    RESULTS is a folder that `bagwise compare` has written; the data are not needed.
    Folders of several data sets give a critical-difference diagram (Demsar, 2006).
    """
    from bagwise.report import write_figure

    if kind is None:
        kind = "ranking" if len(results) == 1 else "critical-difference"
    if format_ not in ("pdf", "svg", "png"):
        raise UsageError(f"--format is pdf, svg or png, got {format_!r}")
    try:
        size: str | float = float(width)
    except ValueError:
        size = width
    path = results[0] / f"{kind}.{format_}" if out is None else out
    path = write_figure(
        _opened(results, store), path, kind, width=size, methods=method, bags=bag
    )
    if json:
        write_json({"figure": str(path)})
    else:
        typer.echo(f"figure: {path.absolute()}")
    return 0


def table(
    results: Results,
    format_: Annotated[
        str, typer.Option("--format", help="Format: markdown or latex.")
    ] = "markdown",
    store: StoreOfRuns = None,
) -> int:
    """Print the ranking of methods as a table for a paper.

    RESULTS is a folder that `bagwise compare` has written; folders of several data sets
    give the table of all, with mean ranks.
    """
    if format_ not in ("markdown", "latex"):
        raise UsageError(f"--format is markdown or latex, got {format_!r}")
    found = _opened(results, store)
    text = found.to_markdown() if format_ == "markdown" else found.to_latex()
    typer.echo(text, nl=False)
    return 0


def methods_text(
    results: Annotated[
        Path, typer.Argument(help="Folder of the results of `bagwise compare`.")
    ],
    format_: Annotated[
        str,
        typer.Option(
            "--format", help="How references are cited: text, markdown, latex."
        ),
    ] = "text",
    bib: Annotated[
        Path | None,
        typer.Option(help="Write the references into this BibTeX file."),
    ] = None,
    store: StoreOfRuns = None,
    json: Json = False,
) -> int:
    """Print the paragraph of a methods section, with its references in BibTeX.

    The paragraph is made of what the comparison has recorded.
    """
    from bagwise.comparison import Comparison
    from bagwise.report import methods_text as describe

    found = describe(Comparison.open(results, store=store), format=format_)
    if bib is not None:
        bib.write_text(found.bibtex, encoding="utf-8")
    if json:
        write_json({"text": found.text.strip(), "bibtex": found.bibtex})
        return 0
    typer.echo(found.text, nl=False)
    typer.echo(f"\n{found.bibtex}" if bib is None else f"references: {bib.absolute()}")
    return 0
