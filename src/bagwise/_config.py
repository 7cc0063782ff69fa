"""Where numbers are computed: one setting for the whole package."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

VARIABLE = "BAGWISE_DEVICE"

_device: ContextVar[str | None] = ContextVar("bagwise_device", default=None)


def get_device() -> str | None:
    """Return the device that was asked for.

    Returns
    -------
    str or None
        That of `config_context`, else of the environment variable BAGWISE_DEVICE;
        None if neither says anything.
    """
    return _device.get() or os.environ.get(VARIABLE) or None


@contextmanager
def config_context(*, device: str | None = None) -> Iterator[None]:
    """Choose where kernels, distances and linear systems are computed.

    Set kernels (and the machines on them), Hausdorff distances, the prototypes of MILES
    and exact SAFE take arrays and give arrays; in between, their blocks are computed on
    this device. Networks with ``device="auto"`` follow it as well. Sparse data, and
    everything that is not named here, stay on the CPU.

    Parameters
    ----------
    device : str, default=None
        "cuda" or "cuda:1": a GPU, through torch (``pip install 'bagwise[torch]'``).
        "cpu": numpy and compiled loops. "torch": the code of the GPU on the CPU, for
        tests. None leaves things as they are: the environment variable BAGWISE_DEVICE,
        or the CPU.

    Notes
    -----
    On a GPU sums of kernel values and distances are computed in single precision from
    centred data; they differ from those of the CPU by about 1e-6 of the largest value.
    Linear systems are solved in double precision where the matrix fits.

    The setting holds in this thread and for the processes that inherit the environment
    variable; workers of joblib do not see the context.

    Examples
    --------
    >>> import bagwise
    >>> from bagwise.kernels import set_kernel
    >>> X = [[[0.0], [1.0]], [[3.0]]]
    >>> with bagwise.config_context(device="cpu"):
    ...     set_kernel(X, kernel="linear", normalization=None)
    array([[1., 3.],
           [3., 9.]])
    """
    if device is not None and not isinstance(device, str):
        raise TypeError(f"device must be a string or None, got {device!r}.")
    token = _device.set(device if device is not None else _device.get())
    try:
        yield
    finally:
        _device.reset(token)
