"""The part of the catalogue of errors that is about runs of many tables: kind, exit code and text."""

from __future__ import annotations

__all__ = ["MANY"]

MANY: dict[str, tuple[int, str]] = {
    # 2: usage and configuration
    "many.nothing": (
        2,
        "{path}: is no record of a run, so there is nothing to resume; run without --resume",
    ),
    "many.threads": (
        2,
        (
            "PYSPARK_PIN_THREAD is false, and then Spark cannot tell the jobs of one table from those of another; "
            "unset it"
        ),
    ),
    # 5: state
    "many.busy": (
        5,
        "{path}: another run of these tables is at work now, for it has this record; wait for it, or end it",
    ),
    "many.deadline": (
        5,
        (
            "{table}: was stopped after {seconds} s at its deadline, and nothing of it was published; give it more "
            "time, and run again with --resume"
        ),
    ),
    "many.record": (5, "{path}: the record cannot be read: {why}; use a newer program, or run without --resume"),
}
