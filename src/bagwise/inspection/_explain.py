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
)
from bagwise.inspection.scores import (
    bag_position,
    bag_scores,
    bags_for,
    instance_scores,
    positive_class,
    scored_class,
)
from bagwise.io.csv_files import write_csv

__all__ = ["Explanation", "explain"]

N_HTML = 10  # bags in a notebook
MOST_PROBES = 2_000  # features up to which linear contributions are computed


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
        self, folder: str | os.PathLike[str], n_bags: int = 8, *, escape: bool = True
    ) -> dict[str, Path]:
        """Write tables and a plot of the key instances into a folder.

        `instances.csv`, `instances.json`, `key_instances.png`; if bags have two
        coordinates, `heatmap.png` of the bag with the highest score; for a stack,
        `members.csv`, the contribution of each member to the score of each bag.

        Parameters
        ----------
        folder : path
            Folder for the files; created if missing.
        n_bags : int, default=8
            Number of bags in the plot.
        escape : bool, default=True
            As in `to_csv`.

        Returns
        -------
        dict of str to Path
            The files by kind.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        found = {"instances": self.to_csv(folder / "instances.csv", escape=escape)}
        found["json"] = folder / "instances.json"
        self.to_json(found["json"])
        found["picture"] = folder / "key_instances.png"
        self.plot(n_bags).savefig(found["picture"], dpi=120)
        if self.members is not None:
            found["members"] = folder / "members.csv"
            table = {"bag": self.X.ids.tolist(), **self.members.to_dict()}
            with found["members"].open("w", newline="", encoding="utf-8") as file:
                table["score"] = self.members.scores.tolist()
                rows = zip(*table.values(), strict=True)
                write_csv(file, table, rows, escape=escape)
        if self.X.coords is not None and self.X.coords.shape[1] > 1:
            found["heatmap"] = folder / "heatmap.png"
            ax = self.plot_heatmap(int(self._order()[0]))
            ax.figure.savefig(found["heatmap"], dpi=120)
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
            contributions=self.contributions,
            about=f"{_ABOUT[self.method]}{for_class(self.pos_label)}",
        )

    def plot_heatmap(self, bag: Any, size: float | None = None, ax: Any = None) -> Any:
        """Plot the scores of one bag at the coordinates of its instances.

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
        return plot_heatmap(
            self.scores[rows],
            self.X.coords[rows],
            size,
            ax=ax,
            title=title,
            label=f"instance score{for_class(self.pos_label)}",
        )

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
    if method == "auto":
        scored = instance_scores(model, X[:1]) is not None
        method = "native" if scored else "single"
    positive_class(model, pos_label)  # raises for an unfitted model or an unknown label
    labels = np.asarray(model.predict(X))
    if labels.ndim == 2 and pos_label is None:
        raise ValueError(
            f"the model predicts {labels.shape[1]} labels per bag: pass one of "
            f"{np.asarray(model.classes_).tolist()} as pos_label."
        )
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
    return Explanation(
        X, scores, labels, whole, key, images, method, parts, members, label
    )
