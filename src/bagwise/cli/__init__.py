"""The command line: every command calls one public function."""

from bagwise.cli._main import main

__all__ = ["main"]
