"""The fields of the record ID: unique in the master, and the same in the feed's mutations of a record.

A feed of changes without a master shows both: rows that insert records have each ID once (again only after a delete),
and updates and deletes have it again. A field that differs in all rows of it, such as a token, is no ID.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

from mutator.errors.display import counted
from mutator.errors.quick_dataclass import dataclass
from mutator.plan.proposal.order_fields import is_time, is_time_name
from mutator.plan.proposal.tables import Inputs, SampleRows, SampleTable
from mutator.rules.facts import is_fraction, names_an_id, present

_ENOUGH = 10  # rows that show whether values are unique
_FIELDS = 12  # of which several are tried together
_SCREENED = 2000  # rows that most combinations of fields do not survive
_NAMED = 0.3  # fraction of the feed's rows for which a name such as order_id makes up
_SOME = 0.02  # fraction of rows with the ID of another row that a master may have
_ON_PAR = 0.5  # of the best overlap: with so many updates and deletes, a name decides


@dataclass(frozen=True)
class FeedOfChanges:
    """What a feed of changes shows of its records."""

    inserts: SampleRows  # of one kind, such as those of a snapshot
    others: SampleRows  # which insert records, too
    acts: SampleRows  # updates and deletes
    deletes: SampleRows  # of these

    def repeated(self, fields: Sequence[str]) -> int:
        """Return how many inserts have an ID again that no delete had set free."""
        return _repeated(self.inserts, fields, self.deletes)

    def are_unique(self, fields: Sequence[str]) -> bool:
        """Return whether nearly all inserts have an ID of their own; True without rows."""
        return self.repeated(fields) <= _SOME * self.inserts.count

    def met(self, fields: Sequence[str]) -> list[bool]:
        """Return for each update or delete whether it has the ID of an insert, or of another of them."""
        keys = self.acts.keys(fields)
        counts, known = Counter(keys), {*self.inserts.keys(fields), *self.others.keys(fields)}
        return [key in known or counts[key] > 1 for key in keys]


def _repeated(rows: SampleRows, fields: Sequence[str], deletes: SampleRows | None = None) -> int:
    free = Counter[tuple[bytes | None, ...]]() if deletes is None else Counter(deletes.keys(fields))
    return sum(max(0, count - 1 - free[key]) for key, count in Counter(rows.keys(fields)).items())


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
    repeated: int  # rows with the ID of another row

    @property
    def unique(self) -> bool:
        return self.repeated == 0 < self.rows

    @property
    def almost(self) -> bool:
        return self.repeated <= _SOME * self.rows

    @property
    def again(self) -> int:
        """The rows with the ID of another row that a delete had set free."""
        return self.rows - self.distinct - self.repeated

    @property
    def sound(self) -> bool:
        """Whether the ID is unique without many deletes that explain why it comes again."""
        return self.almost and self.plain and 2 * self.again <= self.distinct

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


def record_id(inputs: Inputs, op: str | None, *, is_of_changes: bool = False) -> RecordId | None:
    """Return the fields of the record ID; None if there are no rows, or no field may be one.

    op: the op code field. is_of_changes: the feed has changes, and no op code field.
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
        return _without_master(found, base, repeats=op is not None or is_of_changes)
    best = max(found, key=_Candidate.rank)
    return _chosen(best, found, base)


def _chosen(best: _Candidate, found: Sequence[_Candidate], base: SampleRows) -> RecordId:
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
    others = tuple((one.fields, one.why("the master")) for one in rivals[:3])
    why = best.why("the master")
    if base.count < _ENOUGH:
        why += "; so few rows show little"
    return RecordId(best.fields, why, others, certain)


def record_id_of(changes: FeedOfChanges) -> RecordId | None:
    """Return the fields of the record ID of a feed of changes with inserts; None if no field may be one."""
    base = changes.inserts
    singles = [_of_changes((name,), changes, at) for at, name in enumerate(base.fields)]
    found = [one for one in singles if one.distinct > 1 or base.count == 1]
    if not any(one.sound and (one.overlap > 0 or not one.feed_rows) for one in found):
        plain = [one for one in singles if one.plain and one.distinct > 1] or singles
        most = [one.fields[0] for one in plain][:_FIELDS]
        screened = replace(changes, inserts=_first(base, most))
        for size in (2, 3):
            tried = [fields for fields in combinations(most, size) if screened.are_unique(fields)]
            several = [_of_changes(fields, changes, at) for at, fields in enumerate(tried)]
            several = [one for one in several if one.sound and (one.overlap > 0 or not one.feed_rows)]
            found += several
            if several:
                break
    if not found:
        return None
    fits = [one for one in found if one.sound]
    enough = _ON_PAR * max((one.overlap for one in fits), default=0.0)

    def rank(one: _Candidate) -> tuple[bool | float, ...]:
        several = len(one.fields) > 1  # the name of the first of them says little
        name = 0.0 if several else one.named
        return (
            one.almost,
            one.plain,
            one.sound,
            one.overlap >= enough,
            name,
            round(one.overlap, 1),
            -len(one.fields),
            -one.at,
        )

    best = max(found, key=rank)
    others = [one for one in fits if one is not best and len(one.fields) == len(best.fields)]
    rivals = sorted((one for one in others if one.overlap >= enough), key=rank, reverse=True)
    seen = base.count + best.feed_rows >= _ENOUGH and (best.overlap > 0 or not best.feed_rows)
    seen = seen and 10 * best.again <= best.distinct
    named = len(best.fields) == 1 and best.named > max((one.named for one in rivals), default=0.0)
    clear = not rivals or (base.count >= _ENOUGH and best.overlap - rivals[0].overlap > 0.2)
    certain = best in fits and (named or clear if seen else named and best.named == 1.0 and not best.again)
    why = _why_of(best, base) + ("" if seen else "; so few rows show little")
    return RecordId(best.fields, why, tuple((one.fields, _why_of(one, base)) for one in rivals[:3]), certain)


def _of_changes(fields: tuple[str, ...], changes: FeedOfChanges, at: int) -> _Candidate:
    met = changes.met(fields)
    found = _candidate(fields, changes.inserts, changes.acts, True, at)
    return replace(found, known_rows=sum(met), repeated=changes.repeated(fields))


def _why_of(one: _Candidate, base: SampleRows) -> str:
    text = f"{counted(one.distinct, 'distinct value')} in {counted(one.rows, 'row')} of the inserts in the feed"
    text += f", {one.again:,} of them again after a delete" * bool(one.again)
    if one.feed_rows:
        rows = counted(one.feed_rows, "row")
        text += f"; {one.known_rows:,} of {rows} that update or delete have one of these, or of each other"
    return text


def _without_master(found: Sequence[_Candidate], feed: SampleRows, *, repeats: bool) -> RecordId:
    """Return a field of the feed: a record may have several mutations, so nothing shows that an ID is unique.

    repeats: the feed has updates and deletes, so a field that differs in all of its rows is rarely an ID.
    """
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
    is_clear = len(named) == 1 and (best.repeated > 0 or not repeats)
    return RecordId(best.fields, why, others, certain=is_clear)


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
        len(keys) - len(known),
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
    screened = _first(base, most)
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


def _first(rows: SampleRows, names: Sequence[str]) -> SampleRows:
    """Return some fields of the first rows."""
    columns = {name: rows.columns[name][:_SCREENED] for name in names}
    return SampleRows(tuple(names), columns, min(rows.count, _SCREENED))


def _are_unique(rows: SampleRows, fields: Sequence[str]) -> bool:
    return _repeated(rows, fields) <= _SOME * rows.count


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
