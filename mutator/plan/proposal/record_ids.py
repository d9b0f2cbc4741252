"""The fields of the record ID: unique in the master, and the same in the feed's mutations of a record."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from mutator.errors.display import counted
from mutator.plan.proposal.order_fields import is_time, is_time_name
from mutator.plan.proposal.tables import Inputs, SampleRows, SampleTable
from mutator.rules.facts import is_fraction, names_an_id, present

_ENOUGH = 10  # rows that show whether values are unique
_FIELDS = 12  # of which several are tried together
_SCREENED = 2000  # rows that most combinations of fields do not survive
_NAMED = 0.3  # fraction of the feed's rows for which a name such as order_id makes up
_SOME = 0.02  # fraction of rows with the ID of another row that a master may have


@dataclass(frozen=True)
class _Candidate:
    """Fields that may be the record ID, with what the first rows show."""

    fields: tuple[str, ...]
    rows: int  # of the side whose records have one row each
    distinct: int
    feed_ids: int  # different ones in the feed
    known: int  # of these, in the master
    feed_rows: int
    known_rows: int  # of these, with an ID of the master
    named: float  # the first field is called like an ID: 1, like another key: 0.5, or else 0
    plain: bool  # no field is empty, a time or a fraction
    at: int

    @property
    def unique(self) -> bool:
        return self.distinct == self.rows > 0

    @property
    def almost(self) -> bool:
        return self.rows - self.distinct <= _SOME * self.rows

    @property
    def overlap(self) -> float:
        # Of rows: of different values, a field that all new records share would have a greater fraction than the ID.
        return self.known_rows / self.feed_rows if self.feed_rows else 0.0

    def rank(self) -> tuple[bool | float, ...]:
        """Return the sort key; the highest is the best."""
        # Fields that merely have the same few values in both sides overlap, too, but are not unique.
        return (
            self.almost,
            self.plain,
            self.overlap > 0,
            # A few rows show no more than that there is an overlap.
            round(max(self.overlap + _NAMED * self.named, 0.5 * self.named), 1) if self.rows >= _ENOUGH else 0,
            self.named,
            -len(self.fields),
            -self.at,
        )

    def why(self, whose: str | None) -> str:
        """Return the reason. whose: what shows that IDs are unique; None: nothing but the feed."""
        text = f"{counted(self.distinct, 'distinct value')} in {counted(self.rows, 'row')} of {whose or 'the feed'}"
        if whose is not None and self.feed_ids:
            text += f"; {self.known:,} of {counted(self.feed_ids, 'ID')} of the feed occur there"
        return text


@dataclass(frozen=True)
class RecordId:
    """The fields of the record ID, with the reason."""

    fields: tuple[str, ...]
    why: str
    others: tuple[tuple[tuple[str, ...], str], ...] = ()  # other candidates, with their figures
    certain: bool = True


def record_id(inputs: Inputs, op: str | None, whose: str = "the master") -> RecordId | None:
    """Return the fields of the record ID; None if there are no rows, or no field may be one.

    op: the op code field. whose: what the rows of the master are called.
    """
    feed = SampleRows.of(inputs.feed)
    base = SampleRows.of(inputs.master) if any(table.count for table in inputs.master) else feed
    if not base.count:
        return None
    has_master = base is not feed
    if has_master and (alone := _of_ids_alone(inputs, base)):
        return alone
    fields = [name for name in base.fields if name != op and (name in feed.columns or not feed.count)]
    singles = [_candidate((name,), base, feed, has_master, at) for at, name in enumerate(fields)]
    found = [one for one in singles if one.distinct > 1 or base.count == 1 or not has_master]
    if not any(one.almost and one.plain and (one.overlap > 0 or not has_master) for one in found):
        found += _several(singles, base, feed, has_master)
    if not found:
        return None
    if not has_master:
        return _without_master(found, base)
    best = max(found, key=_Candidate.rank)
    return _chosen(best, found, base, whose)


def _chosen(best: _Candidate, found: Sequence[_Candidate], base: SampleRows, whose: str) -> RecordId:
    rivals = [
        one for one in found if one is not best and one.almost and one.plain and len(one.fields) == len(best.fields)
    ]
    rivals.sort(key=_Candidate.rank, reverse=True)
    certain = best.almost and best.plain and (best.unique or best.overlap > 0)
    if rivals and certain:
        rival = rivals[0]
        clearer = best.overlap - rival.overlap > 0.2 and base.count >= _ENOUGH
        most = max(one.named for one in rivals)
        certain = (clearer and best.named >= most) or best.named > most
    others = tuple((one.fields, one.why(whose)) for one in rivals[:3])
    why = best.why(whose)
    if base.count < _ENOUGH:
        why += "; so few rows show little"
    return RecordId(best.fields, why, others, certain)


def _without_master(found: Sequence[_Candidate], feed: SampleRows) -> RecordId:
    """Return a field of the feed: a record may have several mutations, so nothing shows that an ID is unique."""
    singles = [one for one in found if len(one.fields) == 1]
    plain = [one for one in singles if one.plain] or singles
    most = max(one.named for one in plain)
    named = [one for one in plain if one.named == most > 0]
    if feed.count < _ENOUGH:
        best = (named or plain)[0]
    else:
        best = max(named or plain, key=lambda one: (one.distinct > 0.5 * one.rows, -one.at, one.distinct))
    others = tuple((one.fields, one.why(None)) for one in plain if one is not best and one.almost)[:3]
    why = f"{best.why(None)}; without a master nothing shows that it is unique"
    return RecordId(best.fields, why, others, certain=bool(named) and len(named) == 1)


def _candidate(fields: tuple[str, ...], base: SampleRows, feed: SampleRows, has_master: bool, at: int) -> _Candidate:
    keys = base.keys(fields)
    known = set(keys)
    feed_keys = feed.keys(fields) if has_master else []
    mutated = set(feed_keys)
    values = [value for name in fields for value in base.columns[name]]
    return _Candidate(
        fields,
        len(keys),
        len(known),
        len(mutated),
        len(mutated & known),
        len(feed_keys),
        sum(key in known for key in feed_keys),
        _named(fields[0]),
        bool(present(values)) and all(values) and not any(_is_no_id(base, name) for name in fields),
        at,
    )


def _named(field: str) -> float:
    """Return how much a field is called like an ID.

    >>> [_named(field) for field in ("order_id", "sku", "name", "0")]
    [1.0, 0.5, 0.0, 0.0]
    """
    name = field.encode()
    if names_an_id(name, [b"a"]):
        return 1.0
    # Names of people and products are rarely unique, even if those of the first rows are.
    return 0.5 if names_an_id(name, [b"1"]) and not field.lower().endswith("name") else 0.0


def _is_no_id(base: SampleRows, name: str) -> bool:
    """Return whether a field has times or fractions, which IDs rarely are."""
    values = present(base.columns[name])
    if is_time(values) or is_time_name(name):
        return True
    fractions = sum(map(is_fraction, values[:200]))
    return 2 * fractions > len(values[:200])


def _several(singles: Sequence[_Candidate], base: SampleRows, feed: SampleRows, has_master: bool) -> list[_Candidate]:
    """Return two, or else three fields that are unique together. singles: candidates of one field, by position."""
    plain = [one for one in singles if one.plain and one.distinct > 1] or list(singles)
    most = [one.fields[0] for one in plain][:_FIELDS]
    screened = SampleRows(
        base.fields, {name: base.columns[name][:_SCREENED] for name in most}, min(base.count, _SCREENED)
    )
    for size in (2, 3):
        tried = [
            _candidate(fields, base, feed, has_master, at)
            for at, fields in enumerate(combinations(most, size))
            if _are_unique(screened, fields)
        ]
        unique = [one for one in tried if one.almost]
        if any(one.overlap > 0 for one in unique) or (unique and not has_master):
            return unique
    return []


def _are_unique(rows: SampleRows, fields: Sequence[str]) -> bool:
    keys = rows.keys(fields)
    return len(keys) - len(set(keys)) <= _SOME * len(keys)


def _of_ids_alone(inputs: Inputs, base: SampleRows) -> RecordId | None:
    """Return the ID in the order in which delete files have it alone: the fields whose values occur in the master."""
    for table in inputs.ids_alone:
        fields: list[str] = []
        for values in table.columns.values():
            own = set(present(values))
            shares = {name: len(own & set(present(base.columns[name]))) for name in base.fields if name not in fields}
            name = max(shares, key=lambda one: shares[one], default=None)
            if name is None or not shares[name]:
                break
            fields.append(name)
        else:
            keys = base.keys(fields)
            if _are_unique(base, fields):
                why = (
                    f"the rows of {table.file} have these fields alone; {counted(len(set(keys)), 'distinct value')} in "
                    f"{counted(len(keys), 'row')} of the master"
                )
                return RecordId(tuple(fields), why)
    return None


def repeated_in_other_partitions(tables: Sequence[SampleTable], fields: Sequence[str]) -> int:
    """Return how many IDs occur in several partitions of a master."""
    seen: dict[tuple[bytes | None, ...], str] = {}
    repeated = set()
    for table in tables:
        for key in SampleRows.of([table]).keys(fields):
            if seen.setdefault(key, table.directory) != table.directory:
                repeated.add(key)
    return len(repeated)
