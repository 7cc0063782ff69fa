"""Support vector machines for bags."""

__all__: list[str] = []
