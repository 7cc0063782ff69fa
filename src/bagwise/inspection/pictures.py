"""Plots of bags and of features, the names in them, and images of instances."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bagwise.inspection.contributions import FeatureContributions
from bagwise.inspection.features import moments, top_features
from bagwise.inspection.scores import bag_position

__all__ = [
    "as_images",
    "for_class",
    "instance_name",
    "plot_bag_contributions",
    "plot_bags",
    "plot_feature_importance",
    "plot_text",
    "save_figure",
]

UP, DOWN, KNOWN, PLAIN = "#d9480f", "#1c7ed6", "#d9480f", "#c8c8c8"
N_BARS = 4  # features of one instance
MOST_BYTES = 200_000_000  # of all images from files
LARGEST, SMALLEST = 128, 16  # limits on the side of an image from a file, in pixels
KINDS = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".gif", ".webp")


def instance_name(X: Any, row: int) -> str:
    """Return the id of an instance, or ``#`` and its position in its bag.

    Parameters
    ----------
    X : Bags
        The bags.
    row : int
        Row of ``X.data``.
    """
    if X.instance_ids is not None:
        return str(X.instance_ids[row])
    place = row - int(X.offsets[np.searchsorted(X.offsets, row, side="right") - 1])
    return f"#{place}"


def _shorten(name: str, length: int = 24) -> str:
    """Truncate a name with an ellipsis."""
    return name if len(name) <= length else name[: length - 1] + "…"


def plot_text(name: Any, length: int | None = None) -> str:
    """Return a name for a plot: on one line, with escaped dollar signs.

    matplotlib parses text between two dollar signs as a formula.

    Parameters
    ----------
    name : object
        Name of a bag, an instance, a feature, a class or a method.
    length : int, default=None
        Maximum number of characters.
    """
    text = " ".join(str(name).split())
    return (text if length is None else _shorten(text, length)).replace("$", r"\$")


def for_class(label: Any) -> str:
    """Return " for class LABEL" for the label of a score; empty if it is None."""
    return "" if label is None else f" for class {plot_text(label, 24)}"


def save_figure(figure: Any, path: Path, dpi: int = 120) -> None:
    """Write a figure; text of PDF and SVG files stays text."""
    import matplotlib as mpl

    kept = {"pdf.fonttype": 42, "svg.fonttype": "none", "svg.hashsalt": "bagwise"}
    known = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    with mpl.rc_context(kept):
        figure.savefig(path, dpi=dpi, metadata=known.get(path.suffix.lower()))


def plot_bags(
    X: Any,
    scores: Any,
    bags: Any,
    *,
    images: Any = None,
    instance_labels: Any = None,
    n_instances: int = 8,
    titles: Any = None,
    contributions: Any = None,
    about: str = "score",
) -> Any:
    """Plot one row per bag, with its instances from the highest score to the lowest.

    Parameters
    ----------
    X : Bags
        The bags.
    scores : ndarray of shape (n_instances,)
        Scores of all instances of `X`.
    bags : array-like of int
        Positions of the bags to plot.
    images : ndarray of shape (n_instances, height, width[, 3]), optional
        Images of the instances; by default features are plotted.
    instance_labels : ndarray of shape (n_instances,), optional
        Truly positive instances get a colored frame.
    n_instances : int, default=8
        Maximum number of instances per bag.
    titles : list of str, optional
        One title per bag.
    contributions : FeatureContributions, optional
        Contributions to the scores; the largest are plotted as bars. By default the
        features that are furthest from their mean, in standard deviations.
    about : str, default="score"
        Description of the number above an instance.

    Returns
    -------
    matplotlib.figure.Figure
        The figure (not shown, not tied to pyplot).
    """
    from matplotlib.figure import Figure

    bags = [int(i) for i in bags]
    columns = int(min(n_instances, max(X.sizes[i] for i in bags)))
    width = 1.15 if images is not None else 2.1
    head, foot = 0.4, 0.35 if images is None or instance_labels is not None else 0.1
    size = (max(width * columns + 1.8, 5.0), 1.5 * len(bags) + head + foot)
    figure = Figure(figsize=size)
    axes = figure.subplots(len(bags), columns, squeeze=False)
    moment = moments(X) if images is None and contributions is None else None
    low, high = (np.min(images), np.max(images)) if images is not None else (0, 1)
    panels: list[Any] = []
    for line, i in enumerate(bags):
        start, stop = int(X.offsets[i]), int(X.offsets[i + 1])
        order = start + np.argsort(-np.asarray(scores[start:stop]), kind="stable")
        for place, ax in enumerate(axes[line]):
            ax.set_yticks([])
            if place >= len(order):
                ax.axis("off")
                continue
            row = int(order[place])
            if images is not None:
                ax.set_xticks([])
                ax.imshow(images[row], cmap="gray_r", vmin=low, vmax=high)
            else:
                _plot_bars(ax, *_bars(X, row, contributions, moment))
                panels.append(ax)
            known = instance_labels is not None and bool(instance_labels[row])
            for side in ax.spines.values():
                side.set_color(KNOWN if known else PLAIN)
                side.set_linewidth(2.4 if known else 0.8)
            name = plot_text(instance_name(X, row), 10 if images is not None else 20)
            ax.set_title(f"{name}: {scores[row]:.2f}", fontsize=7, pad=3)
        if titles is not None:
            axes[line, 0].set_ylabel(
                titles[line],
                rotation=0,
                ha="right",
                va="center",
                fontsize=8,
                labelpad=6,
            )
    bound = max((np.abs(ax.get_xlim()).max() for ax in panels), default=1.0)
    for ax in panels:  # a common scale
        ax.set_xlim(-bound, bound)
    figure.suptitle(
        f"Instances with the highest scores ({about})", fontsize=10, x=0.01, ha="left"
    )
    _legend(figure, images, contributions, instance_labels)
    # Explicit margins: a layout engine takes seconds for many panels.
    longest = max((len(s) for t in titles or () for s in t.split("\n")), default=0)
    figure.subplots_adjust(
        left=(0.2 + 0.07 * longest) / size[0],
        right=1 - 0.1 / size[0],
        bottom=(foot + 0.15) / size[1],
        top=1 - (head + 0.2) / size[1],
        wspace=0.08,
        hspace=0.45 if images is None else 0.3,
    )
    return figure


def _bars(
    X: Any, row: int, contributions: Any, moment: Any
) -> tuple[list[str], list[float]]:
    if contributions is None:
        found = top_features(X, row, N_BARS, *moment)
        return [name for name, _, _ in found], [z for _, _, z in found]
    parts = contributions.values[row]
    first = np.argsort(-np.abs(parts), kind="stable")[:N_BARS]
    return [contributions.names[j] for j in first], [float(parts[j]) for j in first]


def _plot_bars(ax: Any, names: list[str], values: list[float]) -> None:
    names, values = names[::-1], values[::-1]
    ax.barh(range(len(values)), values, color=[UP if v >= 0 else DOWN for v in values])
    ax.axvline(0, color="#495057", linewidth=0.6)
    for place, (name, value) in enumerate(zip(names, values, strict=True)):
        side = "right" if value >= 0 else "left"
        ax.text(0, place, f" {plot_text(name, 14)} ", fontsize=6, va="center", ha=side)
    bound = max(1e-12, *np.abs(values)) * 1.1
    ax.set_xlim(-bound, bound)
    ax.tick_params(axis="x", labelsize=5, length=2, pad=1)
    ax.locator_params(axis="x", nbins=3)


def _legend(figure: Any, images: Any, contributions: Any, known: Any) -> None:
    """Add the meaning of colors, bars and frames."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    shown: list[Any] = []
    if images is None and contributions is not None:
        shown.append(Patch(color=UP, label="feature increases the score"))
        shown.append(Patch(color=DOWN, label="decreases it"))
    elif images is None:
        what = "the mean over all instances (axis: standard deviations)"
        shown.append(Patch(color=UP, label="feature above"))
        shown.append(Patch(color=DOWN, label=f"below {what}"))
    if known is not None:
        frame = {"marker": "s", "linestyle": "", "fillstyle": "none"}
        shown.append(
            Line2D([], [], color=KNOWN, label="truly positive instance", **frame)
        )
    if shown:
        figure.legend(
            handles=shown, loc="lower left", ncols=len(shown), fontsize=7, frameon=False
        )


