"""Diverse density: a point near every positive bag and far from negative ones."""

from bagwise.density._diverse_density import DiverseDensity
from bagwise.density._emdd import EMDD

__all__ = ["EMDD", "DiverseDensity"]
