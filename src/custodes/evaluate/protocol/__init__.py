"""The annotation protocol: replayed on paper, planned before anybody is paid, run with people."""

from lazy_loader import attach

__getattr__, __dir__, __all__ = attach(__name__, ["live"])
