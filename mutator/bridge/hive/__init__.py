"""Tables of a metastore, read and written by Spark SQL; the merge itself is the bridge's.

metastore_table   the bridge's table: read and written by Spark as Arrow batches, committed by the metastore
live_table        the table as it is: its schema in Arrow's types, its format and its files
table             a change of the table: staged, then committed by one transaction of the metastore
staged_table      the record of a change, logged before the commit; new tables; ``INSERT OVERWRITE``
metastore         the calls to the JVM
"""

from mutator.bridge.hive.metastore_table import MetastoreTable, import_to_table

__all__ = ["MetastoreTable", "import_to_table"]
