"""Tables, files and folders to bags, and model files."""

from bagwise.io._frames import from_frame as from_frame
from bagwise.io._frames import to_frame as to_frame
from bagwise.io._models import load as load
from bagwise.io._models import save as save
from bagwise.io._read import read_bags as read_bags
from bagwise.io.formats import write_npz

__all__ = ["write_npz"]
