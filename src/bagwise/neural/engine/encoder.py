"""A user's module as the first stage: one skeleton, weights for each model."""

import torch
from torch.func import functional_call, vmap

PREFIX = "encoder."


class Encoder:
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
