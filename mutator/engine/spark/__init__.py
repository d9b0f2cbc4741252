"""The engines on Spark: RDDs, the session."""
