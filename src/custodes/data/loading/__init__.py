"""Files to tables: `load_table` finds what a file, a folder, a stream or a database is, and makes one frame of it.

One file a container; what all of them share stands in `source` (where bytes come from), `text` and `compression`.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
