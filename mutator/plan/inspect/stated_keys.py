"""The ID that a producer states in a file beside its feed files, as ``_metadata.json`` of open mirroring does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mutator.config.settings import RowSpec
from mutator.errors.parts import setting
from mutator.plan.inspect.envelopes import key_in
from mutator.plan.inspect.source import Source
from mutator.rules.envelopes import ENVELOPES


def warnings_on_keys(rows: RowSpec, feed: Sequence[Source]) -> Iterator[str]:
    """Yield a warning if the ID is another than the one that is stated."""
    stating = map(key_in, feed if ENVELOPES[rows.ops.envelope].traces.key_file else ())
    names, where = next((one for one in stating if one[0]), ((), ""))
    if names and {*names} != {*map(str, rows.key.ids)}:
        shown, own = ", ".join(names), ", ".join(map(str, rows.key.ids))
        cure = f"if the rows have that one, set {setting(f'key={shown}')} in a new master"
        yield f"{where} says that {shown} is the ID of the rows, and {setting('key')} is {own}: {cure}"