def plot_feature_importance(found: Any, n: int = 15, ax: Any = None) -> Any:
    """Plot the most important features over all bags as bars.

    Parameters
    ----------
    found : Bunch or FeatureContributions
        Result of `bag_permutation_importance` (error bars: standard deviation over the
        repeats) or of `feature_contributions` (mean absolute contributions).
    n : int, default=15
        Maximum number of bars.
    ax : matplotlib axes, optional
        Axes to plot on.

    Returns
    -------
    matplotlib axes
        The axes, of a figure that is not tied to pyplot when `ax` was not given.
    """
    if isinstance(found, FeatureContributions):
        mean, spread = found.mean_absolute(), None
        text = f"mean absolute contribution to the {found.level} score"
        text += for_class(found.pos_label)
    else:
        mean, spread = found.importances_mean, found.importances_std
        text = (
            "decrease of the score when the feature is permuted\n"
            "(error bars: standard deviation over repeats)"
        )
    first = np.argsort(-mean, kind="stable")[:n][::-1]
    ax = _axes(ax, (6.0, 0.6 + 0.28 * len(first)))
    ax.barh(
        range(len(first)),
        mean[first],
        xerr=None if spread is None else spread[first],
        color=DOWN,
        error_kw={"ecolor": "#495057", "elinewidth": 1.0},
    )
    ax.set_yticks(range(len(first)), [plot_text(found.names[j], 24) for j in first])
    ax.axvline(0, color="#495057", linewidth=0.8)
    ax.set_xlabel(text)
    ax.set_title("Feature importance", fontsize=10)
    ax.tick_params(labelsize=8)
    return ax


