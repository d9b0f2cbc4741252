"""The contenders, one module per system. Each is imported only in the process in which it runs."""
