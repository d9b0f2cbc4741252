"""How rows travel in memory: delimited text, typed columns, encoded Avro records."""
