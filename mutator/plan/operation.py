"""The operation of a run, ``apply`` or an insert overwrite, which depends on whether its feed has any rows."""

from collections.abc import Iterator, Sequence

from mutator.config.settings import LimitSpec, OperationSpec
from mutator.errors import error
from mutator.errors.parts import place
from mutator.plan.inspect.first_rows import has_rows
from mutator.plan.inspect.source import Source


def operation_of(operation: OperationSpec, feed: Sequence[Source], is_partitioned: bool) -> str:
    """Return the operation of a run: an overwrite by a feed without rows replaces nothing, so it is an apply.

    Where there are partitions, those of the feed's rows show which ones are replaced.
    """
    if operation.name != "insert_overwrite" or is_partitioned:
        return operation.name
    return operation.name if any(map(has_rows, feed)) else "apply"


def operation_notes(operation: OperationSpec, feed: Sequence[Source]) -> Iterator[str]:
    """Yield a note on an overwrite that replaces nothing."""
    if operation.name == "insert_overwrite" and not any(map(has_rows, feed)):
        yield "nothing is replaced: the feed has no rows"


def check_operation(operation: OperationSpec, limits: LimitSpec, feed: Sequence[Source], paths: Sequence[str]) -> None:
    """Raise DataError where there are no feed files to replace everything. paths: where they should be."""
    if operation.name == "insert_overwrite_table" and not feed and not limits.allow_empty_feed:
        raise error("overwrite.empty", path=", ".join(map(place, paths)))
