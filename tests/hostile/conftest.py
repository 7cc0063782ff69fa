"""The writers and readers of parts that the tests of `io` use are used here as well."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "io"))
