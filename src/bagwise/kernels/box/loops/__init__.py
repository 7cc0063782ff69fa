"""Compiled loops of the box-counting kernel."""
