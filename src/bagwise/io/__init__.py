"""Tables and files to bags, and model files."""

from bagwise.io._errors import TableError, TableWarning
from bagwise.io._frames import from_frame, to_frame
from bagwise.io._models import load, save
from bagwise.io._survival import read_survival
from bagwise.io.readers import read_bags, write_npz

__all__ = [
    "TableError",
    "TableWarning",
    "from_frame",
    "load",
    "read_bags",
    "read_survival",
    "save",
    "to_frame",
    "write_npz",
]
