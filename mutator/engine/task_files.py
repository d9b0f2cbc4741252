"""The files of a task below the staging directory."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mutator.dataset.commit.staging import StagedFile
from mutator.plan.reading import Reading
from mutator.storage import storage_for


def file_name(plan: Reading, number: int, attempt: int) -> str:
    """Return the name of a task's files, unique to the attempt and without a suffix."""
    return f"part-{number:05d}-{plan.run}" + (f"-{attempt}" if attempt else "")


@contextmanager
def create(plan: Reading, staging: str, path: str, final: Callable[[], str] | None = None) -> Iterator[StagedFile]:
    """Create a file below the staging directory; it becomes visible when it is complete.

    path: relative to the staging directory. final: returns the path to rename it to, where that is known only after
    the last byte.
    """
    staged: list[StagedFile] = []

    def rename() -> str:
        assert final is not None
        staged[0].path = final()
        return f"{staging}/{staged[0].path}"

    with storage_for(staging).create_new(f"{staging}/{path}", None if final is None else rename) as stream:
        staged.append(StagedFile(stream, path, plan.chunks.written))
        yield staged[0]
