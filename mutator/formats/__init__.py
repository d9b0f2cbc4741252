"""Bytes to rows and back: a module a format."""
