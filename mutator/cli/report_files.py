"""The files that a command writes beside its report: for people a page. None of them can fail a merge.

The merge is committed before they are written. A file that cannot be written is a warning.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from mutator.cli.command import option
from mutator.errors import MutatorError

HTML = option("--html", metavar="FILE", help="also write the report as a page of HTML (extra: report)")
_DIRECTORIES = ("incr", "working", "output", "archive", "backup", "master", "table", "_mutator")  # of a base


class ReportFiles:
    """The files that a command line asks for."""

    def __init__(self, arguments: argparse.Namespace, places: Iterable[tuple[str, str]]) -> None:
        """Check the options. Raises ConfigError.

        places: the role and the path of each directory that has data, where a file would be taken for data.
        """
        self._html: str | None = getattr(arguments, "html", None)
        if self._html is not None:
            from mutator.pipeline.html_report.page import check_installed

            check_installed("--html")
            _check_place(self._html, places, "report")

    def write(self, report: Any) -> Iterator[str]:
        """Write the files; yield a warning for each that cannot be written.

        report: has ``html()``; None where there was nothing to merge.
        """
        if self._html is not None and report is not None:
            yield from _written(self._html, report.html)


def places_of_base(base: str) -> list[tuple[str, str]]:
    """Return the roles and paths of the directories of a base."""
    return [(f"{name}/ of the base", f"{base.rstrip('/')}/{name}") for name in _DIRECTORIES]


def _check_place(path: str, places: Iterable[tuple[str, str]], role: str) -> None:
    """Raise ConfigError if a file that will be written is within a directory that has data."""
    from mutator.dataset.commit.publish import check_apart
    from mutator.storage import located, located_to_write

    _, full = located_to_write(path)
    for other_role, place in places:
        check_apart(full, located(place)[1], role=role, other_role=other_role)


def _written(path: str, content: Callable[[], str]) -> Iterator[str]:
    """Write a file whole; yield a warning if that fails, for whatever reason."""
    from mutator.storage import located_to_write

    try:
        storage, full = located_to_write(path)
        storage.replace(full, content().encode("utf-8", "backslashreplace"))
    except MutatorError as fault:
        yield f"the merge is complete, but its report was not written: {fault}"
    except Exception as fault:  # noqa: BLE001  # a bug of the report must not look like one of the merge
        yield f"the merge is complete, but its report was not written: {path}: {type(fault).__name__}: {fault}"
