"""Read files into tables: `load_table` detects the type of a file, a folder, a stream or a database, and returns a
frame.

One module per container; shared code is in `source` (where bytes come from), `text` and `compression`.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