def plot_bag_contributions(
    found: FeatureContributions,
    bag: Any,
    *,
    n_features: int = 8,
    n_instances: int = 12,
    ax: Any = None,
) -> Any:
    """Plot the contributions of features in one bag, instance by instance.

    Parameters
    ----------
    found : FeatureContributions
        Contributions to instance scores, or to bag scores (then one bar per feature).
    bag : int or id
        Its position in ``found.X``, or its id.
    n_features, n_instances : int, default=8 and 12
        Number of features with the largest contributions, and of instances with the
        highest scores.
    ax : matplotlib axes, optional
        Axes to plot on.

    Returns
    -------
    matplotlib axes
        The axes.
    """
    X = found.X
    bag = bag_position(X, bag)
    rows = found.of_bag(bag)
    title = f"bag {plot_text(X.ids[bag], 40)}"
    suffix = for_class(found.pos_label)
    if found.level == "bag":
        order = np.argsort(-np.abs(rows[0]), kind="stable")[:n_features][::-1]
        ax = _axes(ax, (6.0, 0.8 + 0.28 * len(order)))
        parts = rows[0][order]
        ax.barh(range(len(order)), parts, color=[UP if v > 0 else DOWN for v in parts])
        ax.set_yticks(range(len(order)), [plot_text(found.names[j], 24) for j in order])
        ax.axvline(0, color="#495057", linewidth=0.8)
        ax.set_xlabel(f"contribution to the bag score{suffix}")
        ax.set_title(f"{title}: score {found.scores[bag]:.3g}", fontsize=10)
        ax.tick_params(labelsize=8)
        return ax
    start = int(X.offsets[bag])
    scores = found.scores[start : start + len(rows)]
    top = np.argsort(-scores, kind="stable")[:n_instances]
    size = np.abs(rows[top]).max(axis=0)
    kept = np.argsort(-size, kind="stable")[:n_features]
    table = rows[np.ix_(top, kept)].T
    ax = _axes(ax, (1.8 + 0.5 * len(top), 1.4 + 0.3 * len(kept)))
    bound = float(np.abs(table).max()) or 1.0
    image = ax.imshow(table, cmap="coolwarm", vmin=-bound, vmax=bound, aspect="auto")
    ax.set_yticks(range(len(kept)), [plot_text(found.names[j], 24) for j in kept])
    names = [instance_name(X, start + int(j)) for j in top]
    ax.set_xticks(range(len(top)), [plot_text(n, 12) for n in names], rotation=45)
    ax.set_xlabel("instances, highest score first")
    ax.set_title(f"{title}: contributions to instance scores", fontsize=10)
    ax.tick_params(labelsize=8)
    ax.figure.colorbar(image, ax=ax, label=f"contribution to the score{suffix}")
    return ax


