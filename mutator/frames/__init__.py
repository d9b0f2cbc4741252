"""Rows in the memory of a Python caller.

file_rows      the rows of one typed or delimited file, as batches of a schema
"""
