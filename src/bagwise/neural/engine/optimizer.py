"""All weights of all models in one matrix, and AdamW on it."""

import math

import torch


class Parameters:
    """Named weights with a leading axis of models, as views of one matrix.

    Row m of `flat` holds all weights of model m, so that clipping, the update and
    keeping the best weights are a few operations, whatever the number of layers.
    """

    def __init__(self, initial, device, dtype):
        self.shapes = {name: tuple(w.shape[1:]) for name, w in initial.items()}
        self.sizes = [math.prod(shape) for shape in self.shapes.values()]
        n_models = next(iter(initial.values())).shape[0]
        parts = [w.reshape(n_models, -1).to(dtype) for w in initial.values()]
        self.flat = torch.cat(parts, dim=1).to(device).requires_grad_()

    def named(self, flat):
        """Return the parts of a matrix like `flat`, by name."""
        parts = flat.split(self.sizes, dim=1)
        pairs = zip(self.shapes.items(), parts, strict=True)
        return {
            name: part.unflatten(1, shape) if shape else part[:, 0]
            for (name, shape), part in pairs
        }


class AdamW:
    """AdamW with a learning rate and a decay for each model.

    Parameters
    ----------
    parameters : Parameters
        What is changed in place.
    learning_rate, weight_decay : arrays of shape (n_models,)
        Of each model.
    clip : float
        Largest norm of the gradient of a model.
    """

    def __init__(self, parameters, learning_rate, weight_decay, clip):
        self.clip = clip
        self.n_steps = 0
        self.rows = [row.detach() for row in parameters.flat]
        groups = {}
        for row, rate, decay in zip(
            self.rows, learning_rate, weight_decay, strict=True
        ):
            groups.setdefault((float(rate), float(decay)), []).append(row)
        self.rates = [rate for rate, _ in groups]
        self.inner = torch.optim.AdamW(
            [
                {"params": rows, "lr": rate, "weight_decay": decay}
                for (rate, decay), rows in groups.items()
            ],
            fused=True,
        )

    @torch.no_grad()
    def step(self, grad, factor):
        """Make one step along a gradient; `factor` is that of the schedule."""
        norm = torch.linalg.vector_norm(grad, dim=1, keepdim=True)
        grad = grad * torch.clamp(self.clip / (norm + 1e-12), max=1.0)
        for row, own in zip(self.rows, grad, strict=True):
            row.grad = own
        for group, rate in zip(self.inner.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor
        self.inner.step()
        self.n_steps += 1
