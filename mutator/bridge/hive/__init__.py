"""Tables of a metastore, through Spark SQL, which merges nothing here.

metastore_table   such a table for the bridge: read and written by Spark, committed by the metastore
live_table        the table as it is: its type, and where its files are
table             a change of it: staged, then committed by one transaction of the metastore
staged_table      a change as it is logged before the table points to it
create            a new table
insert            ``INSERT OVERWRITE``, and the settings that it needs
frames            rows as batches of Arrow columns, in tasks
metastore         the calls to the JVM
spark_types       Spark's types as Arrow's
"""
