"""Compiled loops over rectangles."""
