"""Where the instances live: on the device when they fit, else on the host."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

from bagwise.neural.engine.scaling import Standardize, chunks, host_chunk

# Share of the free memory that instances may take; the rest is for activations.
_SHARE = 0.5


def free_memory(device, host_budget):
    """Return the bytes that are free on the device."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return host_budget


class Rows:
    """Standardised instances, taken by row number.

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
                # Only read from, so that a read-only array does no harm.
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
    sizes = np.diff(offsets)[order]
    taken = sizes if most is None else np.minimum(sizes, most)
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
