"""``--feed -``: one feed file from stdin, which is read to its end before the command begins.

Its name is its checksum, so the same bytes are the same file when they come again.
"""

import argparse
import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import wraps
from typing import Any

from mutator.cli.messages import notify
from mutator.errors import MutatorError, error
from mutator.errors.parts import PATH
from mutator.rules.file_names import COMPRESSIONS

STDIN = "-"
_BLOCK, _MAGIC = 1 << 20, 64
CarryOut = Callable[[argparse.Namespace], Iterator[Any]]


def reading_stdin(carry_out: CarryOut) -> CarryOut:
    """Return a command with ``-`` among its feed replaced by a temporary file, which is removed in all cases."""

    @wraps(carry_out)
    def with_file(arguments: argparse.Namespace) -> Iterator[Any]:
        if STDIN not in (arguments.feed or ()):
            yield from carry_out(arguments)
            return
        from mutator.engine.scratch import scratch_directory

        _check_place(arguments)
        with ExitStack() as stack:
            directory = scratch_directory(stack)
            path = _spooled(arguments, directory)
            arguments.feed = [path if one == STDIN else one for one in arguments.feed]
            arguments.shown_path = lambda one: one.removeprefix(f"{directory}/")  # nobody finds the file afterwards
            try:
                yield from carry_out(arguments)
            except MutatorError as fault:
                if fault.kind == "sequence.missing" and os.path.basename(path) in str(fault):
                    what = "--feed - has no file name, and order comes from file names: set --order-by, or name files"
                    raise error("usage", what=what) from None
                fault.say({PATH: arguments.shown_path})
                raise

    return with_file


def _check_place(arguments: argparse.Namespace) -> None:
    """Raise ConfigError where the tasks may run on machines that do not have the temporary file."""
    is_elsewhere = "MASTER" in os.environ or "PYSPARK_GATEWAY_PORT" in os.environ
    is_local = getattr(arguments, "runner", None) == "local" or "runner=local" in arguments.settings
    if is_elsewhere and not is_local:
        what = (
            "--feed - is read on this machine, and a Spark master is configured, whose tasks may run on others: add "
            "--runner local, or write the file to a storage that all of them reach"
        )
        raise error("usage", what=what)


def _spooled(arguments: argparse.Namespace, directory: str) -> str:
    """Write stdin to a file; return its path. Raises StorageError."""
    from mutator.storage.compression import sniff

    if sys.stdin is None:
        raise error("usage", what="--feed - reads stdin, which is closed")
    if sys.stdin.isatty():
        notify(arguments, "reading the feed from this terminal: type its rows, then Ctrl-D")
    path, digest, head = f"{directory}/stdin", hashlib.sha256(), b""
    try:
        with open(path, "xb") as file:
            while block := sys.stdin.buffer.read(_BLOCK):
                head = head or block[:_MAGIC]
                digest.update(block)
                file.write(block)
        content = sniff(head)
        suffix = next((suffix for suffix, name in COMPRESSIONS.items() if name == content), "")
        named = f"{directory}/stdin-{digest.hexdigest()[:32]}{suffix}"
        os.rename(path, named)
    except OSError as fault:
        raise error("scratch", path=directory, why=fault.strerror or fault) from None
    return named
