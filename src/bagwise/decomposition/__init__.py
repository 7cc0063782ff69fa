"""Dimensionality reduction that learns from the labels of bags."""

from bagwise.decomposition._midr import MIDR

__all__ = ["MIDR"]
