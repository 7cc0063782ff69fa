"""The one place that looks for torch, and says how to get it."""

import importlib.util

from bagwise._config import get_device


def has_torch():
    """Tell whether torch can be imported, without importing it."""
    return importlib.util.find_spec("torch") is not None


def require_torch(who):
    """Import torch, or say which extra brings it."""
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
        raise ValueError(f"device={name!r} is no device that torch knows.") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            f"device={name!r} was asked for, but torch finds no CUDA device here. Use "
            "device='auto' or 'cpu'."
        )
    return device


def choose_dtype(precision, device):
    """Return the type of the products: bfloat16 on a GPU, float32 else, by default."""
    import torch

    if precision == "auto":
        precision = "bfloat16" if device.type == "cuda" else "float32"
    return getattr(torch, precision)
