"""The two steps of a merge into a partitioned master: plain functions, no Spark."""
