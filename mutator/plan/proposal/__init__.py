"""Propose a configuration from the first rows of master and feed: pure rules, each with its reason.

inputs         find and read the first rows; only it and guessed_encoding open files
guessed_encoding    the encodings of both sides, by their first bytes
dialects       lines → delimiter, quotes, header
tables         the first rows of the files, by field; fields of master and feed, numbered or named alike
messages       feeds of messages: dialect, table, types, record ID
operations     op code field, delete codes, prefix of delete files
record_ids     fields of the record ID
order_fields   field of the order value, or the sequences of file names
partitions     partition directories → partition fields
file_forms     the settings of formats, delimiter, header and names
key_and_order  the settings of record ID and order, with questions
propose        all of these, in the order in which one decision needs another → ``Proposal``, with notes
choices        ``Choice``, ``Proposal``: settings with reasons, alternatives and questions; as a commented TOML file
"""
