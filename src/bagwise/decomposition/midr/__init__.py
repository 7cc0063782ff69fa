"""MIDR: a sparse projection learned from bags."""
