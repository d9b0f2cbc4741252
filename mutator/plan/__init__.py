"""The decisions that the driver makes before any task runs, without Spark."""
