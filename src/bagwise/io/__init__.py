"""Tables, files and folders to bags, and model files."""

from bagwise.io._frames import from_frame, to_frame
from bagwise.io._models import load, save
from bagwise.io._read import read_bags
from bagwise.io.formats import write_npz

__all__ = ["from_frame", "load", "read_bags", "save", "to_frame", "write_npz"]
