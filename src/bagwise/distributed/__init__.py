"""Fit on partitions that live on a cluster, through dask.

Only sums are sent: every part contributes to a sum over bags, and the total is used in
the calling process. A part that is lost with its worker is recomputed.
"""

from bagwise.distributed._files import read_parts
from bagwise.distributed._fit import fit
from bagwise.distributed._predict import predict, score

__all__ = ["fit", "predict", "read_parts", "score"]
