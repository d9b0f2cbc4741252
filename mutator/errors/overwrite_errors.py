"""The error catalogue of insert overwrites: exit code to the messages of its error kinds."""

OVERWRITES: dict[int, dict[str, str]] = {
    2: {  # usage and configuration
        "overwrite.refused": "{write.operation={operation}}: {why}; {cure}",
    },
    3: {  # data
        "changed.empty": (
            "{path}: changed after the run was planned (it had no rows, and {after} were read); finish writing files "
            "before the run starts"
        ),
        "overwrite.empty": (
            "{path}: the feed has no rows, so {write.operation=insert_overwrite_table} would delete every record; if "
            "that is intended, run again with {-D allow.empty.feed=true}"
        ),
    },
    5: {  # state
        "overwrite.damage": (
            "{path}: {quoting why}; {the master}'s file is damaged: restore it from a copy on another disk, or, if all "
            "of it is replaced, go on without its records, whose deletes are then not remembered: {-D "
            "replace.damaged=true}"
        ),
    },
}
