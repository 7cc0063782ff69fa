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

Between products a step of many models is limited by memory: every operation reads and
writes all rows of all models. With the kernels of `_triton` there are two such passes,
and two for the gradient: hidden units are

.. math:: h = \mathrm{relu}(z + c) \odot m / p

in place of z = W x, where m keeps units with probability p; and with the products of
the attention and of the head side by side in z, the scores and values of instances are

.. math::
    s = a' [\tanh(z_1 + v) \odot \sigma(z_2 + u)], \qquad
    f = o' [\mathrm{relu}(z_3 + w) \odot m / p].

Sums are in single precision. Kernels come as an argument: tests pass others.
"""

import functools
import importlib.util
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch.func import functional_call, vmap

from bagwise.neural.engine.layers import (
    NO_NOISE,
    attention_layers,
    attention_values,
    batched,
    full,
    thin,
)
from bagwise.neural.engine.poolings import CLAM, DSMIL, DTFD
from bagwise.neural.engine.transformers import SetTransformer, TransMIL

# Maximum number of units of a layer that a kernel holds at once.
_WIDEST = 1024


@functools.cache
def _triton():
    if importlib.util.find_spec("triton") is None:
        return None
    from bagwise.neural.engine import _triton

    return _triton


def kernels_for(shape, x):
    """Return the kernels for a network on these rows, None where there are none."""
    if not x.is_cuda or x.dtype == torch.float64:
        return None
    one_number = shape.head == "additive" and shape.n_outputs == 1
    if not one_number or shape.pooling not in ("gated", "attention"):
        return None
    if max(*shape.hidden, shape.attention, shape.head_width) > _WIDEST:
        return None
    return _triton()


def hidden_units(product, bias, noise, kernels):
    """Return h in the place of a product (n_models, n_rows, width)."""
    drawn, keep = noise.draw(product)
    return _Hidden.apply(product, bias, drawn, keep, kernels)


def attend(product, bias, score, out, noise, gated, kernels):
    """Return s and f, both (n_models, n_rows), in single precision.

    Parameters
    ----------
    product : tensor of shape (n_models, n_rows, width)
        The products for value, gate (when gated) and head, side by side.
    bias : tensor of shape (n_models, width)
        What is added to them.
    score, out : tensors of shapes (n_models, n_attention), (n_models, n_head)
        Weights of the units of the attention, and of the head.
    noise : Noise or NoNoise
        Drops units of the head.
    gated : bool
        Whether there is a gate.
    kernels : module
        See `kernels_for`.
    """
    drawn, keep = noise.draw(product[:, :, -out.shape[1] :])
    return _Attend.apply(product, bias, score, out, drawn, keep, gated, kernels)


class _Hidden(torch.autograd.Function):
    @staticmethod
    def forward(ctx, product, bias, drawn, keep, kernels):
        kernels.hidden(product, bias.contiguous(), drawn, keep)
        ctx.mark_dirty(product)
        ctx.save_for_backward(product, keep)
        ctx.kernels = kernels
        return product

    @staticmethod
    def backward(ctx, grad):
        h, keep = ctx.saved_tensors
        grad, of_bias = ctx.kernels.hidden_gradient(grad.contiguous(), h, keep)
        return grad, of_bias.to(grad.dtype), None, None, None


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx, product, bias, score, out, drawn, keep, gated, kernels):
        given = (product, *(w.contiguous() for w in (bias, score, out)), drawn, keep)
        ctx.save_for_backward(*given)
        ctx.gated, ctx.kernels = gated, kernels
        return kernels.attend(*given, gated)

    @staticmethod
    def backward(ctx, of_score, of_value):
        given = ctx.saved_tensors
        grads = of_score.contiguous(), of_value.contiguous()
        grad, *of_weights = ctx.kernels.attend_gradient(*grads, *given, ctx.gated)
        of_weights = [w.to(grad.dtype) for w in of_weights]
        return grad, *of_weights, None, None, None, None


ATTENTIVE = ("gated", "attention")
# Poolings with layers of their own, which are applied to whole bags.
POOLINGS = {
    "dsmil": DSMIL(),
    "clam_sb": CLAM(several=False),
    "clam_mb": CLAM(several=True),
    "dtfd": DTFD(),
    "transmil": TransMIL(),
    "set_transformer": SetTransformer(),
}


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
            # The first layer is stored by output unit, so that the layers of all models
            # form one matrix without a copy.
            form = (units, width) if i == 0 else (width, units)
            found[f"hidden{i}.weight"] = form, width
            found[f"hidden{i}.bias"] = (units,), width
            width = units
        if self.pooling in POOLINGS:
            found.update(POOLINGS[self.pooling].layers(self))
            return found | {"intercept": ((self.n_outputs,), 0)}
        if self.pooling in ATTENTIVE:
            gated = self.pooling == "gated"
            found.update(attention_layers(width, self.attention, gated))
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
        # The same product, with the part of each model contiguous for later steps.
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
    return attention_values(weights, h, shape.attention, shape.pooling == "gated")[
        :, :, 0
    ]


def _shares(shape, weights, h, segments):
    return segments.softmax(segments.smoothed(attention_scores(shape, weights, h)))


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
    # One product for the attention and the head, so that no gradients are summed.
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


def pooled(shape, weights, x, segments, noise=NO_NOISE, affine=None, generator=None):
    """Return what a pooling with layers of its own makes of some bags, a `Pooled`."""
    h = full(embed(shape, weights, x, noise, affine))
    weights = {name: weight.to(h.dtype) for name, weight in weights.items()}
    return POOLINGS[shape.pooling].forward(shape, weights, h, segments, generator)


def bag_scores(shape, weights, x, segments, noise=NO_NOISE, affine=None):
    """Return the scores of shape (n_bags, n_models, n_outputs), with gradients."""
    if shape.pooling in POOLINGS:
        return pooled(shape, weights, x, segments, noise, affine).scores
    kernels = kernels_for(shape, x)
    if kernels is not None:
        score, value = fused_values(shape, weights, x, noise, affine, kernels)
        share = segments.softmax(segments.smoothed(score))
        scores = segments.sum(share * value)[:, :, None]
        return scores + weights["intercept"].to(scores.dtype)
    h = embed(shape, weights, x, noise, affine)
    if shape.head == "additive":
        values = head_values(weights, h, noise)
        if shape.pooling == "max":
            scores = segments.max(values)
        elif shape.pooling == "mean":
            scores = segments.mean(values)
        else:
            share = _shares(shape, weights, h, segments)
            scores = segments.sum(share[:, :, None] * values)
        return scores + weights["intercept"].to(scores.dtype)
    rows = full(h.transpose(0, 1))  # (n_rows, n_models, width)
    if shape.pooling == "max":
        z = segments.max(rows)
    elif shape.pooling == "mean":
        z = segments.mean(rows)
    else:
        share = _shares(shape, weights, h, segments)
        z = segments.sum(share[:, :, None] * rows)
    scores = head_values(weights, z.transpose(0, 1).to(h.dtype), noise)
    return scores + weights["intercept"].to(scores.dtype)


PREFIX = "encoder."


class ModuleEncoder:
    """Evaluates a module with the weights of each model in turn.

    Parameters
    ----------
    factory : callable
        ``factory(instance_shape)`` gives a module from (n, *instance_shape) to
        (n, width).
    instance_shape : tuple of int
        The shape of one instance.
    device, dtype : torch.device, torch.dtype
        Where and in which precision it runs.
    """

    def __init__(self, factory, instance_shape, device, dtype):
        self.factory = factory
        self.instance_shape = tuple(instance_shape)
        self.dtype = dtype
        wide = self.wide = torch.float64 if dtype == torch.float64 else torch.float32
        self.module = self._build().to(device, wide)
        self.device = device
        self.batched = device.type == "cuda"
        self.width = self._width(wide)

    def _build(self):
        module = self.factory(self.instance_shape)
        if not isinstance(module, torch.nn.Module):
            raise TypeError(
                "encoder must return a torch.nn.Module when called with the shape of "
                f"an instance, got {type(module).__name__}."
            )
        return module

    @torch.no_grad()
    def _width(self, wide):
        self.module.eval()
        probe = torch.zeros(2, *self.instance_shape, dtype=wide, device=self.device)
        out = self.module(probe)
        if out.dim() != 2 or out.shape[0] != 2:
            raise ValueError(
                "the encoder must map instances of shape "
                f"(n, {', '.join(map(str, self.instance_shape))}) to features of shape "
                f"(n, width), got {tuple(out.shape)} for n = 2. End it with a "
                "torch.nn.Flatten or a pooling layer."
            )
        return int(out.shape[1])

    def initial(self, seeds, device):
        """Weights and buffers with a leading axis, each model from its own seed."""
        models, buffers = [], []
        with torch.random.fork_rng(devices=[]):
            for seed in seeds:
                torch.manual_seed(int(seed))
                module = self._build()
                models.append({k: p.detach() for k, p in module.named_parameters()})
                buffers.append(dict(module.named_buffers()))
        weights = {
            PREFIX + name: torch.stack([one[name] for one in models])
            for name in models[0]
        }
        kept = {}
        for name in buffers[0]:
            values = torch.stack([one[name] for one in buffers]).to(device)
            floating = values.is_floating_point()
            kept[PREFIX + name] = values.to(self.wide) if floating else values
        return weights, kept

    def __call__(self, weights, buffers, x, *, training, affine=None):
        """Return features of shape (n_models, n_rows, width).

        `affine` rescales the inputs of each model, as in `network.first_layer`.
        """
        self.module.train(training)
        mine = {
            name.removeprefix(PREFIX): values
            for name, values in {**weights, **buffers}.items()
            if name.startswith(PREFIX)
        }
        images = x.reshape(len(x), *self.instance_shape).to(self.wide)
        inputs = None
        if affine is not None:
            scale, shift = (a.reshape(-1, 1, *self.instance_shape) for a in affine)
            inputs = images * scale + shift
        half = self.dtype in (torch.bfloat16, torch.float16)
        with torch.autocast(self.device.type, self.dtype, enabled=half):
            if self.batched and not buffers:
                out = self._together(mine, images, inputs)
            else:
                out = self._in_turn(mine, images, inputs)
        return out.to(x.dtype)

    def _together(self, state, images, inputs):
        """Evaluate all models as one: few launches, and no buffers that change."""
        values = {name: given.to(images.dtype) for name, given in state.items()}

        def one(state, rows):
            return functional_call(self.module, state, (rows,))

        rows = images if inputs is None else inputs
        how = (0, None if inputs is None else 0)
        return vmap(one, in_dims=how, randomness="different")(values, rows)

    def _in_turn(self, state, images, inputs):
        parts = {
            name: (given.to(images.dtype) if given.is_floating_point() else given)
            for name, given in state.items()
        }
        parts = {name: given.unbind(0) for name, given in parts.items()}
        n_models = len(next(iter(parts.values())))
        out = []
        for m in range(n_models):
            own = {name: given[m] for name, given in parts.items()}
            rows = images if inputs is None else inputs[m]
            out.append(functional_call(self.module, own, (rows,)))
        return torch.stack(out)
