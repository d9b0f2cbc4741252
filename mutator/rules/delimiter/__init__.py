"""Java's field delimiter regexes, on bytes."""
