"""Multi-instance learning with scikit-learn's API."""

from bagwise.bags import Bags, Ragged, as_bags, from_frame, to_frame

__version__ = "0.1.0.dev0"

__all__ = ["Bags", "Ragged", "as_bags", "from_frame", "to_frame"]
