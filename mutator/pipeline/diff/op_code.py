"""The op code of feeds, in the comparison of datasets, whose rows usually lack it.

Where it is an ordinal, the ordinals after it are those of a feed row. A dataset may be a copy of feed files, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mutator.config import Config
from mutator.errors import error
from mutator.plan.inspect.source import Source
from mutator.plan.inspect.survey import Survey
from mutator.plan.rows.partitioning import moved


def lack_op(config: Config, survey: Survey, names: tuple[int, int], paths: tuple[str, str]) -> bool:
    """Return whether the rows of both datasets lack the op code of the feeds, an ordinal.

    names: how many fields of the old and the new one have a name. paths: of both. If only the old one lacks the op
    code, the new one has the form of a feed, and a merge reads both as they are. Raises ConfigError where nothing shows
    whether they have it.
    """
    old, new = paths
    known = survey.manifest
    ours, theirs = (names[0] or _width(survey.master), names[1] or _width(survey.feed))
    if known is not None:
        recorded = known.spec.get("width")
        own = recorded if isinstance(recorded, int) else ours
        return known.spec["op code"] is None and not 0 < own < theirs
    if config.op_keep or config.op_in_master is not None:
        return not (config.op_keep or config.op_in_master)
    count = len(config.field_names) or config.field_count
    is_counted = isinstance(count, int) and count > 0
    ordinals = [one for one in (*config.id_fields, config.order_field, config.op_field) if isinstance(one, int)]
    of_feed = count if isinstance(count, int) and is_counted else max(ordinals) + 1  # at least
    if not is_counted and 0 < of_feed <= ours == theirs:  # both read as a feed, one field would not be compared
        raise error("diff.op", old=old, new=new, field=config.op_field, count=ours)
    return 0 < max(ours, theirs) < of_feed


def _width(sources: Sequence[Source]) -> int:
    """Return the most fields that a row of some files has; 0 if that is not known."""
    return max((one.width for one in sources if one.width is not None), default=0)


def without_op(config: Config, op: int) -> Config:
    """Return the configuration of rows that lack the op code of the feed: each field after it is one place earlier.

    >>> from mutator.config import parse
    >>> config = without_op(parse({"key": "0,4", "order_by": 1, "op": 2, "report.fields": "-4"}), 2)
    >>> config.id_fields, config.order_field, sorted(config.report_fields.named)
    ((0, 3), 1, ['3'])
    """

    def earlier(one: Any) -> Any:
        return one - 1 if isinstance(one, int) and one > op else one

    shown = config.report_fields
    numbers = frozenset(str(earlier(int(one))) if one.isdigit() else one for one in shown.named if one != str(op))
    return replace(
        config,
        op_field=None,
        id_fields=tuple(map(earlier, config.id_fields)),
        order_field=earlier(config.order_field),
        field_names=(*config.field_names[:op], *config.field_names[op + 1 :]),
        field_count=earlier(config.field_count),
        partitioned_by=moved(config.partitioned_by, earlier),
        report_fields=replace(shown, named=numbers),
    )
