"""Settings of the package: device, address of the documentation, names of columns."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

VARIABLE = "BAGWISE_DEVICE"
SITE = "BAGWISE_DOCS"
COLUMNS = ("by_name", "strict")

_device: ContextVar[str | None] = ContextVar("bagwise_device", default=None)
_site: ContextVar[str | None] = ContextVar("bagwise_site", default=None)
_columns: ContextVar[str | None] = ContextVar("bagwise_columns", default=None)


def get_device() -> str | None:
    """Return the device that was asked for.

    Returns
    -------
    str or None
        That of `config_context`, else of the environment variable BAGWISE_DEVICE;
        None if neither says anything.
    """
    return _device.get() or os.environ.get(VARIABLE) or None


def get_site() -> str | None:
    """Return the address of the documentation, without a slash at its end.

    Returns
    -------
    str or None
        That of `config_context`, else of the environment variable BAGWISE_DOCS; None
        if neither is set.
    """
    address = _site.get() or os.environ.get(SITE) or None
    return address.rstrip("/") if address else None


def get_columns() -> str:
    """Return how columns are matched: "by_name" or "strict"."""
    return _columns.get() or COLUMNS[0]


@contextmanager
def config_context(
    *, device: str | None = None, site: str | None = None, columns: str | None = None
) -> Iterator[None]:
    """Set the device, the documentation site of links, and how columns are matched.

    Set kernels (and the SVMs that use them), Hausdorff distances, the prototypes of
    MILES and exact SAFE are computed on the device. Networks with ``device="auto"``
    follow it as well. Sparse data, and everything that is not named here, stay on the
    CPU.

    Parameters
    ----------
    device : str, default=None
        "cuda" or "cuda:1": a GPU, through torch (``pip install 'bagwise[torch]'``).
        "cpu": numpy and compiled loops. "torch": the code of the GPU on the CPU, for
        tests. None keeps the current setting: the environment variable BAGWISE_DEVICE,
        or the CPU.
    site : str, default=None
        Address of the documentation, for instance ``"file:///home/me/html"`` after
        ``make docs``: the diagrams of estimators in notebooks link to their pages. None
        keeps the current setting: the environment variable BAGWISE_DOCS, or no links.
    columns : {"by_name", "strict"}, default=None
        What models do with bags whose columns have names. "by_name", the default,
        selects the columns that the model was fitted to, in any order, and ignores
        others with a warning; "strict" refuses other columns and another order. None
        keeps the current setting.

    Notes
    -----
    On a GPU sums of kernel values and distances are computed in single precision from
    centered data; they differ from those of the CPU by about 1e-6 of the largest value.
    Linear systems are solved in double precision where the matrix fits.

    The setting applies to this thread, and to processes that inherit the environment
    variable; it does not apply to workers of joblib.

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
    for name, value in (("device", device), ("site", site)):
        if value is not None and not isinstance(value, str):
            raise TypeError(f"{name} must be a string or None, got {value!r}.")
    if columns is not None and columns not in COLUMNS:
        raise ValueError(f"columns must be one of {COLUMNS}, got {columns!r}.")
    given = ((_device, device), (_site, site), (_columns, columns))
    tokens = [
        (setting, setting.set(setting.get() if value is None else value))
        for setting, value in given
    ]
    try:
        yield
    finally:
        for setting, token in tokens:
            setting.reset(token)
