"""The versioned table: it takes mutations without touching existing data.

table         all of it, as an object (arguments, rows)
new_table     create a table (create), with the rows of a dataset (take_over)
apply         merge a feed into a new version (prepare, agreement, memory_feed, next_version, recorded, report)
commit        make the next version exist, in turn and after the versions of other writers
claiming_run  an apply as a part of a workflow
scan          the rows of a version (scan_parts, row_output)
find          the record of a key, and its versions (earlier_files: its files by path)
changes       the changes of versions (changed_rows, images)
history       all versions of records, of a table that keeps them
compact       write buckets with many files or hidden rows anew (compact_choice, idle; closing: of a history)
clean         remove what no version needs (clean_plan, clean_removal)
outlived      readers whose versions are cleaned while they read: an error, or what is left
tags          names of versions (restore: bring one back; reader_place: bookmarks)
export        a version as a dataset
upkeep        compact, clean, tag and restore for callers
description   the versions, and what a table has (version_times)
verify        a table compared with its log (verify_log, verify_rows: of verify_file)
spark_source  tables as inputs and outputs of Spark
"""
