"""The mixin of everything that turns bags into bags, or into one row per bag."""

from functools import wraps

import scipy.sparse as sp
from sklearn import get_config
from sklearn.base import TransformerMixin

from bagwise.bags import Bags

_CONTAINERS = ("default", "pandas", "polars")


class BagTransformerMixin(TransformerMixin):
    """Transformer of bags, to bags or to a matrix with one row per bag.

    A matrix comes as a data frame where `set_output` asks for one, with the names of
    the features as columns and, in pandas, the ids of the bags as index. Bags are
    always bags.
    """

    def __init_subclass__(cls, **kwargs):
        # Bags are no data frame: scikit-learn's wrapping of outputs must stay away.
        kwargs.setdefault("auto_wrap_output_keys", None)
        super().__init_subclass__(**kwargs)
        for method in ("transform", "fit_transform"):
            if method in vars(cls):
                setattr(cls, method, _in_container(vars(cls)[method]))

    def set_output(self, *, transform=None):
        """Choose the container of `transform`.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"} or None, default=None
            What a matrix with one row per bag comes as; None changes nothing.

        Returns
        -------
        self
        """
        if transform is None:
            return self
        if transform not in _CONTAINERS:
            raise ValueError(
                f"transform must be one of {', '.join(_CONTAINERS)}, got {transform!r}."
            )
        self._sklearn_output_config = {"transform": transform}
        return self


def _in_container(method):
    @wraps(method)
    def wrapped(self, X, *args, **kwargs):
        return _wrap(self, X, method(self, X, *args, **kwargs))

    return wrapped


def _wrap(transformer, X, out):
    """Return a matrix as the data frame that was asked for."""
    chosen = getattr(transformer, "_sklearn_output_config", {}).get("transform")
    chosen = chosen or get_config()["transform_output"]
    if chosen == "default" or getattr(out, "ndim", 0) != 2 or hasattr(out, "columns"):
        return out
    if sp.issparse(out):
        raise ValueError(
            f"{type(transformer).__name__} gives a sparse matrix, and {chosen} output "
            "is dense. Use set_output(transform='default')."
        )
    columns = list(transformer.get_feature_names_out())
    if chosen == "polars":
        import polars as pl

        return pl.DataFrame(out, schema=columns, orient="row")
    import pandas as pd

    index = X.ids if isinstance(X, Bags) else getattr(X, "index", None)
    return pd.DataFrame(out, columns=columns, index=index)
