"""Which instances made a bag positive: scores, ranks, features and pictures."""

from __future__ import annotations

import csv
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bagwise.bags import Bags, as_bags
from bagwise.bags.segments import segment_argmax
from bagwise.inspection._contributions import (
    FeatureContributions,
    linear_contributions,
)
from bagwise.inspection._images import as_images
from bagwise.inspection._importance import IMPORTANCE_METHODS, instance_importance
from bagwise.inspection._instances import instance_scores
from bagwise.inspection._members import MemberContributions, member_contributions
from bagwise.inspection.features import moments, top_features
from bagwise.inspection.heatmap import plot_heatmap, to_geojson
from bagwise.inspection.names import as_drawn, for_class
from bagwise.inspection.pictures import plot_bags
from bagwise.inspection.scores import (
    bag_scores,
    positive_class,
    spoken_for,
)

__all__ = ["Explanation", "explain"]

MOST_PROBES = 2_000  # features up to which parts of linear scores are looked for


@dataclass(eq=False)
class Explanation:
    """Instance scores of some bags, and what can be shown of them.

    Attributes
    ----------
    X : Bags
        The bags.
    scores : ndarray of shape (n_instances,)
        Higher is more positive, or more of the predicted class of several.
    labels : ndarray of shape (n_bags,)
        Predicted labels, or values.
    bag_scores : ndarray of shape (n_bags,), (n_bags, n_classes) or None
        Scores of the bags.
    key : ndarray of shape (n_bags,)
        Position in its bag of the highest instance.
    images : ndarray or None
        Pictures of the instances.
    method : str
        How the scores were found, see `instance_importance`.
    contributions : FeatureContributions or None
        Exact parts of the scores by feature, where scores are linear.
    members : MemberContributions or None
        Exact parts of the scores of bags by member, where the model is a stack.
    pos_label : label or None
        The class that high scores speak for; None where that is the predicted one of
        several, or a value.
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

    def columns(self) -> dict[str, list[Any]]:
        """Return the table of instances by columns: plain values.

        "bag", "instance" (position in the bag), "id" and "x", "y", ... where the bags
        know them, "score", "rank" in the bag, "key", "bag_label" and "bag_score".
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
        """Return one entry an instance: what `columns` has, row by row."""
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
            The library of the table.
        """
        import narwhals.stable.v1 as nw

        if backend not in ("pandas", "polars", "pyarrow"):
            raise ValueError(
                f"backend must be pandas, polars or pyarrow, got {backend!r}."
            )
        return nw.to_native(nw.from_dict(self.columns(), backend=backend))

    def to_csv(self, path: str | os.PathLike[str]) -> Path:
        """Write the table of instances as CSV.

        Parameters
        ----------
        path : path
            The file.

        Returns
        -------
        Path
            The file.
        """
        path = Path(path)
        columns = self.columns()
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))
        return path

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return bags with their instances as JSON, and write it when asked to.

        Parameters
        ----------
        path : path, default=None
            A file to write, too.

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
        text = json.dumps(whole, default=str)  # names may be dates, and the like
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def top_features(self, row: int, n: int = 6) -> list[tuple[str, float, float]]:
        """Return name, value and z-score of the features that set an instance apart.

        Parameters
        ----------
        row : int
            Row of ``X.data``.
        n : int, default=6
            How many.
        """
        if "moments" not in self._cache:
            self._cache["moments"] = moments(self.X)
        return top_features(self.X, row, n, *self._cache["moments"])

    def write(self, folder: str | os.PathLike[str], n_bags: int = 8) -> dict[str, Path]:
        """Write tables and a picture of the key instances into a folder.

        `instances.csv`, `instances.json`, `key_instances.png`; where bags have
        two coordinates, `heatmap.png` of the bag with the highest score; of a stack,
        `members.csv`, what each member adds to the score of each bag.

        Parameters
        ----------
        folder : path
            Where they go; it is made.
        n_bags : int, default=8
            Bags in the picture.

        Returns
        -------
        dict of str to Path
            What was written.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        found = {"instances": self.to_csv(folder / "instances.csv")}
        found["json"] = folder / "instances.json"
        self.to_json(found["json"])
        found["picture"] = folder / "key_instances.png"
        self.plot(n_bags).savefig(found["picture"], dpi=120)
        if self.members is not None:
            found["members"] = folder / "members.csv"
            table = {"bag": self.X.ids.tolist(), **self.members.to_dict()}
            with found["members"].open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow([*table, "score"])
                writer.writerows(
                    zip(*table.values(), self.members.scores.tolist(), strict=True)
                )
        if self.X.coords is not None and self.X.coords.shape[1] > 1:
            found["heatmap"] = folder / "heatmap.png"
            ax = self.plot_heatmap(int(self._order()[0]))
            ax.figure.savefig(found["heatmap"], dpi=120)
        return found

    def _order(self) -> Any:
        """Return the bags, the highest score first."""
        if self.bag_scores is None or np.ndim(self.bag_scores) != 1:
            return np.arange(len(self.X))
        return np.argsort(-np.asarray(self.bag_scores), kind="stable")

    def plot(self, n_bags: int = 8, n_instances: int = 8) -> Any:
        """Plot the highest instances of the bags with the highest scores.

        Parameters
        ----------
        n_bags, n_instances : int, default=8
            How many of each.

        Returns
        -------
        matplotlib.figure.Figure
            The picture.
        """
        X, order = self.X, self._order()[:n_bags]
        return plot_bags(
            X,
            self.scores,
            order,
            images=self.images,
            n_instances=n_instances,
            titles=[
                f"bag {as_drawn(X.ids[i], 30)}\n{as_drawn(_said(self, int(i)), 36)}"
                for i in order
            ],
            contributions=self.contributions,
            about=f"{_ABOUT[self.method]}{for_class(self.pos_label)}",
        )

    def plot_heatmap(self, bag: int, size: float | None = None, ax: Any = None) -> Any:
        """Draw the scores of one bag at the coordinates of its instances.

        Parameters
        ----------
        bag : int
            Which bag.
        size : float, default=None
            Side of an instance; see :func:`bagwise.inspection.plot_heatmap`.
        ax : matplotlib axes, optional
            Where to draw.
        """
        rows = self._rows_of(bag)
        title = as_drawn(f"bag {self.X.ids[bag]}: {_said(self, bag)}", 60)
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
        bag: int,
        size: float | None = None,
        path: str | os.PathLike[str] | None = None,
    ) -> dict[str, Any]:
        """Return the instances of one bag as squares for QuPath, and write them.

        Parameters
        ----------
        bag : int
            Which bag.
        size : float, default=None
            Side of an instance.
        path : path, optional
            Where to write the file.
        """
        rows = self._rows_of(bag)
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
                "the bags have no coordinates: pass coords to Bags, or name the columns"
                " of a table."
            )
        return slice(int(self.X.offsets[bag]), int(self.X.offsets[bag + 1]))


