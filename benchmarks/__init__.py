"""Benchmarks of bagwise, run by airspeed velocity: ``asv run --python=same``."""

import os

# Parallelism is not measured: use one thread, set before NumPy is imported.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
