r"""The network: M models with the same shape, evaluated on the same rows at once.

Every weight has a leading axis for the model. The first layer is one product of the
rows with M x width columns; all later ones are batched products. With rows x of a bag,

.. math::
    h = \mathrm{relu}(W x + c), \qquad
    s = a' [\tanh(V h + v) \odot \sigma(U h + u)], \qquad
    \alpha = \mathrm{softmax}(s) \text{ over the bag},

and f a layer of ReLUs and a linear one, the score of the bag is
:math:`\sum_j \alpha_j f(h_j) + b` (additive) or :math:`f(\sum_j \alpha_j h_j) + b`
(pooled).
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from bagwise.neural.engine.fused import attend, hidden_units, kernels_for

ATTENTIVE = ("gated", "attention")


@dataclass(frozen=True)
class Shape:
    """What the models of one batch have in common."""

    n_inputs: int
    n_outputs: int
    hidden: tuple
    attention: int
    pooling: str
    head: str

    @property
    def width(self):
        """Units that are pooled."""
        return self.hidden[-1] if self.hidden else self.n_inputs

    @property
    def head_width(self):
        """Units of the hidden layer of f."""
        return max(1, self.width // 2)

    def layers(self):
        """Names, shapes (without the axis of models) and fan-in of the weights."""
        found = {}
        width = self.n_inputs
        for i, units in enumerate(self.hidden):
            # The first one is stored by output unit, so that the models' layers
            # stand below each other in one matrix without a copy.
            form = (units, width) if i == 0 else (width, units)
            found[f"hidden{i}.weight"] = form, width
            found[f"hidden{i}.bias"] = (units,), width
            width = units
        if self.pooling in ATTENTIVE:
            inner = self.attention * (2 if self.pooling == "gated" else 1)
            found["attention.weight"] = (width, inner), width
            found["attention.bias"] = (inner,), width
            found["attention.score"] = (self.attention, 1), self.attention
        found["head.weight"] = (width, self.head_width), width
        found["head.bias"] = (self.head_width,), width
        found["head.out"] = (self.head_width, self.n_outputs), self.head_width
        found["intercept"] = (self.n_outputs,), 0
        return found


def initial_weights(shape, seeds):
    """Uniform weights in +-1 / sqrt(fan-in), each model from its own seed."""
    models = []
    for seed in seeds:
        generator = torch.Generator().manual_seed(int(seed))
        one = {}
        for name, (form, fan_in) in shape.layers().items():
            bound = 1.0 / np.sqrt(fan_in) if fan_in else 0.0
            drawn = torch.rand(form, generator=generator, dtype=torch.float64)
            one[name] = (2.0 * drawn - 1.0) * bound
        models.append(one)
    return {name: torch.stack([one[name] for one in models]) for name in models[0]}


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
        # Pieces of the rows in a batch of small products, then a sum over the pieces.
        pieces = math.gcd(n_rows, 64)
        left = grad.reshape(n_models * pieces, 1, -1)
        right = h.reshape(n_models * pieces, -1, width)
        of_weight = torch.bmm(left, right).reshape(n_models, pieces, width)
        total = of_weight.sum(dim=1, dtype=full(h[:0]).dtype)
        return grad[:, :, None] * weight[:, None, :], total.to(h.dtype)


def rescaled(weight, bias, affine):
    """Let the first layer of each model rescale its inputs, by `affine`."""
    if affine is None:
        return weight, bias
    scale, shift = affine  # (n_models, n_inputs)
    bias = bias + torch.einsum("mi,mui->mu", shift, weight)
    return weight * scale[:, None, :], bias


def first_layer(x, weight, bias, affine):
    """One product for all models; `affine` rescales the inputs of each model."""
    weight, bias = rescaled(weight, bias, affine)
    n_models, width = bias.shape
    weight, bias = weight.to(x.dtype), bias.to(x.dtype)
    if x.is_cuda and n_models > 1:
        # The same product, with each model's part in one piece for what follows.
        rows = x.expand(n_models, *x.shape)
        return torch.baddbmm(bias[:, None, :], rows, weight.transpose(1, 2))
    flat = F.linear(x, weight.reshape(n_models * width, -1), bias.reshape(-1))
    return flat.reshape(x.shape[0], n_models, width).transpose(0, 1)


def embed(shape, weights, x, noise=NO_NOISE, affine=None):
    """Return h of shape (n_models, n_rows, width).

    `x` is (n_rows, n_inputs), or the (n_models, n_rows, width) that encoders have made
    in place of the hidden layers.
    """
    if x.dim() == 3:
        return noise.apply(x)
    h = x
    for i in range(len(shape.hidden)):
        weight, bias = weights[f"hidden{i}.weight"], weights[f"hidden{i}.bias"]
        if i == 0:
            h = first_layer(x, weight, bias, affine)
        else:
            h = batched(h, weight, bias)
        h = noise.apply(torch.relu(h))
    return h


def attention_scores(shape, weights, h):
    """Return s of shape (n_rows, n_models), in at least single precision."""
    inner = batched(h, weights["attention.weight"], weights["attention.bias"])
    if shape.pooling == "gated":
        value, gate = inner.split(shape.attention, dim=2)
        inner = torch.tanh(value) * torch.sigmoid(gate)
    else:
        inner = torch.tanh(inner)
    return thin(inner, weights["attention.score"])[:, :, 0].T


def head_values(weights, h, noise=NO_NOISE):
    """Return f(h) of shape (n_rows, n_models, n_outputs)."""
    inner = torch.relu(batched(h, weights["head.weight"], weights["head.bias"]))
    return thin(noise.apply(inner), weights["head.out"]).transpose(0, 1)


def fused_values(shape, weights, x, noise, affine, kernels):
    """Return s and f(h), both (n_rows, n_models), with few passes over the rows."""
    h = x
    if x.dim() == 3:
        h = noise.apply(x)
    else:
        for i in range(len(shape.hidden)):
            weight, bias = weights[f"hidden{i}.weight"], weights[f"hidden{i}.bias"]
            if i == 0:
                weight, bias = rescaled(weight, bias, affine)
                weight = weight.transpose(1, 2)
                h = x.expand(len(bias), *x.shape)
            product = torch.bmm(h, weight.to(h.dtype))
            h = hidden_units(product, bias, noise, kernels)
    # One product for the attention and the head, whose gradient needs no sum.
    weight, bias = (
        torch.cat([weights[f"attention.{name}"], weights[f"head.{name}"]], dim=-1)
        for name in ("weight", "bias")
    )
    found = attend(
        torch.bmm(h, weight.to(h.dtype)),
        bias,
        weights["attention.score"][:, :, 0],
        weights["head.out"][:, :, 0],
        noise,
        shape.pooling == "gated",
        kernels,
    )
    return found[0].T, found[1].T


def full(values):
    """Return at least single precision: sums over bags are not for half of it."""
    wide = torch.float64 if values.dtype == torch.float64 else torch.float32
    return values.to(wide)


def bag_scores(shape, weights, x, segments, noise=NO_NOISE, affine=None):
    """Return the scores of shape (n_bags, n_models, n_outputs), with gradients."""
    kernels = kernels_for(shape, x)
    if kernels is not None:
        score, value = fused_values(shape, weights, x, noise, affine, kernels)
        scores = segments.sum(segments.softmax(score) * value)[:, :, None]
        return scores + weights["intercept"].to(scores.dtype)
    h = embed(shape, weights, x, noise, affine)
    if shape.head == "additive":
        values = head_values(weights, h, noise)
        if shape.pooling == "max":
            scores = segments.max(values)
        elif shape.pooling == "mean":
            scores = segments.mean(values)
        else:
            share = segments.softmax(attention_scores(shape, weights, h))
            scores = segments.sum(share[:, :, None] * values)
        return scores + weights["intercept"].to(scores.dtype)
    rows = full(h.transpose(0, 1))  # (n_rows, n_models, width)
    if shape.pooling == "max":
        pooled = segments.max(rows)
    elif shape.pooling == "mean":
        pooled = segments.mean(rows)
    else:
        share = segments.softmax(attention_scores(shape, weights, h))
        pooled = segments.sum(share[:, :, None] * rows)
    scores = head_values(weights, pooled.transpose(0, 1).to(h.dtype), noise)
    return scores + weights["intercept"].to(scores.dtype)
