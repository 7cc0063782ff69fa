"""Parts of a data set on a cluster, and sums over them; no estimator is named here."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import cached_property
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from bagwise.bags import Bags, check_bags
from bagwise.bags.chunks import add
from bagwise.io import from_frame

_SMALL = 2**14  # bytes of an array that may be sent with each task


class Part(NamedTuple):
    """Whole bags with their labels and weights, all weights positive."""

    X: Bags
    y: Any
    weight: np.ndarray
    named: bool = False  # whether the ids of the bags are the user's own


@dataclass(frozen=True)
class Survey:
    """Sizes, columns and labels of a part, needed before any sum is computed."""

    n_features: int
    feature_names: Any
    n_bags: int
    n_instances: int
    labels: np.ndarray | None
    label_weights: np.ndarray | None
    ids: np.ndarray | None
    extra: Any


def import_dask():
    """Return dask, or raise an error that names the extra."""
    try:
        import dask
    except ImportError:
        raise ImportError(
            "bagwise.distributed needs dask: pip install 'bagwise[dask]'."
        ) from None
    return dask


class Partitions:
    """Bags in parts, read by the workers on every pass.

    A task reads one part, applies one function to it and returns a small result: a
    worker never holds more than the parts it is working on.

    Parameters
    ----------
    parts : dask DataFrame, dask Bag, or sequence
        As in `bagwise.distributed.fit`.
    bag, label, features
        Columns of a DataFrame.
    labeled : bool, default=True
        Whether a part without labels raises an error.
    """

    def __init__(self, parts, bag=None, label=None, features=None, *, labeled=True):
        self._dask = import_dask()
        if hasattr(parts, "to_delayed"):
            frame = hasattr(parts, "columns")
            if frame and (bag is None or (labeled and label is None)):
                raise ValueError("A DataFrame needs bag= and label=, its columns.")
            pieces = list(parts.to_delayed())
            how = (_read_frame, bag, label, features) if frame else (_read_pairs,)
        else:
            pieces, how = list(parts), (_read_tuple,)
        if not pieces:
            raise ValueError("There are no parts.")
        # What a task processes: the indices of some parts and the parts themselves.
        self._groups = [([number], [piece]) for number, piece in enumerate(pieces)]
        self.labeled = labeled
        self._reader = (how, labeled)
        self._steps = []

    def __len__(self):
        """Return the number of parts."""
        return sum(len(numbers) for numbers, _ in self._groups)

    def map(self, function, *shared):
        """Return the parts after ``function(part, *shared)``, which gives a part.

        Nothing is computed before a sum is asked for.
        """
        out = copy(self)
        out.__dict__.pop("sizes", None)
        out._steps = [*self._steps, (function, *shared)]
        return out

    def persist(self):
        """Return the parts, kept in the memory of the workers after the first read.

        A pass over parts in memory is short, and a task costs more than its
        computation: the parts of one thread are grouped into one task. dask runs a
        task where its data are, so every thread is assigned its own group; without
        this, dask may place all groups on one worker.
        """
        out = copy(self)
        call, places = self._dask.delayed(_prepare), _threads()
        width = _parts_per_task(len(self), len(places))
        groups = []
        for first in range(0, len(self._groups), width):
            some = self._groups[first : first + width]
            numbers = [number for own, _ in some for number in own]
            pieces = [piece for _, own in some for piece in own]
            where = {}
            if places:
                place = places[len(groups) % len(places)]
                where = {"workers": [place], "allow_other_workers": True}
            with self._dask.annotate(**where):
                task = call(numbers, pieces, self._reader, self._steps)
            groups.append((numbers, task))
        kept = self._dask.persist(*[pieces for _, pieces in groups])
        out._groups = [
            (numbers, pieces) for (numbers, _), pieces in zip(groups, kept, strict=True)
        ]
        out._reader, out._steps = None, []
        return out

    def each(self, function, *shared):
        """Return ``function(part, *shared)`` of every part, in their order."""
        return self._each(self._delayed(_list, function, shared))

    def _each(self, tasks):
        return [one for found in self._dask.compute(*tasks) for one in found]

    def sum(self, function, *shared, per_bag=None):
        """Return the sum of ``function(part, *shared)`` over the parts.

        With `per_bag`, an array over all bags, it is ``function(part, values,
        *shared)`` with the values of the part's own bags; needs a survey.

        The function must return numbers, arrays, objects with ``+``, or tuples of
        these. Parts are added in pairs: the order does not depend on which worker
        finishes first or on how parts are grouped, and few results are held at a time.
        """
        own = None
        if per_bag is not None:
            ends = np.cumsum([one.n_bags for one in self.surveys])[:-1]
            own = [(values,) for values in np.split(per_bag, ends)]
        plus = self._dask.delayed(add)
        items = self._delayed(_add_pairwise, function, shared, own=own)
        while len(items) > 1:
            pairs = zip(items[::2], items[1::2], strict=False)
            last = items[-1:] if len(items) % 2 else []
            items = [plus(a, b) for a, b in pairs] + last
        return items[0].compute()

    def _delayed(self, collect, function, shared, own=None, groups=None):
        """Return the tasks, one for each group of parts.

        A task gives ``collect`` of the results of its parts; `own` has what each part
        gets for itself.
        """
        call = self._dask.delayed(_apply)
        steps = self._steps
        if not (_is_small(steps) and _is_small(shared)):
            # One graph node for values that all parts share, instead of one copy per
            # part. For a few numbers, sending the node between workers takes too long.
            steps, shared = self._dask.delayed(steps), self._dask.delayed(shared)
        own = [()] * len(self) if own is None else own
        return [
            call(
                numbers,
                pieces,
                self._reader,
                steps,
                collect,
                function,
                [own[number] for number in numbers],
                shared,
            )
            for numbers, pieces in (self._groups if groups is None else groups)
        ]

    def survey(self, extra=None, *, labels=False):
        """Read every part once, and raise where parts do not belong together.

        Parameters
        ----------
        extra : callable, default=None
            Called with the part; its result is stored as `extra`.
        labels : bool, default=False
            Whether the labels and their weights are listed.
        """
        self.surveys = self.each(_survey, extra, labels)
        _check_surveys(self.surveys)
        return self.surveys

    @cached_property
    def sizes(self):
        """Number of instances of each part; needs a survey."""
        return [one.n_instances for one in self.surveys]

    def take(self, rows):
        """Gather instances by their row numbers in the concatenated parts."""
        ends = np.cumsum(self.sizes)
        own = []
        for size, end in zip(self.sizes, ends, strict=True):
            inside = (rows >= end - size) & (rows < end)
            own.append((rows[inside] - (end - size),))
        groups = [
            (numbers, pieces)
            for numbers, pieces in self._groups
            if any(own[number][0].size for number in numbers)
        ]
        found = self._each(self._delayed(_list, _rows, (), own, groups))
        stack = sp.vstack if sp.issparse(found[0]) else np.concatenate
        return stack(found)

    def survey_for(self, model, *, labels=False):
        """Read every part once, and set the features of an unfitted model."""
        self.survey(labels=labels)
        self.set_features(model)

    def set_features(self, model):
        """Set `n_features_in_` and `feature_names_in_`; needs a survey."""
        first = self.surveys[0]
        model.n_features_in_ = first.n_features
        if first.feature_names is not None:
            model.feature_names_in_ = np.asarray(first.feature_names, dtype=object)

    def gather(self, function, *shared):
        """Stack the rows that ``function(part, *shared)`` gives for each bag."""
        found = self.each(function, *shared)
        if sp.issparse(found[0]):
            return sp.vstack(found, format="csr")
        return np.concatenate([np.asarray(rows) for rows in found])

    def label_counts(self):
        """Return the labels of all parts and the summed weights of their bags."""
        names = ("labels", "label_weights")
        return [
            np.concatenate([getattr(one, name) for one in self.surveys])
            for name in names
        ]


def _list(values):
    return list(values)


def _apply(numbers, pieces, reader, steps, collect, function, own, shared):
    """Apply all steps and then the function to every part, one part at a time."""
    return collect(
        function(part, *mine, *shared)
        for part, mine in zip(_parts(numbers, pieces, reader, steps), own, strict=True)
    )


def _prepare(numbers, pieces, reader, steps):
    return list(_parts(numbers, pieces, reader, steps))


def _parts(numbers, pieces, reader, steps):
    for number, piece in zip(numbers, pieces, strict=True):
        part = piece if reader is None else _read(number, piece, *reader)
        for function, *shared in steps:
            part = function(part, *shared)
        yield part


def _read(number, piece, how, labeled):
    function, *options = how
    try:
        X, y, weight, named = function(piece, *options)
        X = check_bags(X, accept_sparse=True)
        y = None if y is None else np.asarray(y)
        if y is None and labeled:
            raise ValueError("there are no labels: give (X, y).")
        if y is not None and y.shape[:1] != (X.n_bags,):
            raise ValueError(f"y has shape {y.shape} for {X.n_bags} bags.")
        weight = np.ones(X.n_bags) if weight is None else np.asarray(weight, float)
        if weight.shape != (X.n_bags,) or (weight < 0).any():
            raise ValueError("sample_weight must be one number >= 0 for each bag.")
        if not weight.any():
            raise ValueError("no bag has a positive weight. Remove the part.")
    except (TypeError, ValueError) as error:
        raise type(error)(f"Part {number}: {error}") from None
    used = weight > 0
    if used.all():
        return Part(X, y, weight, named)
    return Part(X[used], None if y is None else y[used], weight[used], named)


def _read_frame(frame, bag, label, features):
    X, y = from_frame(frame, bag, label, features=features)
    return X, y, None, True


def _read_pairs(pairs):
    bags, labels = zip(*pairs, strict=True)
    return Bags.from_list(list(bags)), np.asarray(labels), None, False


def _read_tuple(part):
    named = getattr(part, "named", False)
    if callable(part):  # a reader: the data are read on the worker
        part = part()
    part = part if isinstance(part, (tuple, list)) else (part,)
    if len(part) > 3:
        raise ValueError(f"a part is (X, y, sample_weight), got {len(part)} items.")
    X, y, weight = (*part, None, None)[:3]
    return X, y, weight, named


def _survey(part, extra, labels):
    X = part.X
    found = weights = None
    if labels:
        found, codes = np.unique(part.y, return_inverse=True)
        weights = np.bincount(codes, weights=part.weight)
    return Survey(
        X.n_features,
        None if X.feature_names is None else list(X.feature_names),
        X.n_bags,
        X.n_instances,
        found,
        weights,
        X.ids if part.named else None,
        None if extra is None else extra(part),
    )


def _check_surveys(surveys):
    """Raise where parts differ in their columns or share a bag."""
    seen = {}
    for number, one in enumerate(surveys):
        for name in ("n_features", "feature_names"):
            value, wanted = getattr(one, name), getattr(surveys[0], name)
            if value != wanted:
                raise ValueError(
                    f"Part {number} has {name} {value}, part 0 has {wanted}."
                )
        for key in [] if one.ids is None else one.ids:
            if key in seen:
                raise ValueError(
                    f"Bag {key!s} is in parts {seen[key]} and {number}: partitions "
                    "must hold whole bags. Repartition by the bag column first."
                )
            seen[key] = number


def _rows(part, rows):
    return part.X.data[rows].astype(np.float64)


def labels_of(part):
    """Return the labels of a part."""
    return part.y


def weights_of(part):
    """Return the weights of the bags of a part."""
    return part.weight


def _threads():
    """Return the worker of every thread of the active cluster; empty without one."""
    try:
        from distributed import default_client

        found = default_client().nthreads()
    except (ImportError, ValueError):
        return []
    # The first thread of each worker comes before the second thread of any worker.
    rounds = range(max(found.values(), default=0))
    return [worker for k in rounds for worker in sorted(found) if found[worker] > k]


def _parts_per_task(n_parts, n_threads):
    """Return how many parts make a task, so that few tasks are shared evenly.

    A power of two: parts are added in pairs, and the order of additions must not
    depend on the grouping. No thread gets over 25% more than its share.
    """
    width = 1
    if not n_threads:
        return width
    even = -(-n_parts // n_threads)
    for wider in (2**k for k in range(1, n_parts.bit_length())):
        groups = -(-n_parts // wider)
        if wider * -(-groups // n_threads) <= 1.25 * even:
            width = wider
    return width


def _is_small(shared):
    """Return whether an argument is small enough to be sent with each task."""
    if isinstance(shared, np.ndarray):
        return shared.nbytes <= _SMALL and not shared.dtype.hasobject
    if isinstance(shared, (tuple, list)):
        return all(_is_small(one) for one in shared)
    if isinstance(shared, dict):
        return all(_is_small(one) for one in shared.values())
    plain = (bool, int, float, str, np.generic, FunctionType)
    return shared is None or isinstance(shared, plain)


def _add_pairwise(values):
    """Add values in the order of a balanced tree; hold few partial sums at a time."""
    sums = []  # (level in the tree, partial sum)
    for value in values:
        level = 0
        while sums and sums[-1][0] == level:
            value, level = add(sums.pop()[1], value), level + 1
        sums.append((level, value))
    total = sums.pop()[1]
    while sums:
        total = add(sums.pop()[1], total)
    return total
