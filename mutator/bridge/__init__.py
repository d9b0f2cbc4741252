"""The format bridge: merge into tables of other storage formats, by way of delimited text.

contract           the operations of a table: list its files, replace them in one step
path_table         a table that is a directory of ORC, Parquet or Avro files; table_files lists them
hive               a table of a metastore
importing          a table → a text copy (text_dataset), and a text copy → a table
round_trip         export if needed → merge → import; the text copy is kept; the report
recovery           which text copy belongs to which state of a table; finish or undo the work of killed runs
digests            find the partitions that a merge changed
write              write rows in tasks, grouped by partition
"""

from mutator.bridge.importing import export, import_to_path
from mutator.bridge.path_table import PathTable
from mutator.bridge.round_trip import one_byte, run

__all__ = ["PathTable", "export", "import_to_path", "one_byte", "run"]
