"""Fit on partitions that live on a cluster, through dask.

Only sums travel: every part gives its share of a sum over bags, and the total is used
on the machine that called. A part that is lost with its worker is computed again.
"""

from bagwise.distributed._fit import fit

__all__ = ["fit"]
