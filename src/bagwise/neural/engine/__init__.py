"""The training loop and its parts: arrays and torch, no estimator."""
