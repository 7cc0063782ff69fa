"""The format of model files: an archive of arrays and a description of objects.

Nothing in a file names code. A class is looked up in a registry and its objects are
made without their constructor; a function is known by a name of ours; what compiled
code will follow (offsets, nodes, support vectors) is checked before the model is given
out.
"""

from bagwise.io.model_files._registry import find_described

__all__ = ["find_described"]
