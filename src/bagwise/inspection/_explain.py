"""Which instances made a bag positive: scores, ranks, features and pictures."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from bagwise.bags import Bags
from bagwise.bags.notebook import dots, table
from bagwise.bags.segments import segment_argmax
from bagwise.inspection.contributions import (
    FeatureContributions,
    MemberContributions,
    linear_contributions,
    member_contributions,
    sampled_parts,
)
from bagwise.inspection.features import moments, top_features
from bagwise.inspection.heatmap import plot_heatmap, to_geojson
from bagwise.inspection.importance import IMPORTANCE_METHODS, instance_importance
from bagwise.inspection.pictures import (
    as_images,
    for_class,
    instance_name,
    plot_bags,
    plot_text,
    save_figure,
)
from bagwise.inspection.scores import (
    bag_position,
    bag_scores,
    bags_for,
    instance_scores,
    needs_one_column,
    positive_class,
    predicts_values,
    score_threshold,
    scored_class,
)
from bagwise.io.csv_files import write_csv
from bagwise.io.files import file_names

__all__ = ["Explanation", "explain"]

N_HTML = 10  # bags shown in a notebook
MOST_PROBES = 2_000  # features up to which linear contributions are computed
MOST_SAMPLED = 64  # features up to which other contributions are sampled for a plot
OUTER = 0.01  # share of the instances of a side beyond the outer color
FORMATS = ("png", "pdf", "svg")


@dataclass(eq=False, repr=False)
class Explanation:
    """Instance scores of bags, with tables and plots.

    Attributes
    ----------
    X : Bags
        The bags.
    scores : ndarray of shape (n_instances,)
        Higher is more positive, or more of the predicted class of several classes.
    labels : ndarray of shape (n_bags,)
        Predicted labels, or values.
    bag_scores : ndarray of shape (n_bags,), (n_bags, n_classes) or None
        Scores of the bags.
    key : ndarray of shape (n_bags,)
        Position in its bag of the instance with the highest score.
    images : ndarray or None
        Images of the instances.
    method : str
        Definition of the scores, see `instance_importance`.
    contributions : FeatureContributions or None
        Exact contributions of features, if the scores are linear.
    members : MemberContributions or None
        Exact contributions of the members to the bag scores, if the model is a stack.
    pos_label : label or None
        The class for which scores are high; None if it is the predicted one of several
        classes, or for a regressor.
    threshold : float or None
        Instance score from which bags are predicted positive: 0 where that holds, and
        otherwise the score that best separates the key instances of bags that are
        predicted positive from those of the others. 0 for changes of a score, and for
        several classes; None for a regressor.
    """

    X: Bags
    scores: Any
    labels: Any
    bag_scores: Any
    key: Any
    images: Any = None
    method: str = "native"
    contributions: FeatureContributions | None = None
    members: MemberContributions | None = None
    pos_label: Any = None
    threshold: float | None = None
    _cache: dict[str, Any] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        """Return sizes, the definition of the scores, and the first bags."""
        X, order = self.X, self._order()
        about = "" if self.pos_label is None else f", pos_label={self.pos_label!r}"
        lines = [
            f"Explanation(n_bags={len(X)}, n_instances={X.n_instances}, "
            f"method={self.method!r}{about})"
        ]
        for i in order[:5]:
            row = int(X.offsets[i] + self.key[i])
            lines.append(
                f"  bag {X.ids[i]}: predicted {_predicted(self, int(i))}; key instance "
                f"{instance_name(X, row)}, score {self.scores[row]:.3g}"
            )
        if len(X) > 5:
            lines.append(f"  ... and {len(X) - 5} more bags")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """Return the bags with the highest scores as an HTML table."""
        X, scores = self.X, np.asarray(self.scores, dtype=np.float64)
        finite = scores[np.isfinite(scores)]
        low, high = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
        order = self._order()[:N_HTML]
        rows = []
        for i in order:
            start, stop = int(X.offsets[i]), int(X.offsets[i + 1])
            key = int(self.key[i])
            label = (
                f"scores of the {stop - start} instances, from {low:.3g} to {high:.3g}"
            )
            rows.append(
                [
                    X.ids[i],
                    _predicted(self, int(i)),
                    stop - start,
                    instance_name(X, start + key),
                    f"{scores[start + key]:.3g}",
                    dots(scores[start:stop], low, high, label, chosen=key),
                ]
            )
        what = f"{_ABOUT[self.method]}{for_class(self.pos_label)}"
        header = ["bag", "predicted", "instances", "key instance", "its score"]
        axis = f"instance scores, {low:.3g} to {high:.3g}"
        rest = table([*header, axis], rows, len(X) - N_HTML)
        title = Markup("<p><b>Explanation</b>: {:,} bags, {:,} instances; {}</p>{}")
        return str(title.format(len(X), X.n_instances, what, rest))

    def columns(self) -> dict[str, list[Any]]:
        """Return the table of instances by columns, as plain values.

        "bag", "instance" (position in the bag), "id", "type" and "x", "y", ... if the
        bags have them, "score", "rank" in the bag, "key", "bag_label" and "bag_score".

        Returns
        -------
        dict of str to list
            The columns by name.
        """
        X = self.X
        bag = X.bag_index
        place = np.arange(X.n_instances) - X.offsets[:-1][bag]
        order = np.lexsort((place, -np.asarray(self.scores), bag))
        rank = np.empty(X.n_instances, dtype=np.int64)
        rank[order] = place + 1
        found: dict[str, Any] = {"bag": X.ids[bag], "instance": place}
        if X.instance_ids is not None:
            found["id"] = X.instance_ids
        if X.instance_types is not None:
            found["type"] = X.instance_types
        if X.coords is not None:
            for k in range(X.coords.shape[1]):
                found["xyz"[k] if k < 3 else f"coord{k}"] = X.coords[:, k]
        found |= {
            "score": np.asarray(self.scores, dtype=np.float64),
            "rank": rank,
            "key": place == np.asarray(self.key)[bag],
            "bag_label": np.asarray(self.labels)[bag],
        }
        if self.bag_scores is not None and np.ndim(self.bag_scores) == 1:
            found["bag_score"] = np.asarray(self.bag_scores)[bag]
        return {name: np.asarray(values).tolist() for name, values in found.items()}

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict per instance, with the columns of `columns`.

        Returns
        -------
        list of dict
            The rows of the table.
        """
        columns = self.columns()
        names = list(columns)
        return [
            dict(zip(names, line, strict=True))
            for line in zip(*columns.values(), strict=True)
        ]

    def to_frame(self, backend: str = "pandas") -> Any:
        """Return the table of instances as a data frame.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, default="pandas"
            Library of the data frame.

        Returns
        -------
        data frame
            One row per instance.
        """
        import narwhals.stable.v1 as nw

        if backend not in ("pandas", "polars", "pyarrow"):
            raise ValueError(
                f"backend must be pandas, polars or pyarrow, got {backend!r}."
            )
        return nw.to_native(nw.from_dict(self.columns(), backend=backend))

    def to_csv(self, path: str | os.PathLike[str], *, escape: bool = True) -> Path:
        """Write the table of instances as CSV.

        Parameters
        ----------
        path : path
            The file.
        escape : bool, default=True
            Whether text that a spreadsheet would take for a formula (it begins with
            ``=``, ``+``, ``-`` or ``@``) gets an apostrophe in front.

        Returns
        -------
        Path
            The file.
        """
        path = Path(path)
        columns = self.columns()
        with path.open("w", newline="", encoding="utf-8") as file:
            rows = zip(*columns.values(), strict=True)
            write_csv(file, columns, rows, escape=escape)
        return path

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return bags with their instances as JSON, and optionally write a file.

        Parameters
        ----------
        path : path, default=None
            File to write.

        Returns
        -------
        str
            JSON.
        """
        bags: dict[int, dict[str, Any]] = {}
        for i, row in zip(self.X.bag_index.tolist(), self.rows(), strict=True):
            about = {name: row.pop(name, None) for name in ("bag_label", "bag_score")}
            entry = {"bag": row.pop("bag"), **about, "instances": []}
            bags.setdefault(i, entry)["instances"].append(row)
        label = self.pos_label
        whole = {
            "method": self.method,
            "pos_label": None if label is None else np.asarray(label).tolist(),
            "threshold": self.threshold,
            "bags": list(bags.values()),
        }
        text = json.dumps(whole, default=str)  # ids may be dates
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def top_features(self, row: int, n: int = 6) -> list[tuple[str, float, float]]:
        """Return name, value and z-score of the most unusual features of an instance.

        Parameters
        ----------
        row : int
            Row of ``X.data``.
        n : int, default=6
            Number of features.

        Returns
        -------
        list of (str, float, float)
            The features, the most unusual one first.
        """
        if "moments" not in self._cache:
            self._cache["moments"] = moments(self.X)
        return top_features(self.X, row, n, *self._cache["moments"])

    def write(
        self,
        folder: str | os.PathLike[str],
        n_bags: int = 8,
        *,
        escape: bool = True,
        format: str = "png",
    ) -> dict[str, Path]:
        """Write tables and a plot of the key instances into a folder.

        `instances.csv`, `instances.json`, `key_instances.png`; if bags have two
        coordinates, a heat map and a GeoJSON file of every bag in the folders
        `heatmaps` and `geojson`; for a stack, `members.csv`, the contribution of each
        member to the score of each bag.

        Parameters
        ----------
        folder : path
            Folder for the files; created if missing.
        n_bags : int, default=8
            Number of bags in the plot.
        escape : bool, default=True
            As in `to_csv`.
        format : {"png", "pdf", "svg"}, default="png"
            Format of plots.

        Returns
        -------
        dict of str to Path
            The files and folders by kind.
        """
        if format not in FORMATS:
            raise ValueError(f"format must be png, pdf or svg, got {format!r}.")
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        found = {"instances": self.to_csv(folder / "instances.csv", escape=escape)}
        found["json"] = folder / "instances.json"
        self.to_json(found["json"])
        found["picture"] = folder / f"key_instances.{format}"
        save_figure(self.plot(n_bags), found["picture"])
        if self.members is not None:
            found["members"] = folder / "members.csv"
            table = {"bag": self.X.ids.tolist(), **self.members.to_dict()}
            with found["members"].open("w", newline="", encoding="utf-8") as file:
                table["score"] = self.members.scores.tolist()
                rows = zip(*table.values(), strict=True)
                write_csv(file, table, rows, escape=escape)
        if self.X.coords is not None and self.X.coords.shape[1] > 1:
            found |= self._write_maps(folder, format)
        return found

    def _write_maps(self, folder: Path, format: str) -> dict[str, Path]:
        """Write a heat map and a GeoJSON file of every bag."""
        found = {"heatmaps": folder / "heatmaps", "geojson": folder / "geojson"}
        for path in found.values():
            path.mkdir(exist_ok=True)
        for bag, name in enumerate(file_names(self.X.ids)):
            figure = self.plot_heatmap(bag).figure
            save_figure(figure, found["heatmaps"] / f"{name}.{format}")
            self.to_geojson(bag, path=found["geojson"] / f"{name}.geojson")
        return found

    def _order(self) -> Any:
        """Return the positions of the bags, highest score first."""
        if self.bag_scores is None or np.ndim(self.bag_scores) != 1:
            return np.arange(len(self.X))
        return np.argsort(-np.asarray(self.bag_scores), kind="stable")

    def plot(self, n_bags: int = 8, n_instances: int = 8) -> Any:
        """Plot the highest instances of the bags with the highest scores.

        Parameters
        ----------
        n_bags, n_instances : int, default=8
            Maximum number of bags, and of instances per bag.

        Returns
        -------
        matplotlib.figure.Figure
            The figure.
        """
        X, order = self.X, self._order()[:n_bags]
        return plot_bags(
            X,
            self.scores,
            order,
            images=self.images,
            n_instances=n_instances,
            titles=[
                f"bag {plot_text(X.ids[i], 30)}\n"
                f"predicted {plot_text(_predicted(self, int(i)), 30)}"
                for i in order
            ],
            contributions=self._shown_parts(order, n_instances),
            about=f"{_ABOUT[self.method]}{for_class(self.pos_label)}",
        )

    def _shown_parts(self, bags: Any, n_instances: int) -> Any:
        """Return contributions to the scores of shown instances, sampled if needed."""
        model, X = self._cache.get("model"), self.X
        if self.contributions is not None or model is None or self.images is not None:
            return self.contributions
        return sampled_parts(model, X, self.scores, bags, n_instances, self.pos_label)

    def plot_heatmap(self, bag: Any, size: float | None = None, ax: Any = None) -> Any:
        """Plot the scores of one bag at the coordinates of its instances.

        The middle color is the threshold. All bags have the same colors: each side of
        the threshold ends at the score that 1% of its instances exceed.

        Parameters
        ----------
        bag : int or id
            Its position in `X`, or its id.
        size : float, default=None
            Side of an instance; see :func:`bagwise.inspection.plot_heatmap`.
        ax : matplotlib axes, optional
            Axes to plot on.

        Returns
        -------
        matplotlib axes
            The axes.
        """
        bag = bag_position(self.X, bag)
        rows = self._rows_of(bag)
        label = _predicted(self, bag)
        title = plot_text(f"bag {self.X.ids[bag]}: predicted {label}", 60)
        what = f"instance score{for_class(self.pos_label)}"
        if self.threshold is not None:
            what += f" (threshold {self.threshold:.3g})"
        return plot_heatmap(
            self.scores[rows],
            self.X.coords[rows],
            size,
            ax=ax,
            center=self.threshold,
            limits=self._limits(),
            title=title,
            label=what,
        )

    def _limits(self) -> tuple[float, float]:
        """Return the scores of the outer colors."""
        if "limits" not in self._cache:
            scores, middle = np.asarray(self.scores), self.threshold
            if middle is None:
                middle = float(np.median(scores))
            below, above = scores[scores < middle], scores[scores > middle]
            low = np.quantile(below, OUTER) if below.size else middle
            high = np.quantile(above, 1 - OUTER) if above.size else middle
            self._cache["limits"] = float(low), float(high)
        return self._cache["limits"]  # type: ignore[no-any-return]

    def to_geojson(
        self,
        bag: Any,
        size: float | None = None,
        path: str | os.PathLike[str] | None = None,
    ) -> dict[str, Any]:
        """Return the instances of one bag as squares for QuPath.

        Parameters
        ----------
        bag : int or id
            Its position in `X`, or its id.
        size : float, default=None
            Side of an instance.
        path : path, optional
            File to write.

        Returns
        -------
        dict
            A GeoJSON feature collection.
        """
        rows = self._rows_of(bag_position(self.X, bag))
        ids = self.X.instance_ids
        return to_geojson(
            self.scores[rows],
            self.X.coords[rows],
            size,
            path=path,
            ids=None if ids is None else ids[rows],
            threshold=0.0 if self.threshold is None else self.threshold,
        )

    def _rows_of(self, bag: int) -> slice:
        if self.X.coords is None:
            raise ValueError(
                "the bags have no coordinates: pass coords= to Bags, or to the "
                "function that reads the table."
            )
        return slice(int(self.X.offsets[bag]), int(self.X.offsets[bag + 1]))


_ABOUT = {
    "native": "instance score of the model",
    "single": "score of a bag with this instance only",
    "leave_out": "decrease of the bag score without the instance",
    "add_to": "increase of the score of a reference bag with the instance",
}


def _predicted(found: Explanation, i: int) -> str:
    label = found.labels[i]
    text = f"{label:.3g}" if isinstance(label, float | np.floating) else str(label)
    if found.bag_scores is None or np.ndim(found.bag_scores) != 1:
        return text
    return f"{text} (score {found.bag_scores[i]:.3g})"


def explain(
    model: Any,
    X: Any,
    *,
    method: str = "auto",
    pos_label: Any = None,
    images: Any = None,
) -> Explanation:
    """Score the instances of bags with a fitted model.

    Parameters
    ----------
    model : estimator
        A fitted classifier or regressor of bags, or a pipeline of one.
    X : Bags or list of 2-D arrays
        The bags.
    method : {"auto", "native", "single", "leave_out", "add_to"}, default="auto"
        How instances are scored, see `instance_importance`. "auto" uses the model's
        own scores, or "single" if it has none.
    pos_label : label, default=None
        Class for which scores are high. By default the positive class of two classes;
        with more classes, the predicted class of each bag.
    images : array, path or list of paths, optional
        Images of the instances: an array of shape (n_instances, height, width[, 3]),
        a `.npy` or `.npz` file, a folder with files named after the instance ids, or a
        list of files.

    Returns
    -------
    Explanation
        Scores, key instances, tables and plots.
    """
    if method not in ("auto", *IMPORTANCE_METHODS):
        known = ", ".join(("auto", *IMPORTANCE_METHODS))
        raise ValueError(f"unknown method {method!r}; choose one of {known}.")
    X = bags_for(model, X)
    images = as_images(images, X)
    scored = instance_scores(model, X[:1]) is not None
    if method == "auto":
        method = "native" if scored else "single"
    positive_class(model, pos_label)  # raises for an unfitted model or an unknown label
    labels = np.asarray(model.predict(X))
    if labels.ndim == 2 and pos_label is None:
        what = "values" if predicts_values(model) else "labels"
        found = f"the model predicts {labels.shape[1]} {what} per bag"
        raise needs_one_column(model, found)
    found = instance_importance(model, X, method, pos_label=pos_label)
    scores = np.asarray(found.values, dtype=float)
    whole = bag_scores(model, X, pos_label)
    if scores.ndim == 2:  # the column of the predicted class of each bag
        column = np.searchsorted(model.classes_, labels)
        scores = scores[np.arange(len(scores)), column[X.bag_index]]
    key = segment_argmax(scores, X.offsets) - X.offsets[:-1]
    parts = None
    own = pos_label is None or positive_class(model) == positive_class(model, pos_label)
    if method == "native" and images is None and X.n_features <= MOST_PROBES:
        if own and labels.ndim == 1:
            parts = linear_contributions(model, X)
    members = None
    if whole.ndim == 1:
        members = member_contributions(model, X, pos_label=pos_label)
    label = scored_class(model, pos_label)
    made = Explanation(
        X, scores, labels, whole, key, images, method, parts, members, label
    )
    made.threshold = score_threshold(
        model, method, scores[key + X.offsets[:-1]], labels, label
    )
    if scored if method == "native" else method == "single" and not scored:
        few = X.n_features <= MOST_SAMPLED and not X.is_sparse and not X.codings
        if few and labels.ndim == 1 and (label is not None or predicts_values(model)):
            made._cache["model"] = model
    return made
