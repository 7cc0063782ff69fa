"""Nearest neighbors among bags."""

from bagwise.neighbors._bag_neighbors import BagKNeighborsRegressor
from bagwise.neighbors._citation_knn import CitationKNN

__all__ = ["BagKNeighborsRegressor", "CitationKNN"]
