"""`bagwise fit`, `predict` and `explain`: one model and its file."""

import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from bagwise.cli._common import (
    Escape,
    Json,
    Seed,
    UsageError,
    with_settings,
    write_json,
    write_rows,
)
from bagwise.cli._data import InputData, reads_data

# Default methods.
DEFAULTS = {
    "classification": "BagClassifier",
    "multilabel": "BagClassifier",
    "regression": "BagRegressor",
    "survival": "Mean + Cox",
}


def fit_file(
    data: Any,
    method: Any = None,
    *,
    out: str | os.PathLike[str] | None = None,
    grid: str = "default",
    scoring: str | None = None,
    inner_splits: int = 3,
    random_state: int = 0,
    bag: str | None = None,
    label: str | None = None,
    groups: Any = None,
    pos_label: Any = None,
    task: str = "auto",
    impute: str | None = None,
    sample_weight: Any = None,
    conformal: float | None = None,
    conformal_per_class: bool = False,
    **columns: Any,
) -> Any:
    """Tune and fit one method on all bags of a file, and save the model.

    Parameters
    ----------
    data : str, path or Problem
        A file, or the name of a known data set.
    method : str or estimator, default=None
        Name in the catalog, or an estimator. By default BagClassifier, for values
        BagRegressor.
    out : path, optional
        Where the model is written.
    grid : {"default", "large", "auto", "none"}
        Candidates for tuning; "auto" widens them where the best stands at an end.
    scoring : str, optional
        What tuning maximizes; what suits the data by default, as in `compare`.
    inner_splits : int, default=3
        Folds of the tuning.
    random_state : int, default=0
        Random seed of splits and method.
    bag, label : str, optional
        Columns of the file.
    groups, pos_label, task, impute, sample_weight
        As in `compare`.
    conformal, conformal_per_class
        As in `compare`; the method is then fitted five more times.
    **columns
        Further options of :func:`bagwise.read_bags`.

    Returns
    -------
    TunedModel
        The pipeline and the chosen parameters.
    """
    from threadpoolctl import threadpool_limits

    from bagwise.comparison.choose import find_method, refuse_other_task
    from bagwise.comparison.evaluate import METRICS
    from bagwise.comparison.problem import as_problem
    from bagwise.comparison.protocols import CrossValidation
    from bagwise.comparison.record import attach_fit, check_alpha
    from bagwise.comparison.tasks import task_of
    from bagwise.comparison.tuning import fit_method
    from bagwise.io import save

    check_alpha(conformal)
    if method is not None:
        method = find_method(method)  # rejects unknown methods before data are read
    problem = as_problem(
        data,
        bag=bag,
        label=label,
        groups=groups,
        pos_label=pos_label,
        task=task,
        missing=impute is not None,
        sample_weight=sample_weight,
        **columns,
    )
    problem.check_values(missing=impute is not None)
    problem.check_positive()
    entry = find_method(DEFAULTS[problem.task]) if method is None else method
    refuse_other_task(entry, problem)
    if problem.sample_weight is not None and not entry.weights:
        warnings.warn(
            f"{entry.name} does not support weights: all bags have the same weight",
            UserWarning,
            stacklevel=2,
        )
    tuning: dict[str, Any] | None = None
    if grid != "none" and entry.grid_of(grid):
        copies = problem.units is not problem.groups
        CrossValidation(inner_splits).check(
            problem.strata, groups=problem.units, copies=copies
        )
        best = METRICS[task_of(problem).default_metric()[0]].scoring
        tuning = {"n_splits": inner_splits, "scoring": scoring or best}
        if grid == "auto":
            tuning["extend"] = True
    with threadpool_limits(1):
        fitted = fit_method(
            entry.spec(),
            problem.X,
            problem.y,
            scale=entry.scale,
            impute=impute,
            grid=entry.grid_of(grid),
            tuning=tuning,
            random_state=random_state,
            pos_label=problem.pos_label,
            sample_weight=problem.sample_weight,
        )
        sets = {"alpha": conformal, "per_class": conformal_per_class}
        attach_fit(
            problem,
            entry,
            fitted,
            conformal=None if conformal is None else sets,
            impute=impute,
            random_state=random_state,
        )
    if out is not None:
        Path(out).parent.mkdir(parents=True, exist_ok=True)
        save(fitted.model, out)
    return fitted


