"""How the rows move: read, shuffle, reduce, write. Only ``records`` imports pyspark."""
