"""How the rows move: read, shuffle, reduce, write. Only ``engine.spark`` imports pyspark."""