def _axes(ax: Any, size: tuple[float, float]) -> Any:
    if ax is not None:
        return ax
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout="tight").subplots()


def as_images(images: Any, X: Any) -> NDArray[Any] | None:
    """Return one image per instance.

    Parameters
    ----------
    images : array, path, list of paths or None
        One of

        - an array of shape (n_instances, height, width[, 3]), in the order of
          ``X.data``;
        - a ``.npy`` file with such an array, or a ``.npz`` file with one called
          "images" (or with one array only);
        - a list of image files, one per instance;
        - a folder with an image for each of ``X.instance_ids``, named after it.
    X : Bags
        The bags.

    Returns
    -------
    ndarray or None
        Images from files are shrunk, and padded to squares of 8-bit colors.
    """
    if images is None:
        return None
    if isinstance(images, str | os.PathLike):
        path = Path(images)
        if path.is_dir():
            return _read(_in_folder(path, X))
        images = _from_array_file(path)
    if isinstance(images, np.ndarray) and images.dtype.kind not in "OUS":
        return _checked(images, X)
    listed = [Path(one) for one in images]
    if len(listed) != X.n_instances:
        raise ValueError(
            f"images lists {len(listed)} files for {X.n_instances} instances."
        )
    return _read(listed)


def _checked(images: NDArray[Any], X: Any) -> NDArray[Any]:
    if images.ndim not in (3, 4) or (
        images.ndim == 4 and images.shape[3] not in (3, 4)
    ):
        raise ValueError(
            "images must have shape (n_instances, height, width) or, in color, (..., "
            f"3), got {images.shape}."
        )
    if len(images) != X.n_instances:
        raise ValueError(
            f"images has {len(images)} entries for {X.n_instances} instances."
        )
    return images[..., :3] if images.ndim == 4 else images


def _from_array_file(path: Path) -> NDArray[Any]:
    if not path.exists():
        raise FileNotFoundError(f"there is no file or folder of images at {path}.")
    if path.suffix == ".npy":
        return np.asarray(np.load(path, allow_pickle=False))
    if path.suffix != ".npz":
        raise ValueError(
            f"{path.name} is not an array file: pass .npy, .npz, a folder, or a list "
            "of image files."
        )
    with np.load(path, allow_pickle=False) as stored:
        names = list(stored)
        name = "images" if "images" in names else names[0]
        if name != "images" and len(names) > 1:
            raise ValueError(
                f"{path.name} holds {', '.join(names)}: name one of them images."
            )
        return np.asarray(stored[name])


def _in_folder(folder: Path, X: Any) -> list[Path]:
    if X.instance_ids is None:
        raise ValueError(
            f"the images in {folder} are matched by instance ids, which the bags lack: "
            "pass instance_id=, a column of the table, or instance_ids= to Bags."
        )
    known = {
        key: path
        for path in sorted(folder.iterdir())
        if path.suffix.lower() in KINDS
        for key in (path.name, path.stem)
    }
    names = [str(one) for one in X.instance_ids]
    missing = [name for name in names if name not in known]
    if missing:
        raise FileNotFoundError(
            f"{folder} has no image for {len(missing)} of {len(names)} instances, for "
            f"example {missing[0]!r}."
        )
    return [known[name] for name in names]


def _read(paths: list[Path]) -> NDArray[np.uint8]:
    """Read image files, shrunk so that all fit in memory together."""
    from PIL import Image  # a dependency of matplotlib

    room = int(np.sqrt(MOST_BYTES / (3 * max(1, len(paths)))))
    side = int(np.clip(room, SMALLEST, LARGEST))
    made = np.full((len(paths), side, side, 3), 255, dtype=np.uint8)
    largest = 1
    for k, path in enumerate(paths):
        try:
            with Image.open(path) as opened:
                picture = opened.convert("RGB")
        except OSError as error:
            raise ValueError(f"{path} cannot be read as an image: {error}") from None
        picture.thumbnail((side, side))
        width, height = picture.size
        largest = max(largest, width, height)
        top, left = (side - height) // 2, (side - width) // 2
        made[k, top : top + height, left : left + width] = np.asarray(picture)
    spare = (side - largest) // 2  # no wide margins if all images are small
    return made[:, spare : side - spare, spare : side - spare]
