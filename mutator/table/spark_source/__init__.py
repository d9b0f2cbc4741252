"""Tables as inputs of Spark.

frame         a version as a DataFrame, whose files Spark reads itself
masked_files  the rows of such files that are not hidden
arrow_frames  rows of this process as a DataFrame
batches       a version as an RDD of Arrow batches
source        ``format("mutator")``: versions and changes by Spark's data source API for Python, for SQL and streams
sink          the same format for DataFrames and streams that are merged into a table
registration  makes that format known to a session
"""
