"""All weights of all models in one matrix, and torch's fused AdamW on it.

`torch.optim.AdamW` makes the update; the class here gives each model its own learning
rate, weight decay and gradient norm, and keeps the rates on the device, as a recorded
step requires.
"""

import math

import torch
import torch.nn.functional as F

# Weights begin at multiples of this: matrix products of a GPU want it so.
_ALIGNED = 64


class Parameters:
    """Named weights with a leading axis of models, as views of one matrix.

    Row m of `flat` holds all weights of model m, with zeros between them, so that
    clipping, the update and keeping the best weights are a few operations, whatever
    the number of layers.
    """

    def __init__(self, initial, device, dtype):
        self.shapes = {name: tuple(w.shape[1:]) for name, w in initial.items()}
        n_models = next(iter(initial.values())).shape[0]
        parts = []
        for weight in initial.values():
            part = weight.reshape(n_models, -1).to(dtype)
            parts.append(F.pad(part, (0, -part.shape[1] % _ALIGNED)))
        self.sizes = [part.shape[1] for part in parts]
        self.flat = torch.cat(parts, dim=1).to(device).requires_grad_()

    def named(self, flat):
        """Return the parts of a matrix like `flat`, by name."""
        parts = flat.split(self.sizes, dim=1)
        return {
            name: part[:, : math.prod(shape)].reshape(len(flat), *shape)
            for (name, shape), part in zip(self.shapes.items(), parts, strict=True)
        }


class AdamW:
    """AdamW with a learning rate and a decay for each model.

    The rates in force are read where the weights are, so that a GPU can record a step.

    Parameters
    ----------
    parameters : Parameters
        What is changed in place.
    learning_rate, weight_decay : arrays of shape (n_models,)
        Of each model.
    clip : float
        Largest norm of the gradient of a model.

    Attributes
    ----------
    rates : tensor of shape (n_rates,)
        The different rates, on the host.
    now : tensor of shape (n_rates,)
        Those in force, on the device.
    """

    def __init__(self, parameters, learning_rate, weight_decay, clip):
        self.clip = clip
        self.rows = [row.detach() for row in parameters.flat]
        groups = {}
        for row, rate, decay in zip(
            self.rows, learning_rate, weight_decay, strict=True
        ):
            groups.setdefault((float(rate), float(decay)), []).append(row)
        device = parameters.flat.device
        gpu = device.type == "cuda"
        self.rates = torch.tensor([rate for rate, _ in groups], dtype=torch.float64)
        dtype = torch.float32 if gpu else torch.float64
        self.now = self.rates.to(device, dtype, copy=True)
        self.inner = torch.optim.AdamW(
            [
                {"params": rows, "lr": self.now[i], "weight_decay": decay}
                for i, ((_, decay), rows) in enumerate(groups.items())
            ],
            fused=True,
            capturable=gpu,
        )

    def slow_down(self, factor):
        """Set the rates to a factor, that of the schedule, times what they are."""
        self.now.copy_(self.rates * factor)

    @torch.no_grad()
    def step(self, grad):
        """Make one step along a gradient, with the rates in force."""
        norm = torch.linalg.vector_norm(grad, dim=1, keepdim=True)
        grad = grad * torch.clamp(self.clip / (norm + 1e-12), max=1.0)
        for row, own in zip(self.rows, grad, strict=True):
            row.grad = own
        self.inner.step()
