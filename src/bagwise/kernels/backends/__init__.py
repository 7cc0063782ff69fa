"""The one seam between methods and the device they run on.

Methods ask `active` for the block primitives: sums and minima of blocks of kernel
values or distances over bags, products with kernel matrices, and factorizations. There
are two implementations, numpy with compiled loops, and torch; which one answers is
decided here and nowhere else.
"""

from __future__ import annotations

from functools import cache

from bagwise._config import VARIABLE, get_device
from bagwise.kernels.backends._numpy import KernelMatrix as KernelMatrix
from bagwise.kernels.backends._numpy import NumpyBackend

_NUMPY = NumpyBackend()


def active() -> NumpyBackend:
    """Return the backend of the device in force; see `bagwise.config_context`."""
    name = get_device() or "cpu"
    return _NUMPY if name == "cpu" else _torch_backend(name)


@cache
def _torch_backend(name: str) -> NumpyBackend:
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"the device {name!r} needs torch, which is not installed: pip install "
            "'bagwise[torch]'. Without it everything runs on the CPU."
        ) from error
    from bagwise.kernels.backends._torch import TorchBackend

    try:
        device = torch.device("cpu" if name == "torch" else name)
    except RuntimeError as error:
        raise ValueError(
            f"{name!r} is not a device: use 'cpu', 'cuda' or 'torch' (config_context or"
            f" the environment variable {VARIABLE})."
        ) from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            f"the device {name!r} was requested, but torch finds no CUDA device. "
            f"Use 'cpu' (config_context or the environment variable {VARIABLE})."
        )
    return TorchBackend(device)
