"""SAFE: least squares on sums over bags."""
