"""The annotation protocol: replayed on collected data, planned by simulation, or run live."""

from lazy_loader import attach

__getattr__, __dir__, __all__ = attach(__name__, ["live"])
