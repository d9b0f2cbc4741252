"""Where the filters of the keys of feed files are. A workflow without a feed needs only this, and no Arrow."""

from collections.abc import Mapping
from typing import Any, NamedTuple

DIRECTORY = "_mutator/feed_filters"


class FilterTarget(NamedTuple):
    """Where a run writes filters, and the settings to keep with them, by their published names."""

    directory: str  # full path
    settings: Mapping[str, Any]


def filter_path(directory: str, run: str, attempt: int) -> str:
    """Return the path of the filters of a run, as an attempt of its task writes them.

    >>> filter_path("base", "20261121T024702Z-23d57ff1", 1)
    'base/20261121T024702Z-23d57ff1-1.filters'
    """
    return f"{directory}/{run}{f'-{attempt}' if attempt else ''}.filters"


def run_of_filters(name: str) -> str:
    """Return the run that wrote filters, given the name of their file.

    >>> run_of_filters("20261121T024702Z-23d57ff1-1.filters")
    '20261121T024702Z-23d57ff1'
    """
    return "-".join(name.removesuffix(".filters").split("-")[:2])
