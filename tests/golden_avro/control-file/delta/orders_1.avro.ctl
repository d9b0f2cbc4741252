rows=3
