"""A dataset on disk, and how it is committed.

state, file_entry      what a version has: its files, counts and settings
commits, version_log   the versions of a base or a table: their actions, and what each says
manifest, directory    the manifest of a dataset, and the files beside it
side_columns           values beside the rows of a data file: sequences, and columns of a register
followers              files for programs that do not know the log, made of each new version
commit                 staging and publishing of a directory
versions               the log of a table, with its checkpoints, masks and key indexes
"""
