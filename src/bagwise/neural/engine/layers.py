"""Layers of M models at once, their dropout, and the scores of an attention.

Rows of models have the shape (n_models, n_rows, width), and every weight has a leading
axis of models.
"""

import math
from dataclasses import dataclass, field

import torch


class Noise:
    """Uniform numbers for dropout, the same for all models of a step.

    A model drops units by its own rate and sees the same numbers whether it is trained
    alone or with others.
    """

    def __init__(self, keep, generator, device, dtype):
        self.generator = generator
        self.same = len(set(keep)) == 1
        self.keep = torch.as_tensor(keep[:1] if self.same else keep, dtype=dtype)
        self.keep = self.keep.to(device)[:, None, None]

    def draw(self, h):
        """Return a number for each row and unit, and the shares that are kept."""
        drawn = torch.rand(h.shape[1:], generator=self.generator, device=h.device)
        return drawn, self.keep

    def apply(self, h):
        """Drop units of an array of shape (n_models, n_rows, width)."""
        drawn, keep = self.draw(h)
        return h * ((drawn < keep) / keep).to(h.dtype)


class NoNoise:
    """Stands for `Noise` outside of training."""

    def draw(self, h):
        """Return nothing twice."""
        return None, None

    def apply(self, h):
        """Return the array as it is."""
        return h


NO_NOISE = NoNoise()


def batched(h, weight, bias):
    """Apply a layer to (n_models, n_rows, width)."""
    return torch.baddbmm(bias[:, None, :].to(h.dtype), h, weight.to(h.dtype))


def thin(h, weight):
    """Apply a layer with few outputs, and return at least single precision.

    With one output the gradient of its weights is a product of a row with a column of
    all rows, for which GPU libraries have no good kernel.
    """
    weight = weight.to(h.dtype)
    if weight.shape[2] == 1 and h.is_cuda:
        return Thin.apply(h, weight[:, :, 0])[:, :, None]
    return full(torch.bmm(h, weight))


class Thin(torch.autograd.Function):
    """h w for a vector w, with sums in single precision."""

    @staticmethod
    def forward(ctx, h, weight):
        """Return products of shape (n_models, n_rows)."""
        ctx.save_for_backward(h, weight)
        return (h * weight[:, None, :]).sum(dim=2, dtype=full(h[:0]).dtype)

    @staticmethod
    def backward(ctx, grad):
        """Return the gradients of h and of w."""
        h, weight = ctx.saved_tensors
        n_models, n_rows, width = h.shape
        grad = grad.to(h.dtype)
        # Compute small products for pieces of the rows, then sum over the pieces.
        pieces = math.gcd(n_rows, 64)
        left = grad.reshape(n_models * pieces, 1, -1)
        right = h.reshape(n_models * pieces, -1, width)
        of_weight = torch.bmm(left, right).reshape(n_models, pieces, width)
        total = of_weight.sum(dim=1, dtype=full(h[:0]).dtype)
        return grad[:, :, None] * weight[:, None, :], total.to(h.dtype)


def full(values):
    """Return at least single precision: sums over bags are not for half of it."""
    wide = torch.float64 if values.dtype == torch.float64 else torch.float32
    return values.to(wide)


def attention_layers(width, attention, gated, name="attention", n_branches=1):
    """Return names, shapes and fan-in of the weights of an attention."""
    inner = attention * (2 if gated else 1)
    return {
        f"{name}.weight": ((width, inner), width),
        f"{name}.bias": ((inner,), width),
        f"{name}.score": ((attention, n_branches), attention),
    }


def attention_values(weights, h, attention, gated, name="attention"):
    """Return the scores of (gated) attention, (n_rows, n_models, n_branches).

    Parameters
    ----------
    weights : dict of tensors
        Those of `attention_layers`, with a leading axis of models.
    h : tensor of shape (n_models, n_rows, width)
        The rows.
    attention : int
        Width of the attention.
    gated : bool
        Whether there is a gate.
    name : str, default="attention"
        How names of the weights begin.
    """
    inner = batched(h, weights[f"{name}.weight"], weights[f"{name}.bias"])
    if gated:
        value, gate = inner.split(attention, dim=2)
        inner = torch.tanh(value) * torch.sigmoid(gate)
    else:
        inner = torch.tanh(inner)
    return thin(inner, weights[f"{name}.score"]).transpose(0, 1)


@dataclass
class Pooled:
    """What a pooling makes of some bags."""

    scores: torch.Tensor  # (n_bags, n_models, n_outputs)
    share: torch.Tensor  # (n_rows, n_models, 1 or n_outputs), sums to one over a bag
    contributions: torch.Tensor  # (n_rows, n_models, n_outputs), sums to the scores
    # Values that the loss of the pooling needs.
    extra: dict = field(default_factory=dict)


class Pooling:
    """A pooling whose scores are compared with the targets, and nothing else."""

    def losses(self, shape, pooled, segments, task):
        """Return losses of shape (n_bags, n_models)."""
        return task.losses(pooled.scores)
