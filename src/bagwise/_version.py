"""The version, for those who must not import the whole package to know it."""

__version__ = "0.1.0.dev0"
