"""Measured coverage and size of the intervals and tests of `compare`."""