def predict_file(
    model: Any,
    data: Any,
    *,
    bag: str | None = None,
    label: str | None = None,
    sets: bool | float = False,
    outliers: bool = False,
) -> list[dict[str, Any]]:
    """Predict the bags of a file with a saved model.

    Parameters
    ----------
    model : path or fitted estimator
        What `fit_file` or `compare` wrote.
    data : str, path, Problem or Bags
        Bags; labels are not needed and not used.
    bag, label : str, optional
        Columns of the file.
    sets : bool or float, default=False
        Whether to add prediction sets or intervals, see
        `bagwise.inspection.prediction_sets`; a number is one minus their coverage.
    outliers : bool, default=False
        Whether to add how unusual each bag is for the training bags.

    Returns
    -------
    list of dict
        One entry per bag: `bag` and `label`, then `score_of_...` and, if the model has
        them, `probability_of_...`, with the name of the class: the positive one of two,
        or each of more. With several labels per bag, `label_1`, `score_of_1` and so on,
        numbered as in reports. For a regressor `bag` and `value`, for a survival model
        `bag` and `risk`. On request `prediction_set` (classes separated by
        "|", empty if none fits) or `low` and `high` of values, and `outlier`, between 0
        and 1: about 5% of bags like those of the training are above 0.95.
    """
    from sklearn.base import is_regressor

    from bagwise.comparison.problem import as_unlabeled
    from bagwise.inspection.scores import bags_for, predicts_values
    from bagwise.inspection.shift import outlier_scores
    from bagwise.io import load

    if isinstance(model, str | os.PathLike):
        model = load(model)
    X = bags_for(model, as_unlabeled(data, bag=bag, label=label))
    predicted = np.asarray(model.predict(X))
    columns: dict[str, Any] = {"bag": X.ids}
    if is_regressor(model):
        columns["value"] = predicted
    elif predicted.ndim == 2:
        columns |= _label_columns(model, X, predicted)
    elif predicts_values(model):
        columns["risk"] = predicted
    else:
        columns |= {"label": predicted, **_class_columns(model, X)}
    if sets is not False:
        columns |= _set_columns(model, X, None if sets is True else sets)
    if outliers:
        columns["outlier"] = outlier_scores(model, X)
    return [
        {name: np.asarray(values[i]).tolist() for name, values in columns.items()}
        for i in range(len(X))
    ]


def _set_columns(model: Any, X: Any, alpha: float | None) -> dict[str, Any]:
    """Return prediction sets as text, or the ends of intervals."""
    from bagwise.inspection import prediction_sets

    found = prediction_sets(model, X, alpha=alpha)
    if found.member is None:
        return {"low": found.low, "high": found.high}
    return {"prediction_set": ["|".join(map(str, labels)) for labels in found.labels]}


def _label_columns(model: Any, X: Any, predicted: Any) -> dict[str, Any]:
    """Return a label, a score and where there is one a probability for each label."""
    columns: dict[str, Any] = {}
    numbers = range(1, predicted.shape[1] + 1)
    columns |= {f"label_{k}": predicted[:, k - 1] for k in numbers}
    for k, one in zip(numbers, model.estimators_, strict=True):
        found = _class_columns(one, X)
        columns |= {f"{name.rpartition('_')[0]}_{k}": v for name, v in found.items()}
    return columns


