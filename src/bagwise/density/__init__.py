"""Diverse density: a point near every positive bag and far from negative ones."""

from bagwise.density._diverse_density import EMDD, DiverseDensity

__all__ = ["EMDD", "DiverseDensity"]
