"""Errors with a message for the user and an exit code for the shell; stops; and points where tests inject faults.

exceptions     the classes, one a family of exit codes, and ``error``, which makes one from the catalogue
run_errors     the catalogue: errors of runs and workflows
many_errors    errors of runs of many tables
table_errors   errors about tables that others own
redact         addresses without their secrets
interrupts     signals: stop at once, or at the next safe point
failpoints     named points where a test makes the process fail
"""

from mutator.errors.exceptions import (
    BUSY,
    CATALOGUE,
    ConfigError,
    DataError,
    MutatorError,
    StateError,
    StorageError,
    error,
    from_traceback,
    key_text,
    printable,
    quoted,
    rebuilt,
    suppressed,
)

__all__ = [
    "BUSY",
    "CATALOGUE",
    "ConfigError",
    "DataError",
    "MutatorError",
    "StateError",
    "StorageError",
    "error",
    "from_traceback",
    "key_text",
    "printable",
    "quoted",
    "rebuilt",
    "suppressed",
]
