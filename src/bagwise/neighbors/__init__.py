"""Nearest neighbours among bags."""

from bagwise.neighbors._citation_knn import CitationKNN

__all__ = ["CitationKNN"]
