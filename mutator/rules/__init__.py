"""The contract of a merge as pure functions: nothing here opens a file or knows Spark."""
