"""Tables that are made in this process, although a Spark session is running in it: a job costs more than the merge."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mutator.pipeline import runners


@pytest.fixture(autouse=True)
def applies_here() -> Iterator[None]:
    """Merge on Spark only DataFrames, and what a test says: a module that imports this does so in all its tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runners, "configured_spark", lambda: None)
        yield
