"""How rows are read and written: one schema for the result, one layout for each input schema."""
