"""The envelope of the rows of a snapshot, each with the time at which it was taken."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from mutator.errors.quick_dataclass import dataclass
from mutator.rules.envelope import REJECTED, UPSERT, UPSERTS, Envelope, Operation
from mutator.rules.order_values import order_parser
from mutator.rules.snapshot_times import FirstTime


@dataclass(frozen=True, kw_only=True)
class OneTime(Envelope):
    """The envelope of a snapshot: a row with another time than the first one is a reject.

    It may be a row of another snapshot. The union of two is none: with the lower time, records that the later one
    lacks would stay, and with the higher one, records would go that no one deleted.

    >>> rows = OneTime(field="at", time=FirstTime(b"2026-01-31", "timestamp"))
    >>> rows.operation(b"2026-01-31T00:00:00Z").kind == UPSERT, rows.operation(b"2026-02-01").fault
    (True, "field at (time of the snapshot) is not '2026-01-31' as in the first row")
    """

    time: FirstTime | None  # None: no row has any, so that the run stops before it reads

    def of_records(self) -> Envelope:
        """Return the envelope of records, each of which may have come with another snapshot."""
        return UPSERTS

    @property
    def other(self) -> str:
        """Why a row with another time is a reject."""
        text = "" if self.time is None else self.time.text.decode("utf-8", "backslashreplace")
        return f"field {self.field} (time of the snapshot) is not '{text}' as in the first row"

    def operation(self, value: bytes) -> Operation:
        """Compare a value with that of the first row: as order values, so that several spellings are one time."""
        order = self._order(value)
        same = self.time is not None and (value == self.time.text or (order is not None and order == self._first))
        return Operation(UPSERT) if same else Operation(REJECTED, None, self.other)

    @cached_property
    def _first(self) -> Any:
        return None if self.time is None else self._order(self.time.text)

    def _order(self, value: bytes) -> Any:
        try:
            return None if self.time is None else order_parser(self.time.order_type)(value)
        except ValueError:
            return None
