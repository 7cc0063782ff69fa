"""OnInstances from partitions: what the transformer learns is a sum over instances."""

from __future__ import annotations

from sklearn.base import clone

from bagwise.compose.from_pieces import fit_from_pieces, fits_from_pieces


def fit_on_instances(model, parts):
    """Fit a copy of OnInstances on `Partitions`."""
    inner = model._inner()
    if model.label_instances or not fits_from_pieces(inner):
        raise TypeError(
            f"OnInstances({type(inner).__name__}) cannot be fitted from sums over "
            "partitions; distributed.fit is for StandardScaler, MinMaxScaler, "
            "MaxAbsScaler and RBFSampler, without labels."
        )
    parts.survey()
    parts.set_features(model)
    model.transformer_ = fit_from_pieces(clone(inner), parts)
    return model