def _class_columns(model: Any, X: Any) -> dict[str, Any]:
    """Return scores and probabilities under the names of their classes."""
    from bagwise.inspection.scores import own_positive

    classes = list(model.classes_)
    positive = own_positive(model)
    shown = classes if positive is None else [positive]
    columns: dict[str, Any] = {}
    if hasattr(model, "decision_function"):
        score = np.asarray(model.decision_function(X))
        for k, name in enumerate(shown):
            one = score if score.ndim == 1 else score[:, k]
            turned = score.ndim == 1 and name == classes[0]
            columns[f"score_of_{name}"] = -one if turned else one
    if hasattr(model, "predict_proba"):
        probability = np.asarray(model.predict_proba(X))
        for name in shown:
            columns[f"probability_of_{name}"] = probability[:, classes.index(name)]
    return columns


def explain_file(
    model: Any,
    data: Any,
    *,
    bag: str | None = None,
    label: str | None = None,
    by: str = "auto",
    pos_label: Any = None,
    images: Any = None,
) -> Any:
    """Score the instances of a file with a saved model.

    Parameters
    ----------
    model : path or fitted estimator
        What `fit_file` or `compare` wrote.
    data : str, path, Problem or Bags
        Bags; labels are not needed and not used.
    bag, label : str, optional
        Columns of the file.
    by : {"auto", "native", "single", "leave_out", "add_to"}, default="auto"
        How instances are scored, see `bagwise.inspection.instance_importance`.
    pos_label : label, default=None
        Class for which scores are high. By default the positive class of two; of more
        classes, for each bag the one that is predicted.
    images : array, path or list of paths, optional
        Pictures of the instances, see `bagwise.inspection.explain`.

    Returns
    -------
    Explanation
        Scores, key instances, pictures.
    """
    from bagwise.comparison.problem import as_problem, as_unlabeled
    from bagwise.compose import OneModelPerLabel
    from bagwise.inspection import explain as explain_bags
    from bagwise.io import load

    if isinstance(model, str | os.PathLike):
        model = load(model)
    if images is None and not isinstance(data, str | os.PathLike):
        images = getattr(data, "images", None)
    elif images is None and str(data) == "digits":
        images = as_problem(data).images
    if isinstance(model, OneModelPerLabel):
        raise ValueError(
            "the model predicts several labels per bag; explain them one by one, in"
            " Python: bagwise.inspection.explain(model.estimators_[0], X)"
        )
    X = as_unlabeled(data, bag=bag, label=label)
    chosen = _class_called(model, pos_label)
    return explain_bags(model, X, method=by, pos_label=chosen, images=images)


def _class_called(model: Any, name: Any) -> Any:
    """Return the class of a name; on a command line, numbers are words."""
    classes = np.asarray(getattr(model, "classes_", ())).tolist()
    if name is None or name in classes:
        return name
    return {str(label): label for label in classes}.get(str(name), name)


@reads_data
def fit(
    source: InputData,
    method: Annotated[
        str | None,
        typer.Option(
            help="Name of a method (see `bagwise methods`); by default BagClassifier or"
            " BagRegressor."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="The model file.")] = Path("model.bagwise"),
    grid: Annotated[str, typer.Option(help="default, large or none.")] = "default",
    conformal: Annotated[
        float | None,
        typer.Option(
            help="Store prediction sets with the model, with this error rate: "
            "0.1 for 90% coverage (five more fits)."
        ),
    ] = None,
    conformal_per_class: Annotated[
        bool,
        typer.Option(
            "--conformal-per-class",
            help="Reach the coverage of prediction sets in each class.",
        ),
    ] = False,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Set a parameter: METHOD.PARAM=VALUE."),
    ] = None,
    seed: Seed = 0,
    json: Json = False,
) -> int:
    """Tune and fit one method on all bags of DATA, and save the model."""
    problem = source.problem()
    name = DEFAULTS[problem.task] if method is None else method
    fixed = with_settings([name], set_ or [], skip="set" in source.settled)[0]
    found = fit_file(
        problem,
        fixed,
        out=out,
        grid=grid,
        random_state=seed,
        impute=source.impute,
        conformal=conformal,
        conformal_per_class=conformal_per_class,
    )
    if json:
        write_json(
            {"model": str(out), "params": found.params, "tune_score": found.tune_score}
        )
        return 0
    if found.params:
        chosen = ", ".join(f"{name}={value}" for name, value in found.params.items())
        typer.echo(f"parameters: {chosen}")
    if found.tune_score is not None:
        typer.echo(f"inner cross-validation: {_figure(problem, found.tune_score)}")
    typer.echo(f"model: {out.absolute()}")
    return 0


