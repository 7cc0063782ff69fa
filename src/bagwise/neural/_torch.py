"""Where torch is looked for, and the encoders of instances by name."""

import importlib.util
import math

from bagwise._config import get_device


def has_torch():
    """Return whether torch can be imported, without importing it."""
    return importlib.util.find_spec("torch") is not None


def require_torch(who):
    """Import torch, or raise an error that names the extra."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"{who} needs torch, which is not installed: pip install 'bagwise[torch]'. "
            "Everything else in bagwise works without it."
        ) from error
    return torch


def choose_device(name, who):
    """Return the torch device that a name stands for.

    "auto" is the device of `config_context`, else a GPU if there is one.
    """
    torch = require_torch(who)
    if name == "auto":
        name = get_device() or ("cuda" if torch.cuda.is_available() else "cpu")
        name = "cpu" if name == "torch" else name
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ValueError(
            f"device={name!r} is not a device that torch supports."
        ) from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            f"device={name!r} was requested, but torch finds no CUDA device. Use "
            "device='auto' or 'cpu'."
        )
    return device


def choose_dtype(precision, device):
    """Return the type of the products: bfloat16 on a GPU, float32 else, by default."""
    import torch

    if precision == "auto":
        precision = "bfloat16" if device.type == "cuda" else "float32"
    return getattr(torch, precision)


_REGISTERED = {}


def register_encoder(name, factory):
    """Register an encoder by a name, so that models that use it can be saved.

    A model file contains arrays and names, no code. Therefore the function that builds
    the module must be registered when the file is loaded.

    Parameters
    ----------
    name : str
        The name to use as ``encoder=name``.
    factory : callable
        ``factory(instance_shape)`` returns a ``torch.nn.Module`` that maps instances of
        shape ``(n, *instance_shape)`` to features of shape (n, width).

    Examples
    --------
    >>> from bagwise.neural import register_encoder
    >>> def last_values(instance_shape):
    ...     import torch
    ...     return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.LazyLinear(8))
    >>> register_encoder("last-values", last_values)
    """
    if not isinstance(name, str) or not name:
        raise TypeError(f"an encoder's name must be a string, got {name!r}.")
    if not callable(factory):
        raise TypeError(f"the factory of encoder {name!r} must be callable.")
    _REGISTERED[name] = factory


def resolve_encoder(encoder):
    """Return the factory that an encoder stands for."""
    if callable(encoder):
        return encoder
    if encoder in _REGISTERED:
        return _REGISTERED[encoder]
    raise ValueError(
        f"encoder={encoder!r} is not registered; known are "
        f"{', '.join(sorted(_REGISTERED))}. Call bagwise.neural.register_encoder("
        f"{encoder!r}, factory) first."
    )


def _image(instance_shape):
    """Two convolutions with pooling, and a layer of 128 units."""
    torch = require_torch("encoder='image'")
    nn = torch.nn
    if len(instance_shape) == 2:
        channels, size = 1, instance_shape
        start = [nn.Unflatten(1, (1, instance_shape[0]))]
    elif len(instance_shape) == 3:
        channels, size, start = instance_shape[0], instance_shape[1:], []
    else:
        raise ValueError(
            "encoder='image' takes instances of shape (height, width) or (channels, "
            f"height, width), got {instance_shape}."
        )
    return nn.Sequential(
        *start,
        nn.Conv2d(channels, 20, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2, ceil_mode=True),
        nn.Conv2d(20, 50, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2, ceil_mode=True),
        nn.Flatten(),
        nn.Linear(50 * math.prod((side + 3) // 4 for side in size), 128),
        nn.ReLU(),
    )


def _signal(instance_shape):
    """Two strided convolutions along time, and the largest response of each filter."""
    torch = require_torch("encoder='signal'")
    nn = torch.nn
    if len(instance_shape) == 1:
        channels, start = 1, [nn.Unflatten(1, (1, instance_shape[0]))]
    elif len(instance_shape) == 2:
        channels, start = instance_shape[0], []
    else:
        raise ValueError(
            "encoder='signal' takes instances of shape (length,) or (channels, "
            f"length), got {instance_shape}."
        )
    return nn.Sequential(
        *start,
        nn.Conv1d(channels, 32, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv1d(32, 64, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.AdaptiveMaxPool1d(1),
        nn.Flatten(),
    )


register_encoder("image", _image)
register_encoder("signal", _signal)
