"""The annotation protocol, which can be replayed on collected data, planned by simulation, or run live."""

from lazy_loader import attach

__getattr__, __dir__, __all__ = attach(__name__, ["live"])
