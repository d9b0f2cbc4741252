"""Tables as inputs of Spark.

frame         a version as a DataFrame, whose files Spark reads itself
source        ``format("mutator")``: versions and changes by Spark's data source API for Python, for SQL and streams
sink          the same format for DataFrames and streams that are merged into a table
registration  makes that format known to a session
"""
