"""The difference of two datasets, record by record.

It is the merge that overwrites the old one with the new one, of which nothing is written but the rows that change:
so it has the readers, the joins, the runners and the memory limits of a merge.
"""
