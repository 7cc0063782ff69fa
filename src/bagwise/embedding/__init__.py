"""Transformers from bags to a matrix with one row per bag."""

from bagwise.embedding._soft_ksc import SoftKSCEmbedding

__all__ = ["SoftKSCEmbedding"]
