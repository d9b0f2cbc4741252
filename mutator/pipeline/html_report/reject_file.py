"""The first rows of the file of rejected rows: some to be shown, and more to be counted by reason."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mutator.errors import MutatorError
from mutator.frames.rejected import parsed_rows
from mutator.pipeline.kept_out import without_value
from mutator.storage import located

_READ = 8 << 20  # bytes of the file, at most


@dataclass(frozen=True)
class RejectedRows:
    """Rejected rows. rows: mappings with path, line, offset, reason, and ``row``, its bytes."""

    rows: Sequence[Mapping[str, Any]]
    reasons: Sequence[tuple[str, int]]  # without the values in them, the most frequent first
    counted: int  # rows that ``reasons`` are of


def rejected_rows(path: str | None, samples: Mapping[str, Sequence[Mapping[str, Any]]], most: int) -> RejectedRows:
    """Return the first rejected rows. path: of the file that has all of them. samples: instead, if there is none.

    most: rows to be shown.
    """
    found = _from_file(path) if path is not None else []
    if not found:
        found = [
            {
                "file": row["path"],
                "line": row["line"],
                "offset": row["offset"],
                "reason": row["reason"],
                "row": row["row"],
            }
            for rows in samples.values()
            for row in rows
        ]
    reasons = Counter(without_value(row["reason"]) for row in found)
    return RejectedRows(found[:most], reasons.most_common(), len(found))


def _from_file(path: str) -> list[dict[str, Any]]:
    try:
        storage, full = located(path)
        with storage.open(full) as stream:
            content = stream.read(_READ + 1)
    except (MutatorError, OSError):  # a report does without them
        return []
    if len(content) > _READ:
        content = content[: content.rfind(b"\n", 0, _READ) + 1] or content  # the last row is not whole
    return list(parsed_rows(content))
