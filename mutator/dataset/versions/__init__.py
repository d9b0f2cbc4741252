"""A versioned table on disk.

table_codec    an entry of the log as JSON members, and back
log            the entries, checkpoints of them, and the hint that names the newest
checkpoint     the live files, masks and state of a version
key_index      beside each data file: key hashes, positions, row hashes and keys; hashes to look up
hidden_rows    the version index: rows of older files that a version hides or touches, and those that it withdraws
merged_keys    the key indexes of many small files as one, in memory
packs          the contents that many log entries have, in one object; the verified bytes of a file, wherever they are
paged_file     verified ranges of a file
masks          which rows of the live files are hidden or touched
snapshot       the live files of a version, their masks, and the state
nearby         copies of the newest entries on this machine, for a slow storage
opening        the snapshot of a version, from the hint, a checkpoint and the log
"""
