"""Merge the winners of a feed with the live rows of a versioned table, of which only few are read."""
