"""Tables as inputs of Spark.

frame         a version as a DataFrame, whose files Spark reads itself
source        ``format("mutator")``: versions and changes by Spark's data source API for Python, for SQL and streams
registration  makes that format known to a session
"""
