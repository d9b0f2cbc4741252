"""MergeUnit: the buckets of one partition that are merged in one task.

A master without partitions is one partition without a directory.
"""

from typing import Any

from mutator.errors.quick_dataclass import dataclass
from mutator.rules.partition_paths import lacks_value, values_of


@dataclass(frozen=True)
class MergeUnit:
    """The buckets of a partition whose numbers are equal modulo ``groups``."""

    group: int
    groups: int
    buckets: int | None  # of the partition in the output; None: the master keeps its files, and this is one of them
    partition: str | None = None  # its directory; "" for tombstones without a partition; None: there are no partitions
    replaced: bool = False  # by an insert overwrite

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the buckets, or that of the file."""
        return (self.group,) if self.buckets is None else tuple(range(self.group, self.buckets, self.groups))

    @property
    def prefix(self) -> str:
        """The directory of its files, with a slash; "" without partitions."""
        return f"{self.partition}/" if self.partition else ""

    @property
    def lacks_value(self) -> bool:
        """Return whether a partition field has no value in the rows of its partition."""
        return bool(self.partition) and lacks_value(str(self.partition))

    def described(self) -> dict[str, Any]:
        """Return the members of a file's entry in the manifest that describe its partition."""
        if self.partition is None:
            return {}
        values = dict(values_of(self.partition)) if self.partition else {}
        return {"partition": values, "buckets": self.buckets}
