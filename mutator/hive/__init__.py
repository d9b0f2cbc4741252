"""Tables of a metastore, through Spark SQL: the other edge to Spark, which merges nothing.

live_table    what a table is, and where its files lie
table         a change of it: staged, and committed by one transaction of the metastore
create        a new table
frames        its rows as batches of Arrow columns, in tasks
metastore     what is asked of the JVM; ``insert``, ``staged_table`` and ``spark_types`` serve it
"""
