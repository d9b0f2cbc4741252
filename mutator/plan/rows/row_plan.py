"""The row plan: how the rows of each file are read, and how rows are written.

Delimited text keeps the bytes of its rows and knows fields by position (``text_rows``); rows of all other formats have
a schema (``schema_rows``).
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from mutator.errors.quick_dataclass import dataclass
from mutator.formats.values.row_filter import Scope
from mutator.plan.rows.partitioning import Partitioning

PATCHES = "patches"  # in the specification of a place: what a patch of an unknown record does
IGNORED = "fields that do not count"  # likewise: their names
MERGES = "merge functions"  # likewise: of fields, by their names


@dataclass(frozen=True)
class RowPlan:
    """How a run reads and writes rows."""

    block_type: str  # a key of ``formats.blocks.block_types.BLOCK_TYPES``
    layouts: Mapping[str, Any]  # "master", "feed", and more for files of other schemas
    output: Any  # how to write, in the block type's own form
    spec: dict[str, Any]  # for the manifest
    order_type: str
    layout_of: Mapping[str, str] = field(default_factory=dict)  # path -> layout, if not its side's
    orders_beside: bool = False  # rows do not have their order values
    epoch: int = 0  # of the feed's rows, unless the order fields have it
    carries: bool = True  # files of the master can stay: this run would write the same
    whole: bool = False  # a written file has one checksum, not one per split
    partitioning: Partitioning = field(default_factory=Partitioning)  # with fields, "written" is a layout, too
    scope: Scope | None = None  # the part of the master that a full snapshot has, by the fields of written rows
    width_from: str = ""  # of delimited text: why a row has as many fields, for messages
    standard: str = ""  # path of the feed file that says it, if as many others begin with another number
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
