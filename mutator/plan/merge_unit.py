"""What is merged at a time: buckets of one partition that come together in a task.

A master without partitions is one partition without a directory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mutator.rules.partition_paths import values_of

__all__ = ["MergeUnit"]


@dataclass(frozen=True)
class MergeUnit:
    """Buckets that are equal modulo ``groups``, and whose files are written side by side."""

    group: int
    groups: int
    buckets: int | None  # of the partition in the output; None: the files of the master stay, this is their number
    partition: str | None = None  # its directory; "" for tombstones without a partition; None: there are no partitions

    @property
    def numbers(self) -> tuple[int, ...]:
        """The buckets, or the one number of a file."""
        return (self.group,) if self.buckets is None else tuple(range(self.group, self.buckets, self.groups))

    @property
    def prefix(self) -> str:
        """What stands before the names of its files."""
        return f"{self.partition}/" if self.partition else ""

    def described(self) -> dict[str, Any]:
        """Return what the manifest says of each of its files, besides the bucket."""
        if self.partition is None:
            return {}
        values = dict(values_of(self.partition)) if self.partition else {}
        return {"partition": values, "buckets": self.buckets}
