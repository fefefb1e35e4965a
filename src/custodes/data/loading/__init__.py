"""Files to tables: `load_table` finds what a file, a folder, a stream or a database is, and makes one frame of it.

One file a container; what all of them share stands in `source` (where bytes come from), `text` and `compression`.
"""

from __future__ import annotations

from custodes.lazily import on_first_use

TYPE_CHECKING = False
if TYPE_CHECKING:
    from custodes.data.loading.compression import LARGEST as LARGEST
    from custodes.data.loading.compression import LARGEST_MEMBER as LARGEST_MEMBER
    from custodes.data.loading.load import holds_table as holds_table
    from custodes.data.loading.load import load_table as load_table
    from custodes.data.loading.records import parse_json as parse_json
    from custodes.data.loading.sidecar import files_of_sidecar as files_of_sidecar
    from custodes.data.loading.sidecar import sidecar_raters as sidecar_raters
    from custodes.data.loading.sidecar import without_sidecars as without_sidecars
    from custodes.data.loading.source import check_exists as check_exists
    from custodes.data.loading.source import exists as exists
    from custodes.data.loading.source import file_bytes as file_bytes
    from custodes.data.loading.source import is_standard_input as is_standard_input
    from custodes.data.loading.source import is_stream as is_stream
    from custodes.data.loading.source import matches as matches
    from custodes.data.loading.source import path_and_part as path_and_part
    from custodes.data.loading.source import small_file as small_file
    from custodes.data.loading.table import Table as Table
    from custodes.data.loading.text import utf8_text as utf8_text

_HOMES = {
    "files_of_sidecar": "sidecar",
    "sidecar_raters": "sidecar",
    "without_sidecars": "sidecar",
    "LARGEST": "compression",
    "LARGEST_MEMBER": "compression",
    "holds_table": "load",
    "load_table": "load",
    "parse_json": "records",
    "check_exists": "source",
    "exists": "source",
    "file_bytes": "source",
    "is_standard_input": "source",
    "is_stream": "source",
    "matches": "source",
    "path_and_part": "source",
    "small_file": "source",
    "Table": "table",
    "utf8_text": "text",
}
__all__ = [
    "LARGEST",
    "LARGEST_MEMBER",
    "Table",
    "check_exists",
    "exists",
    "file_bytes",
    "files_of_sidecar",
    "holds_table",
    "is_standard_input",
    "is_stream",
    "load_table",
    "matches",
    "parse_json",
    "path_and_part",
    "sidecar_raters",
    "small_file",
    "utf8_text",
    "without_sidecars",
]
__getattr__ = on_first_use(__name__, _HOMES)
"""Whether a file is a study is known without a table."""
