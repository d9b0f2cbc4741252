"""Errors with a message for the user and an exit code for the shell; stops; and points where tests inject faults.

exceptions       the classes, one a family of exit codes, and ``error``, which makes one from the catalogue
run_errors       the catalogue: errors of runs
workflow_errors  errors of workflows, and of runs over partitions or many tables
feed_errors      errors of feeds, changed rows and insert overwrites
version_errors   errors of versioned tables
table_errors     errors about tables that others own, and of Python callers: arguments, tables in memory
parts            the parts of a message that each audience writes in its own way
display          text as messages may show it
interrupts       signals: stop at once, or at the next safe point
failpoints       named points where a test makes the process fail
version          the version of the package, for messages
quick_dataclass  dataclasses that are quick to make; here because every room may import this one
"""

from mutator.errors.exceptions import ConfigError, DataError, MutatorError, StateError, StorageError, error, suppressed

__all__ = ["ConfigError", "DataError", "MutatorError", "StateError", "StorageError", "error", "suppressed"]
