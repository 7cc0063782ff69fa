r"""What stands between two products, in one pass over the rows each.

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

import torch

# Units of a layer that a kernel holds at once, at most.
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
