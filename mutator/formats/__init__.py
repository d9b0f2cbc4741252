"""Bytes to blocks of rows, and back."""
