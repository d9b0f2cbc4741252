"""The contract of a merge as pure functions: nothing here opens a file or knows Spark.

envelope, envelopes    what a row of a file does: an upsert, a delete, a truncate, nothing
flat_dialects          the fields that say so in flat rows of other programs
register, last_wins    what becomes of a key: its mutations meet its record or tombstone; plan.registers chooses
truth_table            the decisions of last wins
order_values           the order of mutations, and the types of order values
known_formats          the file formats, without the libraries that read them
file_names             what names of files say: sequences, deletes, formats
encodings              text that is not UTF-8
partition_fields       the partition of a row
"""
