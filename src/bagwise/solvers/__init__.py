"""Numerical problems and their solvers: numbers in, numbers out, no estimator."""
