"""Read files into tables: `load_table` detects the type of a file, a folder, a stream or a database, and returns a
frame.

There is one module per container format. Shared code is in `source` (bytes and their text) and `compression`.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
