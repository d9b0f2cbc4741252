"""The end of a process of the command line: with its exit code, whatever the threads of its libraries do."""

from __future__ import annotations

import atexit
import logging
import os
import sys
from contextlib import suppress


class ProcessEnd:
    """Ends the process after the handlers of ``atexit``, instead of letting the interpreter take itself apart.

    Threads of Arrow may still give up Python objects then, and now and then one of them aborts the process
    (github.com/apache/arrow/issues/34314): a command that had succeeded ended with exit code 134. Handlers that were
    registered earlier do not run, except for the one of ``logging``: importing the command line registers it.
    """

    def __init__(self) -> None:
        """Register the end. Handlers that are registered later run before it."""
        self._code: int | None = None
        atexit.register(self._end)

    def exit_code(self, code: int) -> int:
        """Remember the exit code, and return it. Without one the interpreter ends as usual."""
        self._code = code
        return code

    def _end(self) -> None:
        if self._code is None:
            return
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):  # closed, broken, or not there
                stream.flush()
        os._exit(self._code)
