import sys
import time

import numpy as np
import pytest

from bagwise.comparison.run_one import Limits, PeakMemory, RunTimeLimit


def test_time_limit_stops_python_code_and_is_then_over():
    with pytest.raises(RunTimeLimit, match=r"limit of 0\.05 s"):
        with Limits(seconds=0.05).hold():
            time.sleep(5)
    with Limits(seconds=0.05).hold():
        pass
    time.sleep(0.1)


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of data is Linux's")
def test_memory_limit_refuses_and_is_then_lifted():
    with Limits(n_bytes=50_000_000).hold():
        np.ones(1_000_000)
        with pytest.raises(MemoryError):
            np.ones(40_000_000)
    assert np.ones(40_000_000).sum() == 40_000_000


@pytest.mark.skipif(sys.platform != "linux", reason="the mark can be reset on Linux")
def test_peak_memory_sees_what_was_freed_again():
    with PeakMemory() as peak:
        block = np.ones(10_000_000)
        del block
    assert 70_000_000 < peak.n_bytes < 120_000_000
    with PeakMemory() as peak:
        pass
    assert peak.n_bytes < 20_000_000
