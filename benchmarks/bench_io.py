"""Tables and folders into bags, next to reading the same numbers alone; reports."""

import tempfile
from pathlib import Path

import numpy as np

from bagwise.comparison import CrossValidation, compare
from bagwise.io import from_frame, read_bags
from bagwise.report import write_report

from .common import Benchmark, gaussian, seconds


class Csv(Benchmark):
    """A table of 17-digit numbers with a text bag column, 50 features."""

    params = (600, 60_000)
    param_names = ("rows",)

    def setup(self, n_rows):
        """Write the table."""
        try:
            import pandas
        except ImportError as error:
            raise NotImplementedError("pandas is not installed") from error
        super().setup()
        self.pandas = pandas
        rows = np.random.default_rng(0).normal(size=(n_rows, 50))
        frame = pandas.DataFrame(rows, columns=[f"x{j}" for j in range(50)])
        bag = np.arange(n_rows) // 20
        frame.insert(0, "mol", [f"mol{b}" for b in bag])
        frame.insert(1, "active", bag % 2)
        self.frame, self.folder = frame, tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name, "table.csv")
        frame.to_csv(self.path, index=False)

    def teardown(self, n_rows):
        """Remove the table."""
        self.folder.cleanup()

    def time_read_bags(self, n_rows):
        """Read the file."""
        read_bags(self.path, "mol", "active")

    def time_from_frame(self, n_rows):
        """Turn a pandas table into bags."""
        from_frame(self.frame, "mol", "active")

    def track_read_bags_over_pandas(self, n_rows):
        """Seconds of `read_bags` over those of `pandas.read_csv`."""
        alone = seconds(lambda: self.pandas.read_csv(self.path))
        return seconds(lambda: read_bags(self.path, "mol", "active")) / alone

    track_read_bags_over_pandas.unit = "times"


class Slides(Benchmark):
    """A folder of h5 files, each with 1,000 x 512 numbers of half precision."""

    params = (2, 100)
    param_names = ("files",)

    def setup(self, n_files):
        """Write the files."""
        try:
            import h5py
        except ImportError as error:
            raise NotImplementedError("h5py is not installed") from error
        super().setup()
        self.h5py, self.folder = h5py, tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name, "features")
        self.path.mkdir()
        rng = np.random.default_rng(0)
        rows = rng.normal(size=(1_000, 512)).astype(np.float16)
        for i in range(n_files):
            with h5py.File(self.path / f"s{i:03d}.h5", "w") as file:
                file["features"] = rows
                file["coords"] = np.zeros((len(rows), 2), dtype=np.int32)

    def teardown(self, n_files):
        """Remove the files."""
        self.folder.cleanup()

    def _alone(self):
        kept = []
        for path in sorted(self.path.glob("*.h5")):
            with self.h5py.File(path, "r") as file:
                kept.append(file["features"][:])
        return kept

    def time_read_bags(self, n_files):
        """Read the folder into memory."""
        read_bags(self.path, cache=False)

    def track_read_bags_over_h5py(self, n_files):
        """Seconds of `read_bags` over those of h5py for the same rows."""
        own = seconds(lambda: read_bags(self.path, cache=False))
        return own / seconds(self._alone)

    track_read_bags_over_h5py.unit = "times"


class Report(Benchmark):
    """The page of a comparison of two methods."""

    params = (40, 2_000)
    param_names = ("bags",)

    def setup(self, n_bags):
        """Compare two methods."""
        super().setup()
        X, y = gaussian(n_bags, 5, 10)
        self.folder = tempfile.TemporaryDirectory()
        self.page = Path(self.folder.name, "report.html")
        self.found = compare(
            X,
            y,
            methods=["SimpleMI", "MI-SVM (linear)"],
            protocol=CrossValidation(2),
            grid="none",
            progress=False,
            n_jobs=1,
            time_limit=None,
        )

    def teardown(self, n_bags):
        """Remove the page."""
        self.folder.cleanup()

    def time_write(self, n_bags):
        """Write the page."""
        write_report(self.found, self.page)

    def track_bytes(self, n_bags):
        """Size of the page."""
        write_report(self.found, self.page)
        return self.page.stat().st_size

    track_bytes.unit = "bytes"
