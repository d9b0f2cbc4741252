"""The format bridge: tables of other storage formats, by way of delimited text.

    export     a table → a text copy
    importing  a text copy → a table
    run        export, if need be → merge → import, with the text copy kept
    state      which text copy belongs to which state of a table

Two kinds of tables (``table.Table``): a directory (``path_table``) and a table of the metastore (``metastore_table``).
What stands in a text copy is said in ``dataset``; ``layout``, ``split``, ``write`` and ``tasks`` read and write files.
"""

from mutator.bridge.export import export
from mutator.bridge.importing import import_to_path
from mutator.bridge.metastore_table import MetastoreTable, import_to_table
from mutator.bridge.path_table import PathTable
from mutator.bridge.run import one_byte, run

__all__ = ["MetastoreTable", "PathTable", "export", "import_to_path", "import_to_table", "one_byte", "run"]
