"""What a run reads and writes: which format the engine merges, the layout of each file, and what is written.

Delimited text keeps the bytes of its rows and knows its fields by their places (``text_rows``); all other
formats have fields with names and types (``named_rows``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mutator.plan.rows.partitioning import Partitioning

__all__ = ["RowPlan"]


@dataclass(frozen=True)
class RowPlan:
    """What the plan must know of rows."""

    block_type: str  # a key of ``formats.blocks.registry.BLOCK_TYPES``
    layouts: Mapping[str, Any]  # "master", "feed" and, for files of other schemas, more
    output: Any  # the format's own: what is written
    spec: dict[str, Any]  # as the manifest has it
    order_type: str
    layout_of: Mapping[str, str] = field(default_factory=dict)  # path of a file -> its layout, if not its side's
    in_ranges: Mapping[str, bool] = field(default_factory=dict)  # path -> False: it is read whole
    carries: bool = True  # files of the master are such as this run writes
    whole: bool = False  # what is written has one checksum, not one for each split
    partitioning: Partitioning | None = None  # "written" is then a layout, too: of rows as they are written
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
