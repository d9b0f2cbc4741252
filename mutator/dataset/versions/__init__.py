"""What a versioned table is on disk.

version      one entry of the log: files added and removed, rows hidden
log          the entries, checkpoints of them, and the hint that names the newest
checkpoint   the live files, masks and state of a version
key_index    beside each data file: key hashes, positions, row hashes and keys
hidden_rows  the version index: rows of older files that a version hides or touches
paged_file   verified ranges of a file
snapshot     the live files of a version, which of their rows are hidden, and the state
opening      the snapshot of a version, from the hint, a checkpoint and the log
"""
