"""What the streams of the remote backends have in common, and where those that must wait are kept."""

from __future__ import annotations

import io
import os
from typing import Any

__all__ = ["ReadStream", "scratch_place"]


class ReadStream(io.RawIOBase):
    """A file that is read, by ``read``."""

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def seekable(self) -> bool:
        """Tell that it has places."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes, as many as there are at once."""
        view = memoryview(buffer).cast("B")
        data = self.read(len(view)) or b""
        view[: len(data)] = data
        return len(data)


def scratch_place() -> str | None:
    """Return a directory where Spark keeps files of its own; None where it names none."""
    places = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")
    return next((one for one in places if one and os.path.isdir(one)), None)
