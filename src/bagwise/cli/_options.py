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
                help="Column of the label; several columns of 0 and 1 for several"
                " labels, separated by commas or repeated.",
            ),
        ],
        [],
    ),
    "exclude_label": (
        Annotated[
            list[str],
            typer.Option(
                "--exclude-label",
                help="A label whose bags are left out, such as unknown; repeated.",
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
            typer.Option("--event", help="Column that is 1 if the event was seen."),
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
            typer.Option("--positive", help="Which of two labels is positive."),
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
            typer.Option(
                "--drop", help="Columns to leave out, separated by commas or repeated."
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
                help="Encode columns that are not numbers inside the folds: auto, or"
                " names of columns.",
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
                " by default inferred from the suffix.",
            ),
        ],
        None,
    ),
    "labels": (
        Annotated[
            str | None,
            typer.Option(
                "--labels",
                help="For a folder: the table with one row per file; for sdf and smi:"
                " per molecule.",
            ),
        ],
        None,
    ),
    "bag_features": (
        Annotated[
            str | None,
            typer.Option(
                "--bag-features",
                help="A second table with one row per bag, whose columns are used too.",
            ),
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
                help="drop leaves out files, cells and molecules that cannot be used.",
            ),
        ],
        None,
    ),
    "smiles": (
        Annotated[
            str | None,
            typer.Option("--smiles", help="Column of SMILES: the rows are molecules."),
        ],
        None,
    ),
    "conformers": (
        Annotated[
            int | None,
            typer.Option(
                "--conformers",
                help="For molecules: conformers to generate for each; by default 10.",
            ),
        ],
        None,
    ),
    "kmer": (
        Annotated[
            int | None,
            typer.Option("--kmer", help="For airr: length of k-mers; by default 4."),
        ],
        None,
    ),
    "gapped": (
        Annotated[
            bool,
            typer.Option("--gapped", help="For airr: k-mers with a gap as well."),
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
        help="TOML file with options of any kind. A bagwise.toml next to DATA is read"
        " without it, but may only describe columns and labels.",
    ),
]
# What a file that was found may say. No paths, no methods, nothing that is run.
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