_ABOUT = {
    "native": "the model's own scores of instances",
    "single": "score of a bag that holds the instance alone",
    "leave_out": "drop of the bag's score without the instance",
    "add_to": "gain of a reference bag by the instance",
}


def _said(found: Explanation, i: int) -> str:
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
        How instances are scored, see `instance_importance`. "auto" takes the model's
        own scores, and "single" where it has none.
    pos_label : label, default=None
        Class that high scores speak for. By default the positive class of two; of more
        classes, for each bag the one that is predicted.
    images : array, path or list of paths, optional
        Pictures of the instances: an array of shape (n_instances, height, width[, 3]),
        a `.npy` or `.npz` file, a folder with files named after the instance ids, or a
        list of files.

    Returns
    -------
    Explanation
        Scores, key instances, tables and pictures.
    """
    if method not in ("auto", *IMPORTANCE_METHODS):
        known = ", ".join(("auto", *IMPORTANCE_METHODS))
        raise ValueError(f"unknown method {method!r}; choose one of {known}.")
    X = as_bags(X)
    images = as_images(images, X)
    if method == "auto":
        scored = instance_scores(model, X[:1]) is not None
        method = "native" if scored else "single"
    positive_class(model, pos_label)  # says what is wrong with a model or a label
    labels = np.asarray(model.predict(X))
    if labels.ndim == 2 and pos_label is None:
        raise ValueError(
            f"the model gives {labels.shape[1]} labels to a bag: name one of "
            f"{np.asarray(model.classes_).tolist()} as pos_label."
        )
    found = instance_importance(model, X, method, pos_label=pos_label)
    scores = np.asarray(found.values, dtype=float)
    whole = bag_scores(model, X, pos_label)
    if scores.ndim == 2:  # of each bag, the column of its predicted class
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
    speaks = spoken_for(model, pos_label)
    return Explanation(
        X, scores, labels, whole, key, images, method, parts, members, speaks
    )
