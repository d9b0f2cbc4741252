"""Facts about the inputs that a user should know, and that no setting shows."""

from collections.abc import Sequence

from mutator.errors.display import counted, quoted
from mutator.plan.proposal.file_forms import FileForms, title
from mutator.plan.proposal.inputs import FILES, GivenInputs, Side
from mutator.plan.proposal.layout import Layout
from mutator.plan.proposal.operations import DELETE_CODES, KEEP_OP, OP
from mutator.plan.proposal.tables import Inputs, SampleRows, SampleTable, present
from mutator.rules.file_names import first_few

_MOST_OF = 0.6  # of the IDs of each side
_FLAGS = frozenset((b"true", b"false", b"t", b"f", b"y", b"n", b"yes", b"no", b"0", b"1"))


def notes_on(inputs: Inputs, layout: Layout, given: GivenInputs, ids: Sequence[str], *, has_deletes: bool) -> list[str]:
    """Return notes. ids: the fields of the record ID. has_deletes: the feed has op codes or delete files."""
    notes = [] if has_deletes else _snapshot_notes(inputs, ids)
    if inputs.ids_alone:
        names = first_few([table.file for table in inputs.ids_alone])
        notes.append(f"{names}: rows have fewer fields than those of the other files")
    if not any(table.count for table in (*inputs.feed, *inputs.ids_alone)):
        notes.append("the feed has no rows: nothing shows op codes or how deletes are marked")
    notes += [] if has_deletes else _flag_notes(inputs, layout)
    for name, side in (("master", given.master), ("feed", given.feed)):
        if side is not None and side.files > FILES:
            notes.append(f"{len(side.sources)} of the {side.files:,} files of the {name} were read")
    master_width, feed_width = layout.widths
    if layout.by_position and master_width and feed_width and feed_width not in (master_width, master_width + 1):
        notes.append(f"rows of the master have {counted(master_width, 'field')}, and those of the feed {feed_width}")
    return notes


def _snapshot_notes(inputs: Inputs, ids: Sequence[str]) -> list[str]:
    """Return a note on a feed that may be a complete snapshot: about the master's records, each of them once."""
    master, feed = SampleRows.of(inputs.master).keys(ids), SampleRows.of(inputs.feed).keys(ids)
    in_master, in_feed = set(master), set(feed)
    both = len(in_master & in_feed)
    if not in_master or len(feed) > len(in_feed) or both <= _MOST_OF * max(len(in_master), len(in_feed)):
        return []
    found = f"the feed has {both:,} of the {counted(len(in_master), 'ID')} of the master, each of them once"
    snapshot = (
        "if each delivery is a complete snapshot, set {sync.mode} to full, which deletes the records that it lacks"
    )
    return [f"{found}: {snapshot}"]


def _flag_notes(inputs: Inputs, layout: Layout) -> list[str]:
    """Return a note on a field that may mark deletes by a flag."""
    feed = SampleRows.of(inputs.feed)
    for name, values in feed.columns.items():
        codes = {value.lower() for value in present(values)}
        if "delete" in name.lower() and codes and codes <= _FLAGS:
            shown = " or ".join(quoted(code) for code in sorted(codes))
            names = f"set {{{OP}}} to it, {{{DELETE_CODES}}} to the value of deletes"
            keep = f"{{{KEEP_OP}}} to true if the result keeps the field"
            return [f"field {layout.label(name)} has {shown}: if it marks deletes, {names}, and {keep}"]
    return []


def input_lines(
    given: GivenInputs, master: Sequence[SampleTable], feed: Sequence[SampleTable], forms: FileForms
) -> tuple[str, ...]:
    """Return a line on what was read of the master, and one of the feed."""

    def line(side: Side | None, tables: Sequence[SampleTable]) -> str:
        if side is None:
            return "none yet"
        count = sum(table.count for table in tables)
        others = sum(table.others for table in tables)
        rows = f"{count:,} of {count + others:,} rows" if others else counted(count, "row")
        read = f"{rows} read" if count else "no rows"
        formats = title(side, csv=forms.csv)
        return ", ".join(filter(None, (f"{side.given}: {counted(side.files, 'file')}", formats, read)))

    return f"master  {line(given.master, master)}", f"feed    {line(given.feed, feed)}"
