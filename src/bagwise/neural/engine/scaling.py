"""Means and scales of instances, streamed, for each of several sets of bags."""

import numpy as np
import torch

# Values looked at together; a memory map larger than memory is read in pieces.
CHUNK_VALUES = 2**24


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
        # In float32 little is left of a column far from zero: its mean is taken off
        # in the type of the rows.
        self.mean = {
            kind: torch.as_tensor(np.asarray(mean), dtype=kind, device=device)
            for kind in {wide, torch.float64}
        }
        self.scale = torch.as_tensor(np.asarray(scale), dtype=wide, device=device)
        self.wide = wide

    def __call__(self, rows):
        """Return the standardised rows."""
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
    # The shift was rounded to the type of the data before it was taken off.
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
    centre = member @ sums / n
    second = member @ squares / n
    if pooled:
        overall = (centre + shift).mean(axis=1, keepdims=True)
        spread = second - centre**2 + (centre + shift - overall) ** 2
        variance = spread.mean(axis=1, keepdims=True)
        mean = np.broadcast_to(overall, centre.shape)
        variance = np.broadcast_to(variance, centre.shape)
    else:
        mean, variance = centre + shift, second - centre**2
    noise = np.finfo(np.float32).eps ** 2 * (second + shift**2)
    flat = variance <= noise
    return mean.copy(), np.where(flat, 1.0, np.sqrt(np.where(flat, 1.0, variance)))
