"""What the driver decides before any task runs, without Spark."""
