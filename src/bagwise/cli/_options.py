"""The options that say what a table means."""

from __future__ import annotations

from typing import Annotated, Any

import typer

__all__ = ["OPTIONS", "Data"]

Data = Annotated[
    str, typer.Argument(help="A file, a folder of features, or a known set's name.")
]
OPTIONS: dict[str, tuple[Any, Any]] = {
    "bag": (
        Annotated[str | None, typer.Option("--bag", help="Column that names the bag.")],
        None,
    ),
    "label": (
        Annotated[str | None, typer.Option("--label", help="Column of the label.")],
        None,
    ),
    "target": (
        Annotated[
            str | None,
            typer.Option("--target", help="Column of real values, instead of labels."),
        ],
        None,
    ),
    "time": (
        Annotated[
            str | None,
            typer.Option("--time", help="Column of times until an event."),
        ],
        None,
    ),
    "event": (
        Annotated[
            str | None,
            typer.Option("--event", help="Column: 1 where the event was seen."),
        ],
        None,
    ),
    "group": (
        Annotated[
            str | None,
            typer.Option(
                "--group",
                help="Column of what must not be split, such as the patient.",
            ),
        ],
        None,
    ),
    "positive": (
        Annotated[
            str | None,
            typer.Option("--positive", help="The positive one of two labels."),
        ],
        None,
    ),
    "task": (
        Annotated[
            str,
            typer.Option("--task", help="auto, classification, regression, survival."),
        ],
        "auto",
    ),
    "impute": (
        Annotated[
            str | None,
            typer.Option(
                "--impute",
                help="Fill missing values: median, mean or most_frequent.",
            ),
        ],
        None,
    ),
    "drop": (
        Annotated[
            list[str],
            typer.Option("--drop", help="Columns to leave out, by commas or repeated."),
        ],
        [],
    ),
    "features": (
        Annotated[
            list[str],
            typer.Option(
                "--features",
                help="Columns to use, by commas or repeated; all others if absent.",
            ),
        ],
        [],
    ),
    "instance_id": (
        Annotated[
            str | None,
            typer.Option("--instance-id", help="Column that names the instance."),
        ],
        None,
    ),
    "weight": (
        Annotated[
            str | None,
            typer.Option("--weight", help="Column of the bag's weight in fitting."),
        ],
        None,
    ),
    "coords": (
        Annotated[
            list[str],
            typer.Option(
                "--coords",
                help="Columns that say where an instance lies, such as x,y.",
            ),
        ],
        [],
    ),
    "format": (
        Annotated[
            str | None,
            typer.Option(
                "--format",
                help="csv, parquet, npz, arff, musk, svmlight; the suffix tells.",
            ),
        ],
        None,
    ),
    "labels": (
        Annotated[
            str | None,
            typer.Option("--labels", help="For a folder: the table, one row a file."),
        ],
        None,
    ),
    "pool": (
        Annotated[
            str | None,
            typer.Option(
                "--pool",
                help="For a folder: column whose equal values make one bag.",
            ),
        ],
        None,
    ),
    "on_missing": (
        Annotated[
            str | None,
            typer.Option(
                "--on-missing",
                help="For a folder: drop leaves out files that are of no use.",
            ),
        ],
        None,
    ),
}
