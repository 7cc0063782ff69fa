"""The options that describe data, and which of them a found file may set."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["DESCRIBES_DATA", "OPTIONS", "SETTINGS", "Config", "Data"]

Data = Annotated[
    str, typer.Argument(help="A file, a folder, or the name of a data set.")
]
OPTIONS: dict[str, tuple[Any, Any]] = {
    "bag": (
        Annotated[
            str | None, typer.Option("--bag", help="Column with the id of the bag.")
        ],
        None,
    ),
    "label": (
        Annotated[
            list[str],
            typer.Option(
                "--label",
                help="Column of the label; for several labels, several columns of 0 "
                "and 1, separated by commas or repeated.",
            ),
        ],
        [],
    ),
    "exclude_label": (
        Annotated[
            list[str],
            typer.Option(
                "--exclude-label",
                help="Label whose bags are excluded, such as unknown; may be repeated.",
            ),
        ],
        [],
    ),
    "target": (
        Annotated[
            str | None,
            typer.Option(
                "--target", help="Column of real values to predict, instead of labels."
            ),
        ],
        None,
    ),
    "time": (
        Annotated[
            str | None,
            typer.Option(
                "--time",
                help="Column of times until an event or the end of observation.",
            ),
        ],
        None,
    ),
    "event": (
        Annotated[
            str | None,
            typer.Option("--event", help="Column that is 1 if the event was observed."),
        ],
        None,
    ),
    "group": (
        Annotated[
            str | None,
            typer.Option(
                "--group",
                help="Column of groups that are kept in one fold, such as patients.",
            ),
        ],
        None,
    ),
    "positive": (
        Annotated[
            str | None,
            typer.Option("--positive", help="Label of the positive class."),
        ],
        None,
    ),
    "task": (
        Annotated[
            str,
            typer.Option(
                "--task", help="Task: auto, classification, regression or survival."
            ),
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
            typer.Option(
                "--drop", help="Columns to exclude, separated by commas or repeated."
            ),
        ],
        [],
    ),
    "features": (
        Annotated[
            list[str],
            typer.Option(
                "--features",
                help="Feature columns, separated by commas or repeated; by default"
                " all columns without another role. For h5ad: X, obsm:NAME or"
                " layers:NAME.",
            ),
        ],
        [],
    ),
    "encode": (
        Annotated[
            list[str],
            typer.Option(
                "--encode",
                help="Columns that are not numeric and are encoded inside the "
                "folds: auto, or names.",
            ),
        ],
        [],
    ),
    "text": (
        Annotated[
            list[str],
            typer.Option("--text", help="Columns with texts, encoded by their words."),
        ],
        [],
    ),
    "instance_id": (
        Annotated[
            str | None,
            typer.Option("--instance-id", help="Column with the name of the instance."),
        ],
        None,
    ),
    "instance_type": (
        Annotated[
            str | None,
            typer.Option(
                "--instance-type",
                help="Column with the type of the instance, such as a cell type.",
            ),
        ],
        None,
    ),
    "weight": (
        Annotated[
            str | None,
            typer.Option("--weight", help="Column with the weight of the bag."),
        ],
        None,
    ),
    "coords": (
        Annotated[
            list[str],
            typer.Option(
                "--coords",
                help="Columns with the coordinates of an instance, such as x,y.",
            ),
        ],
        [],
    ),
    "format": (
        Annotated[
            str | None,
            typer.Option(
                "--format",
                help="airr, arff, csv, h5ad, musk, npz, parquet, sdf, smi, svmlight or"
                " xlsx;"
                " by default inferred from the extension.",
            ),
        ],
        None,
    ),
    "labels": (
        Annotated[
            str | None,
            typer.Option(
                "--labels",
                help="Table of labels with one row per file of a folder, or per "
                "molecule of an sdf or smi file.",
            ),
        ],
        None,
    ),
    "bag_features": (
        Annotated[
            str | None,
            typer.Option(
                "--bag-features",
                help="Second table with one row per bag, whose columns become "
                "features as well.",
            ),
        ],
        None,
    ),
    "pool": (
        Annotated[
            str | None,
            typer.Option(
                "--pool",
                help="For a folder: column with the name of the bag, such as the "
                "patient of a slide.",
            ),
        ],
        None,
    ),
    "on_missing": (
        Annotated[
            str | None,
            typer.Option(
                "--on-missing",
                help="For files, cells and molecules that cannot be used: error, or "
                "drop to exclude them.",
            ),
        ],
        None,
    ),
    "smiles": (
        Annotated[
            str | None,
            typer.Option("--smiles", help="Column of SMILES; each row is a molecule."),
        ],
        None,
    ),
    "conformers": (
        Annotated[
            int | None,
            typer.Option(
                "--conformers",
                help="Number of conformers to generate per molecule; by default 10.",
            ),
        ],
        None,
    ),
    "kmer": (
        Annotated[
            int | None,
            typer.Option(
                "--kmer", help="For airr: length of the k-mers; by default 4."
            ),
        ],
        None,
    ),
    "gapped": (
        Annotated[
            bool,
            typer.Option("--gapped", help="For airr: add k-mers with a gap."),
        ],
        False,
    ),
    "n_features": (
        Annotated[
            int | None,
            typer.Option(
                "--n-features",
                help="For airr and svmlight: the number of columns.",
            ),
        ],
        None,
    ),
}

SETTINGS = "bagwise.toml"
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="TOML file with any options. A bagwise.toml next to DATA is "
        "read automatically, but may only describe columns and labels.",
    ),
]
# Allowed in a settings file found next to the data: no paths, methods or code.
DESCRIBES_DATA = frozenset(
    {
        "bag",
        "conformers",
        "coords",
        "drop",
        "encode",
        "event",
        "exclude_label",
        "features",
        "format",
        "gapped",
        "group",
        "impute",
        "instance_id",
        "instance_type",
        "kmer",
        "label",
        "n_features",
        "on_missing",
        "pool",
        "positive",
        "smiles",
        "target",
        "task",
        "text",
        "time",
        "weight",
    }
)
