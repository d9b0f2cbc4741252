"""Keep Arrow from importing pandas: it does so with its first array, wherever pandas is installed.

That takes a fifth of a second, and only tables of a metastore need pandas.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class _Finder:  # not an importlib.abc.MetaPathFinder, whose module takes milliseconds
    def find_spec(self, name: str, *_: Any) -> None:
        """Raise ImportError for pandas, as if it were not installed; leave all other modules to other finders."""
        if name == "pandas":
            raise ModuleNotFoundError("pandas is hidden from Arrow", name=name)


def hide_pandas() -> None:
    """Hide pandas from every import of this process."""
    sys.meta_path.insert(0, _Finder())


@contextmanager
def pandas_hidden() -> Iterator[None]:
    """Hide pandas for the time of the ``with`` block. Arrow looks for it once, and again only if it is told to use it.

    >>> with pandas_hidden():
    ...     _ = pa.array([])                                                                  # doctest: +SKIP
    """
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
