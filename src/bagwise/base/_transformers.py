"""The mixin of everything that turns bags into bags, or into one row per bag."""

from sklearn.base import TransformerMixin


class BagTransformerMixin(TransformerMixin):
    """Transformer of bags, to bags or to a matrix with one row per bag."""

    def __init_subclass__(cls, **kwargs):
        # Bags are no data frame: scikit-learn's wrapping of outputs must stay away.
        kwargs.setdefault("auto_wrap_output_keys", None)
        super().__init_subclass__(**kwargs)

    def set_output(self, *, transform=None):
        """Return self: the output is bags or an array, whatever is asked for."""
        return self