def _figure(problem: Any, score: float) -> str:
    """Return the inner cross-validated figure as text; errors are negative scores."""
    from bagwise.comparison import METRICS
    from bagwise.comparison.tasks import task_of

    name = METRICS[task_of(problem).default_metric()[0]].scoring
    text = name.removeprefix("neg_").replace("_", " ")
    return f"{text} {-score:.4g}" if name.startswith("neg_") else f"{text} {score:.3f}"


@reads_data
def predict(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    source: InputData,
    out: Annotated[
        Path | None, typer.Option(help="CSV file; standard output by default.")
    ] = None,
    prediction_sets: Annotated[
        bool,
        typer.Option(
            "--prediction-sets",
            help="Add a prediction set of labels, or an interval, with the "
            "coverage that was stored with the model (90% by default).",
        ),
    ] = False,
    alpha: Annotated[
        float | None,
        typer.Option(help="One minus the coverage of prediction sets."),
    ] = None,
    outlier: Annotated[
        bool,
        typer.Option(
            "--outlier",
            help="Add an outlier score of each bag with respect to the training bags.",
        ),
    ] = False,
    csv_escape: Escape = True,
    json: Json = False,
) -> int:
    """Predict the label of every bag of DATA.

    Name the label column with --label if the file has one, so that it is not used as a
    feature.
    """
    sets = prediction_sets if alpha is None else alpha
    rows = predict_file(model, source.bags(), sets=sets, outliers=outlier)
    if json:
        write_json(rows)
    else:
        write_rows(rows, out, escape=csv_escape)
        if out is not None:
            typer.echo(f"predictions: {out.absolute()}")
    return 0


@reads_data
def explain(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    source: InputData,
    out: Annotated[
        Path, typer.Option(help="Folder for the tables and figures.")
    ] = Path("bagwise-explained"),
    by: Annotated[
        str,
        typer.Option(
            help="Definition of the scores: auto, native, single, leave_out or add_to."
        ),
    ] = "auto",
    images: Annotated[
        Path | None,
        typer.Option(help="Images of instances: an .npz or .npy file, or a folder."),
    ] = None,
    format_: Annotated[
        str, typer.Option("--plots", help="Format of plots: png, pdf or svg.")
    ] = "png",
    csv_escape: Escape = True,
    json: Json = False,
) -> int:
    """Score every instance of DATA, to see which ones made a bag positive.

    Writes instances.csv, instances.json and key_instances.png, and where instances have
    coordinates, a heat map and a GeoJSON file (for QuPath) of every bag. If a model
    does not score instances, each instance is scored alone (--by single), or by the
    change of the score without it (--by leave_out). Scores are high for the positive
    class of two, or for the predicted one of more classes; --positive names another
    class.
    """
    if format_ not in ("png", "pdf", "svg"):
        raise UsageError(f"--plots must be png, pdf or svg, got {format_!r}")
    found = explain_file(
        model,
        source.bags() if source.is_file else replace(source, positive=None).problem(),
        by=by,
        pos_label=source.positive,
        images=images,
    )
    paths = found.write(out, escape=csv_escape, format=format_)
    if json:
        files = {name: str(path) for name, path in paths.items()}
        write_json({"files": files, "instances": found.rows()})
        return 0
    for name, path in paths.items():
        typer.echo(f"{name}: {path.absolute()}")
    return 0
