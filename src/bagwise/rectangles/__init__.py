"""Axis-parallel rectangles: one that fits all positive bags, or votes of many."""

from bagwise.rectangles._gmil import GMIL
from bagwise.rectangles._iapr import IAPR

__all__ = ["GMIL", "IAPR"]
