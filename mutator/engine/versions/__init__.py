"""Merge the winners of a feed with the live rows of a versioned table, of which only few are read.

version_steps     an apply as map, shuffle and reduce
apply_task        the reduce task: winners in, delta files out
meeting           winners meet live rows, as the register decides
key_search        the live rows with the keys of winners (keys_by_bucket; met_rows: their order values and contents)
live_rows         rows of live files, and entries of their key indexes (earlier_forms, old_values)
stored_rows       the files: opened, verified, and their rows at some positions
delta_files       the files that a version adds (index_files)
second_decisions  what an apply changes because other writers were faster (common_keys)
absent            the deletes of a full snapshot
apart             keys that are unique only within a partition
export_task       a version as a dataset
compact_task      buckets as base files (indexed_rows, base_files), while versions follow (moved_rows)
events            the mutations that a table with history keeps (history_rows: read them; close_history: in buckets)
extent_rows       the live rows of extents (live_extents)
"""
