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
from mutator.config import Config
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


def check_runner(arguments: argparse.Namespace, config: Config) -> None:
    """Raise ConfigError where the tasks of a feed from stdin may run on machines that lack the temporary file."""
    has_tasks = hasattr(arguments, "shown_path") and hasattr(arguments, "runner")
    is_elsewhere = "MASTER" in os.environ or "PYSPARK_GATEWAY_PORT" in os.environ
    if has_tasks and is_elsewhere and config.effort.runner != "local":
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
