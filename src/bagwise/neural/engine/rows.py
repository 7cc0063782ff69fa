"""Instances on the device or the host: standardized, streamed, taken by row number."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

# Fraction of the free memory for instances; the rest is for activations.
_SHARE = 0.5
# Number of values processed at once; a memory map larger than memory is read in pieces.
CHUNK_VALUES = 2**24


def free_memory(device, host_budget):
    """Return the bytes that are free on the device."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return host_budget


class Rows:
    """Standardized instances, taken by row number.

    They are put on the device once, in its precision, where that takes at most half of
    the free memory. Otherwise they stay where they are (a memory map, say): the rows of
    a step are collected on the host by a second thread while the device works on
    the step before.

    Parameters
    ----------
    data : array of shape (n_rows, width)
        The instances, on the host.
    mean, scale : arrays of shape (width,)
        What is taken off, and what the rest is divided by.
    device, dtype : torch.device, torch.dtype
        Where steps are computed, and in which precision.
    host_budget : float
        Bytes that may be taken on the host.
    say : callable
        Takes messages about memory.
    """

    def __init__(self, data, mean, scale, device, dtype, host_budget, say=None):
        self.device, self.dtype = device, dtype
        self.wide = torch.float64 if dtype == torch.float64 else torch.float32
        self.standardize = Standardize(mean, scale, device, self.wide)
        self.n_rows, self.width = data.shape
        need = float(self.n_rows) * self.width * torch.finfo(dtype).bits / 8
        free = free_memory(device, host_budget)
        self.resident = need <= _SHARE * free
        if say is not None:
            where = f"on {device}" if self.resident else "on the host, streamed"
            kind = str(dtype).removeprefix("torch.")
            say(
                f"{self.n_rows:,} instances x {self.width}: {need / 1e9:.2f} GB in "
                f"{kind}, {free / 1e9:.2f} GB free: {where}"
            )
        if self.resident:
            self.rows = torch.empty(self.n_rows, self.width, dtype=dtype, device=device)
            for part in chunks(self.n_rows, self.width):
                self.rows[part] = self._standardized(host_chunk(data, part))
        else:
            with warnings.catch_warnings():
                # The array is only read, so the warning does not matter.
                warnings.filterwarnings("ignore", message=".*not writable.*")
                self.host = torch.from_numpy(np.asarray(data))

    def _standardized(self, block):
        block = block.to(self.device, non_blocking=True)
        return self.standardize(block).to(self.dtype)

    def take(self, index):
        """Return the rows with these numbers."""
        if self.resident:
            return self.rows.index_select(0, index)
        return self._standardized(self._collect(index.cpu()))

    def _collect(self, index):
        if self.device.type != "cuda":
            return self.host[index]
        out = torch.empty(
            len(index), self.width, dtype=self.host.dtype, pin_memory=True
        )
        return torch.index_select(self.host, 0, index, out=out)

    def batches(self, index, cuts):
        """Give the rows of one step after the other; `cuts` are where steps begin."""
        if self.resident:
            for i in range(len(cuts) - 1):
                yield self.rows.index_select(0, index[cuts[i] : cuts[i + 1]])
            return
        index = index.cpu()
        parts = [index[cuts[i] : cuts[i + 1]] for i in range(len(cuts) - 1)]
        with ThreadPoolExecutor(1) as pool:
            ahead = pool.submit(self._collect, parts[0])
            for following in [*parts[1:], None]:
                block = ahead.result()
                if following is not None:
                    ahead = pool.submit(self._collect, following)
                yield self._standardized(block)


def row_index(order, offsets, most, generator, device):
    """Row numbers of bags in a given order, at most `most` drawn from each.

    Parameters
    ----------
    order : int array
        The bags.
    offsets : int array of shape (n_bags + 1,)
        Where they begin among the rows, on the host.
    most : int or None
        Most rows of a bag; None takes all.
    generator : torch.Generator
        Draws the rows without replacement.
    device : torch.device
        Where the numbers are wanted.

    Returns
    -------
    index : tensor
        Row numbers, bag after bag.
    sizes : int array
        How many of them each bag has.
    """
    taken = np.diff(offsets)[order]
    if most is not None:
        taken = np.minimum(taken, most)
    return drawn_rows(order, offsets, taken, generator, device)


def drawn_rows(order, offsets, taken, generator, device):
    """Row numbers of bags, of which a given number is drawn; see `row_index`.

    Parameters
    ----------
    order : int array
        The bags, of which some may appear more than once.
    offsets : int array of shape (n_bags + 1,)
        Where they begin among the rows, on the host.
    taken : int array
        How many rows are drawn from each, without replacement.
    generator : torch.Generator
        Draws them.
    device : torch.device
        Where the numbers are wanted.

    Returns
    -------
    index : tensor
        Row numbers, bag after bag.
    taken : int array
        How many of them each bag has.
    """
    sizes = np.diff(offsets)[order]
    starts = torch.as_tensor(offsets[order], device=device)
    index = _spread(starts, sizes, device)
    if (taken == sizes).all():
        return index, taken
    position = torch.arange(len(order), device=device, dtype=torch.float64)
    lengths = torch.as_tensor(sizes, device=device)
    keys = torch.repeat_interleave(position, lengths, output_size=len(index))
    keys += torch.rand(
        len(index), generator=generator, device=device, dtype=torch.float64
    )
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    kept = _spread(torch.as_tensor(first, device=device), taken, device)
    return index[torch.argsort(keys)[kept]], taken


