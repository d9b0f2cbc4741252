"""The versioned table: it takes mutations without touching existing data.

snapshot     the live files, masks and state of one version
create       version 1: of nothing, or of a dataset
apply        merge a feed into a new version
scan         the rows of a version, as Arrow batches; the record of a key
"""
