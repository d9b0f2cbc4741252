"""Rows in the memory of a Python caller: tables as inputs of a merge, and datasets as tables.

recognize      names the libraries whose tables are known, without importing them
write          any table as Arrow batches of fitting types, in a scratch file
file_rows      the rows of one typed or delimited file, as batches of a schema
text_fields    the fields of a dataset of delimited text, as columns of text
dataset        the rows of a dataset, as tables
rejected       the rejected rows of a run, as tables
scratch        a directory that is removed with the object that has it
"""
