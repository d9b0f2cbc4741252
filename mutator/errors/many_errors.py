"""The error catalogue of runs over many tables: exit code to the messages of its error kinds."""

MANY: dict[int, dict[str, str]] = {
    2: {  # usage and configuration
        "many.nothing": "{path}: there is no record of an earlier run, so nothing to resume; run without --resume",
        "many.threads": (
            "PYSPARK_PIN_THREAD is false, so Spark cannot tell the jobs of one table from those of another; unset it"
        ),
    },
    5: {  # state
        "many.busy": "{path}: another run of these tables is at work and uses this record; wait for it, or stop it",
        "many.deadline": (
            "{table}: was stopped at its deadline, after {seconds} s, and nothing of it was published; give it more "
            "time, and run again with --resume"
        ),
        "many.feed": "{path}: another run is giving the feed files of this directory to its tables; wait for it",
        "many.record": (
            "{path}: the record cannot be read: {why}; use a newer program, or move the record away, and run without "
            "--resume"
        ),
    },
}
