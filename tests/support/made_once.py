"""Directories that many tests begin with: made once in a process, and copied for each test."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Hashable
from pathlib import Path

_MADE: dict[tuple[Hashable, ...], Path] = {}


def copy_of_made(path: Path, make: Callable[[Path], object], *variant: Hashable) -> Path:
    """Copy the directory that ``make(directory)`` fills to a path, and return the path.

    A variant is whatever else decides the content, for example the settings that a test has replaced.
    """
    key = (make.__module__, make.__qualname__, *variant)
    if key not in _MADE:
        place = Path(tempfile.mkdtemp(prefix="mutator-made-", dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")))
        atexit.register(shutil.rmtree, place, ignore_errors=True)
        (place / "made").mkdir()
        make(place / "made")
        _MADE[key] = place / "made"
    shutil.copytree(_MADE[key], path, dirs_exist_ok=True)
    return path
