"""Reductions over ragged bags, with gradients, on any device.

A batch is a stack of rows and the bag of each row; nothing is padded. Values have the
shape (n_rows, ...), results (n_bags, ...). Gradients are written down by hand: that of
a sum only repeats, that of a softmax is one more sum, and none of them adds with
atomics, so that a seed gives the same weights twice.
"""

import torch

# A few large bags are reduced with their indicator matrix: the library's segment kernel
# walks along a bag in one thread. Entries of that matrix, and of a block, at most.
_DENSE_ENTRIES = 2**26
_DENSE_BAGS = 256


class Segments:
    """Which rows belong to which bag.

    Parameters
    ----------
    sizes : int64 tensor of shape (n_bags,)
        Numbers of rows, on the device.
    n_rows : int
        Their sum: the device must not be asked for it, which would make it wait.
    """

    def __init__(self, sizes, n_rows):
        device = sizes.device
        self.n_bags, self.n_rows = len(sizes), int(n_rows)
        self.sizes = sizes
        self.bag = torch.repeat_interleave(
            torch.arange(self.n_bags, device=device), sizes, output_size=self.n_rows
        )
        dense = (
            device.type == "cuda"
            and self.n_bags <= _DENSE_BAGS
            and self.n_bags * self.n_rows <= _DENSE_ENTRIES
        )
        self.indicator = None
        if dense:
            numbers = torch.arange(self.n_bags, device=device)[:, None]
            self.indicator = numbers == self.bag[None, :]

    @classmethod
    def of(cls, sizes, device):
        """Return the segments for sizes on the host."""
        return cls(torch.as_tensor(sizes, dtype=torch.int64).to(device), sizes.sum())

    def repeat(self, per_bag):
        """Give every row the value of its bag, without gradient."""
        return per_bag[self.bag]

    def plain_sum(self, values):
        """Sum over the rows of each bag, without gradient."""
        flat = values.reshape(self.n_rows, -1)
        if self._spreads(flat):
            total = torch.where(self.indicator[:, None, :], flat.T, 0.0).sum(dim=2)
        elif self.indicator is not None:
            total = self.indicator.to(flat.dtype) @ flat
        else:
            total = self._reduce(flat, "sum")
        return total.reshape(self.n_bags, *values.shape[1:])

    def _spreads(self, flat):
        """Whether a block of (bags, columns, rows) is affordable."""
        if self.indicator is None:
            return False
        return flat.shape[1] * self.n_bags * self.n_rows <= _DENSE_ENTRIES

    def _reduce(self, flat, op):
        # Without its checks, which would make the device wait.
        return torch.segment_reduce(flat, op, lengths=self.sizes, axis=0, unsafe=True)

    def plain_max(self, values):
        """Largest value of each bag, without gradient."""
        flat = values.reshape(self.n_rows, -1)
        if self._spreads(flat):
            lowest = torch.finfo(flat.dtype).min
            top = torch.where(self.indicator[:, None, :], flat.T, lowest).amax(dim=2)
        else:
            top = self._reduce(flat, "max")
        return top.reshape(self.n_bags, *values.shape[1:])

    def share_of_max(self, values):
        """Return the maxima, and 1 / (number of maximisers) on each maximiser."""
        top = self.plain_max(values)
        hit = (values == self.repeat(top)).to(values.dtype)
        return top, hit / self.repeat(self.plain_sum(hit))

    def plain_softmax(self, values):
        """Exponentials divided by their sum over each bag, without gradient."""
        power = torch.exp(values - self.repeat(self.plain_max(values)))
        return power / self.repeat(self.plain_sum(power))

    def sum(self, values):
        """Sum over the rows of each bag."""
        return _Sum.apply(values, self)

    def mean(self, values):
        """Mean over the rows of each bag."""
        sizes = self.sizes.to(values.dtype)
        return self.sum(values) / sizes.reshape(-1, *[1] * (values.dim() - 1))

    def max(self, values):
        """Largest value of each bag; ties share the gradient."""
        return _Max.apply(values, self)

    def softmax(self, values):
        """Exponentials divided by their sum over each bag."""
        return _Softmax.apply(values, self)


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values, segments):
        ctx.segments = segments
        return segments.plain_sum(values)

    @staticmethod
    def backward(ctx, grad):
        return ctx.segments.repeat(grad), None


class _Max(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values, segments):
        ctx.segments = segments
        top, share = segments.share_of_max(values)
        ctx.save_for_backward(share)
        return top

    @staticmethod
    def backward(ctx, grad):
        (share,) = ctx.saved_tensors
        return share * ctx.segments.repeat(grad), None


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values, segments):
        ctx.segments = segments
        weight = segments.plain_softmax(values)
        ctx.save_for_backward(weight)
        return weight

    @staticmethod
    def backward(ctx, grad):
        (weight,) = ctx.saved_tensors
        pull = weight * grad
        mean = ctx.segments.repeat(ctx.segments.plain_sum(pull))
        return pull - weight * mean, None
