"""The version, for those who must not import the whole package to know it."""

__version__ = "0.2.0"