def _spread(starts, sizes, device):
    """Numbers start, start + 1, ... for each segment."""
    total = int(sizes.sum())
    lengths = torch.as_tensor(sizes, device=device)
    shift = starts - (torch.cumsum(lengths, 0) - lengths)
    return torch.arange(total, device=device) + torch.repeat_interleave(
        shift, lengths, output_size=total
    )


def chunks(n_rows, width):
    """Cut rows into slices of about `CHUNK_VALUES` values."""
    step = max(1, CHUNK_VALUES // max(1, width))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def host_chunk(data, part):
    """Return some rows as a writable tensor on the host (a copy)."""
    return torch.from_numpy(np.array(data[part]))


class Standardize:
    """Take a mean off rows and divide by a scale, with the digits that rows have.

    Parameters
    ----------
    mean, scale : arrays of shape (width,)
        What is taken off, and what the rest is divided by.
    device, wide : torch.device, torch.dtype
        Where, and the type of what comes out.
    """

    def __init__(self, mean, scale, device, wide):
        # In float32, a column far from zero has few significant digits: its mean is
        # subtracted in the type of the rows.
        self.mean = {
            kind: torch.as_tensor(np.asarray(mean), dtype=kind, device=device)
            for kind in {wide, torch.float64}
        }
        self.scale = torch.as_tensor(np.asarray(scale), dtype=wide, device=device)
        self.wide = wide

    def __call__(self, rows):
        """Return the standardized rows."""
        kind = torch.float64 if rows.dtype == torch.float64 else self.wide
        return (rows.to(kind) - self.mean[kind]).to(self.wide) / self.scale


def moments(data, offsets, pattern, n_patterns, device):
    """Counts, sums and sums of squares of the instances of each set of bags.

    Parameters
    ----------
    data : array of shape (n_rows, width)
        The instances, on the host.
    offsets : array of shape (n_bags + 1,)
        Where the bags begin.
    pattern : int array of shape (n_bags,)
        The set that a bag belongs to, or -1 for none.
    n_patterns : int
        Number of sets.
    device : torch.device
        Where the sums are made.

    Returns
    -------
    counts, sums, squares, shift
        `sums` and `squares` are those of the rows less `shift`, which keeps the digits
        of columns far from zero.
    """
    width = data.shape[1]
    shift = np.zeros(width)
    counts = np.zeros(n_patterns)
    sums = np.zeros((n_patterns, width))
    squares = np.zeros((n_patterns, width))
    row_pattern = np.repeat(pattern, np.diff(offsets))
    for part in chunks(data.shape[0], width):
        block = host_chunk(data, part).to(device)
        if part.start == 0:
            shift = block[:1000].double().mean(dim=0).cpu().numpy()
        block = block - torch.as_tensor(shift, dtype=block.dtype, device=device)
        codes = row_pattern[part]
        for p in np.unique(codes[codes >= 0]):
            inside = np.flatnonzero(codes == p)
            rows = block
            if len(inside) < len(codes):
                rows = block[torch.as_tensor(inside, device=device)]
            rows = rows.double()
            counts[p] += len(inside)
            sums[p] += rows.sum(dim=0).cpu().numpy()
            squares[p] += (rows * rows).sum(dim=0).cpu().numpy()
    # The shift was rounded to the type of the data before it was subtracted.
    return counts, sums, squares, shift.astype(data.dtype).astype(np.float64)


def standardization(data, offsets, seen, device, *, pooled=False):
    """Mean and scale of the instances that each model may see.

    Parameters
    ----------
    data, offsets
        The instances and where bags begin.
    seen : bool array of shape (n_models, n_bags)
        Which bags a model may look at.
    device : torch.device
        Where the sums are made.
    pooled : bool
        One mean and scale for all columns, as for the pixels of an image.

    Returns
    -------
    mean, scale : arrays of shape (n_models, width)
        The scale of a constant column is one.
    """
    patterns, code = np.unique(seen.T, axis=0, return_inverse=True)
    counts, sums, squares, shift = moments(
        data, offsets, code.ravel(), len(patterns), device
    )
    member = patterns.T.astype(np.float64)  # (n_models, n_patterns)
    n = (member @ counts)[:, None]
    center = member @ sums / n
    second = member @ squares / n
    if pooled:
        overall = (center + shift).mean(axis=1, keepdims=True)
        spread = second - center**2 + (center + shift - overall) ** 2
        variance = spread.mean(axis=1, keepdims=True)
        mean = np.broadcast_to(overall, center.shape)
        variance = np.broadcast_to(variance, center.shape)
    else:
        mean, variance = center + shift, second - center**2
    digits = np.finfo(np.result_type(data.dtype, np.float32)).eps
    noise = digits**2 * (second + shift**2)
    flat = variance <= noise
    return mean.copy(), np.where(flat, 1.0, np.sqrt(np.where(flat, 1.0, variance)))
