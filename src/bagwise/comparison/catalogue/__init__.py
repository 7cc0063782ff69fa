"""The methods that can be compared, with their grids.

A method joins by one entry in the file of its family. Classes are looked up when they
are asked for, so that an entry whose class is not there is simply not listed.
"""

from bagwise.comparison.catalogue._lookup import (
    find_method,
    list_methods,
    missing_methods,
)
from bagwise.comparison.catalogue._method import Method

__all__ = ["Method", "find_method", "list_methods", "missing_methods"]
